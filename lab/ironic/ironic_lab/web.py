"""HTTP servers of the simulated machines: many listening sockets, one accepting thread, a thread per connection.

A BMC has few clients with long-lived connections, so a thread for each is cheap, and a slow or broken connection
holds up nobody else. Unlike the servers of the standard library, a listener can be *closed* and opened again without
giving its port away, which is how a BMC that is down looks from outside: connections are refused.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import selectors
import socket
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

from ironic_lab.settings import Tls

LOG = logging.getLogger(__name__)
BACKLOG = 256
IDLE_TIMEOUT = 300.0
"""Seconds until an idle connection is closed; longer than Ironic keeps one unused."""


def tls_context(tls: Tls | None, minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> ssl.SSLContext | None:
    """A server's TLS context, None without TLS."""
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    context.minimum_version = minimum
    return context


class Listener:
    """One listening address; `handler` is called with the connection, the peer and this listener."""

    def __init__(
        self, port: int, handler: Callable[..., Any], tls: ssl.SSLContext | None, address: str = "127.0.0.1"
    ) -> None:
        self.handler = handler
        self.tls = tls
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((address, port))
        self.socket.listen(BACKLOG)
        self.socket.setblocking(False)
        self.is_open = True
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def serve(self, connection: socket.socket, peer: Any) -> None:
        """Serve one connection until it ends."""
        with self._lock:
            if not self.is_open:
                connection.close()
                return
            self._connections.add(connection)
        stream = connection
        try:
            connection.settimeout(IDLE_TIMEOUT)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                stream = self.tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._connections.discard(connection)
                    self._connections.add(stream)
            self.handler(stream, peer, self)
        except OSError:
            pass  # the peer went away, or does not trust us: its own business
        except Exception:
            LOG.exception("a connection failed")
        finally:
            with self._lock:
                self._connections -= {connection, stream}
            with contextlib.suppress(OSError):
                stream.close()

    def close_connections(self) -> None:
        """Reset every connection of this listener."""
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.shutdown(socket.SHUT_RDWR)


class Server:
    """Accepts connections for any number of listeners."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()

    def add(self, listener: Listener) -> Listener:
        """Start to accept connections of a listener."""
        with self._lock:
            self._selector.register(listener.socket, selectors.EVENT_READ, listener)
        return listener

    def set_open(self, listener: Listener, is_open: bool) -> None:
        """Refuse connections and reset the present ones, or accept again. The port stays bound throughout."""
        with self._lock:
            if is_open == listener.is_open:
                return
            listener.is_open = is_open
            if is_open:
                listener.socket.listen(BACKLOG)
                self._selector.register(listener.socket, selectors.EVENT_READ, listener)
            else:
                self._selector.unregister(listener.socket)
                # Linux: a listening socket stops listening, yet keeps its address.
                listener.socket.shutdown(socket.SHUT_RDWR)
        if not is_open:
            listener.close_connections()

    def run(self) -> None:
        """Accept for ever."""
        while True:
            # A finite wait, so that a listener registered meanwhile by another thread is seen on any selector.
            for key, _ in self._selector.select(1.0):
                listener: Listener = key.data
                try:
                    connection, peer = listener.socket.accept()
                except OSError:
                    continue
                connection.setblocking(True)
                threading.Thread(target=listener.serve, args=(connection, peer), daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    """HTTP/1.1 with JSON bodies; subclasses have `do_GET` and so on."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    timeout = IDLE_TIMEOUT
    server: Listener

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are counted, not logged."""

    def handle_expect_100(self) -> bool:
        """Answer `Expect: 100-continue` at once."""
        result = super().handle_expect_100()
        self.wfile.flush()
        return result

    def end_headers(self) -> None:
        """Say so if the connection ends with this answer, as sushy wishes: it would use it again otherwise."""
        if self.close_connection:
            self.send_header("Connection", "close")
        super().end_headers()

    def read_body(self) -> bytes:
        """The request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def read_json(self) -> Any:
        """The request's body as JSON; an empty one is an empty object."""
        body = self.read_body()
        return json.loads(body) if body else {}

    def split_path(self) -> tuple[list[str], dict[str, str]]:
        """The path's parts and the query's first values."""
        url = urllib.parse.urlsplit(self.path)
        query = {key: values[0] for key, values in urllib.parse.parse_qs(url.query).items()}
        return url.path.strip("/").split("/"), query

    def reply(self, code: int, body: Any = None) -> None:
        """Send a JSON answer; None is an empty body."""
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(code)
        if data:
            self.send_header("Content-Type", "application/json")
        if code != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
