"""The server of images: what Ironic, BMCs and agents download, from the instance's `http` folder."""

from __future__ import annotations

import http.server
import pathlib
from typing import Any

from ironic_lab.web import IDLE_TIMEOUT, Listener


class ImageListener(Listener):
    """The address of the image server."""

    def __init__(self, port: int, folder: pathlib.Path) -> None:
        super().__init__(port, ImageHandler, None)
        self.folder = folder


class ImageHandler(http.server.SimpleHTTPRequestHandler):
    """One connection to the image server."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_TIMEOUT

    def __init__(self, connection: Any, peer: Any, listener: ImageListener) -> None:
        super().__init__(connection, peer, listener, directory=str(listener.folder))

    def log_message(self, format: str, *args: Any) -> None:
        """Downloads are not logged."""
