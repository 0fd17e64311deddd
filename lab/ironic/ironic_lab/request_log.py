"""A log of the requests that Ironic's API answered, one JSON line each: who asked what, how it ended, how long it took.

`crates/lab/src/ironic/requests.rs` counts them.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Any

COLLECTIONS = frozenset(
    "allocations chassis conductors deploy_templates drivers heartbeat nodes portgroups ports runbooks volume".split()
)
WORDS = frozenset(["detail"])
"""What follows a collection's name without being a member of it."""


class RequestLog:
    """WSGI middleware that logs."""

    def __init__(self, app: Callable[..., Iterable[bytes]], path: pathlib.Path) -> None:
        self._app = app
        # One write per line on a descriptor in append mode: lines of several threads do not mix.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __call__(self, environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        begin = time.monotonic()
        status = 0
        name = user(environment.get("HTTP_AUTHORIZATION", ""))  # now: Ironic drops the header

        def note_status(line: str, headers: Any, *error: Any) -> Any:
            nonlocal status
            status = int(line.split(" ", 1)[0])
            return start_response(line, headers, *error)

        try:
            return self._app(environment, note_status)
        finally:
            entry = {
                "time": round(time.time(), 3),
                "method": environment["REQUEST_METHOD"],
                "path": path_class(environment.get("PATH_INFO", "")),
                "member": member(environment.get("PATH_INFO", "")),
                "query": bool(environment.get("QUERY_STRING")),
                "status": status,
                "user": name,
                "agent": environment.get("HTTP_USER_AGENT", ""),
                "ms": round((time.monotonic() - begin) * 1000, 1),
            }
            os.write(self._file, (json.dumps(entry) + "\n").encode())


def path_class(path: str) -> str:
    """A path with every member of a collection replaced by `{id}`: `/v1/nodes/{id}/states/provision`."""
    parts = path.rstrip("/").split("/")
    for number in range(1, len(parts)):
        if parts[number - 1] in COLLECTIONS and parts[number] not in WORDS:
            parts[number] = "{id}"
    return "/".join(parts) or "/"


def member(path: str) -> str:
    """The first member of a collection that the path names, such as a node's UUID; empty where it names none."""
    parts = path.rstrip("/").split("/")
    for number in range(1, len(parts)):
        if parts[number - 1] in COLLECTIONS and parts[number] not in WORDS:
            return parts[number]
    return ""


def user(authorization: str) -> str:
    """The user name of HTTP basic authentication, empty without it."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value).decode("utf-8", "replace").partition(":")[0]
    except ValueError:
        return ""
