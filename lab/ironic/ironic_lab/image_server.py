"""The server of images: what Ironic, BMCs and agents download, from the instance's `http` folder.

What stands before the file's path asks for what servers of images do besides:

    /redirect/CODE/...      a redirect to the rest, with this code
    /relative/...           a redirect to the rest, without a server's name
    /to-https/...           a redirect to the rest over TLS
    /loop/...               a redirect to itself
    /no-head/...            the rest, but no HEAD
    /~/...                  the rest

They can stand one before another, which makes a chain. The empty path is the image, and queries are ignored.
"""

from __future__ import annotations

import http
import http.server
import ssl
import urllib.parse
from typing import Any

from ironic_lab.settings import Settings
from ironic_lab.web import IDLE_TIMEOUT, Listener

IMAGE = "/images/tiny.img"


class ImageListener(Listener):
    """An address of the image server."""

    def __init__(self, port: int, settings: Settings, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(port, ImageHandler, tls, settings.address)
        self.folder = settings.folder / "http"
        self.https = f"https://{settings.address}:{settings.image_https_port}"


class ImageHandler(http.server.SimpleHTTPRequestHandler):
    """One connection to the image server."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_TIMEOUT

    def __init__(self, connection: Any, peer: Any, listener: ImageListener) -> None:
        self.https = listener.https
        super().__init__(connection, peer, listener, directory=str(listener.folder))

    def log_message(self, format: str, *args: Any) -> None:
        """Downloads are not logged."""

    def do_GET(self) -> None:
        """Send a file, or the answer that its path asks for."""
        if not self.is_answered():
            super().do_GET()

    def do_HEAD(self) -> None:
        """The same without the file."""
        if not self.is_answered():
            super().do_HEAD()

    def is_answered(self) -> bool:
        """Answer what a path asks for besides its file, and leave the file's path."""
        path = urllib.parse.urlsplit(self.path).path
        while True:
            kind, _, rest = path[1:].partition("/")
            match kind:
                case "redirect":
                    code, _, rest = rest.partition("/")
                    return self.redirect(int(code), f"http://{self.headers['Host']}/{rest}")
                case "relative":
                    return self.redirect(302, f"/{rest}")
                case "to-https":
                    return self.redirect(302, f"{self.https}/{rest}")
                case "loop":
                    return self.redirect(302, path)
                case "no-head" if self.command == "HEAD":
                    self.send_error(405)
                    return True
                case "no-head" | "~":
                    path = f"/{rest}"
                case _:
                    self.path = IMAGE if path in ("", "/") else path
                    return False

    def redirect(self, code: int, target: str) -> bool:
        """Send elsewhere."""
        self.send_response(code)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True
