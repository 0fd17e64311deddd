"""A log of what nodes went through, one JSON line per change of state, power or lock, with the time.

Polling the API cannot tell when a node became ready for its next step: it sees the change late, and asking costs the
very CPU whose use is measured. So the conductor's own writes are logged.
`crates/lab/src/ironic/moments.rs` reads them.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from typing import Any

FIELDS = ("provision_state", "target_provision_state", "power_state", "target_power_state", "reservation")


def install(path: pathlib.Path) -> None:
    """Log the writes of this process's database connection."""
    from ironic.command import conductor

    stock_warnings = conductor.issue_startup_warnings

    def issue_startup_warnings(conf: Any) -> Any:
        # Called once the conductor's modules are loaded, which must not happen before the options are.
        from ironic.db.sqlalchemy import api

        wrap(api.Connection, StateLog(path))
        return stock_warnings(conf)

    conductor.issue_startup_warnings = issue_startup_warnings


class StateLog:
    """The file, and what was last written of each node."""

    def __init__(self, path: pathlib.Path) -> None:
        # One write per line on a descriptor in append mode: lines of several threads do not mix.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._last: dict[Any, dict[str, Any]] = {}

    def saw(self, node: Any) -> None:
        """A node's record as it now is."""
        self._note(node.id, {"node": node.uuid} | {field: getattr(node, field) for field in FIELDS})

    def released(self, identity: Any) -> None:
        """A node's lock is gone."""
        for number, last in list(self._last.items()):
            if identity in (number, last["node"]):
                self._note(number, last | {"reservation": None})

    def _note(self, number: Any, state: dict[str, Any]) -> None:
        if self._last.get(number) == state:
            return
        self._last[number] = state
        line = {"time": round(time.time(), 3)} | state
        os.write(self._file, (json.dumps(line) + "\n").encode())


def wrap(connection: Any, log: StateLog) -> None:
    """Tell the log what the connection's methods return."""
    for name in ("create_node", "update_node", "reserve_node"):
        setattr(connection, name, seen_by(log, getattr(connection, name)))
    stock_release = connection.release_node

    def release_node(self: Any, tag: str, node_id: Any) -> Any:
        answer = stock_release(self, tag, node_id)
        log.released(node_id)
        return answer

    connection.release_node = release_node


def seen_by(log: StateLog, stock: Any) -> Any:
    """The method, with its result shown to the log."""

    def method(*args: Any, **options: Any) -> Any:
        node = stock(*args, **options)
        log.saw(node)
        return node

    return method
