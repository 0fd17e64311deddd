"""The fault knobs: what is set for all hosts, and for one host on top of that.

The knobs and their meaning are documented on the Rust types that set them (`BmcFaults` and `AgentFaults` in
`crates/lab/src/ironic/faults.rs`); a knob that is absent is off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

ALL = "all"
SIDES = ("bmc", "agent")


class Faults:
    """Current knobs of all hosts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._knobs: dict[tuple[str, str], dict[str, Any]] = {}
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after every change."""
        self._listeners.append(listener)

    def set(self, host: str, side: str, knobs: dict[str, Any]) -> None:
        """Replace the knobs of one side (`bmc` or `agent`) of a host (its uuid, or `all`)."""
        if side not in SIDES:
            raise ValueError(f"no such side: {side}")
        with self._lock:
            self._knobs[host, side] = dict(knobs)
        self._tell()

    def clear(self) -> None:
        """Switch every knob of every host off."""
        with self._lock:
            self._knobs.clear()
        self._tell()

    def get(self, host: str, side: str, knob: str) -> Any:
        """A knob's value for a host: its own, or else the one for all hosts, or else None."""
        own = self._knobs.get((host, side), {}).get(knob)
        return own if own is not None else self._knobs.get((ALL, side), {}).get(knob)

    def view(self) -> dict[str, dict[str, dict[str, Any]]]:
        """All knobs, as host -> side -> knobs."""
        result: dict[str, dict[str, dict[str, Any]]] = {}
        with self._lock:
            for (host, side), knobs in self._knobs.items():
                result.setdefault(host, {})[side] = dict(knobs)
        return result

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
