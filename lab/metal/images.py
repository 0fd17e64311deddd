"""images.py ADDRESS PORT FOLDER: serves a folder. What lies under /images is also found under /redirected, by way of a redirect."""

import functools
import http.server
import sys

PREFIX = "/redirected/"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files, and redirects to them."""

    def send_head(self):
        """Both GET and HEAD come here."""
        if not self.path.startswith(PREFIX):
            return super().send_head()
        self.send_response(302)
        self.send_header("Location", "/images/" + self.path.removeprefix(PREFIX))
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None


address, port, folder = sys.argv[1:]
handler = functools.partial(Handler, directory=folder)
http.server.ThreadingHTTPServer((address, int(port)), handler).serve_forever()
