"""The fault knobs: what is set for all hosts, and for one host on top of that. A knob that is absent is off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

ALL = "all"

#: What each side of a host can be made to do.
KNOBS: dict[str, dict[str, str]] = {
    "bmc": {
        "credentials": "{username, password}: only these are taken; those that were right are wrong now",
        "down": "nobody listens at the address, and open connections are reset",
        "delay": "every request takes so many seconds longer",
        "status": "every request is answered with this HTTP status; an IPMI BMC is silent then",
        "power_ignored": "requests to change the power are accepted, and nothing happens",
        "power_refused": "requests to change the power are refused with status 400",
        "settings_refused": "changes of BIOS settings are refused with status 400",
        "settings_ignored": "changes of BIOS settings are accepted, and never come into force",
        "settings_reverted": "changed BIOS settings are in force until they were compared twice, and then no more",
        "updates_refused": "updates of firmware are refused with status 400",
        "slow_virtual_media": "inserting and ejecting virtual media take so many seconds longer",
        "no_virtual_media": "inserting virtual media fails with status 500",
        "virtual_media_stays": "ejecting virtual media fails with status 500",
        "slow_subscriptions": "making and ending subscriptions to events take so many seconds longer",
        "subscriptions_refused": "new subscriptions to events are refused with status 400",
        "subscriptions_stay": "the deletion of subscriptions to events is refused with status 400",
    },
    "agent": {
        "boot_delay": "seconds that the next ramdisk takes to boot",
        "step_delay": "seconds that each step takes",
        "no_dhcp": "its network gives no addresses: a ramdisk without a static one reaches nobody",
        "never": "what it never gets to: boot, inspect, look_up or heartbeat",
        "dies_in_step": "it dies as soon as it has begun the step of this name",
        "hangs_in_step": "the step of this name does not end until the knob is off; heartbeats go on",
        "fails_step": "{step: text}: steps that fail, with the text that they fail with",
        "wrong_token": "heartbeats carry a token that Ironic did not give",
        "inspection_error": "an inspection ends with this error",
        "inventory": "{nics, disks, architecture, vendor, product, memory_mib, cpus, merge}: what an inspection reports",
    },
}
SIDES = tuple(KNOBS)


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
        if unknown := set(knobs) - set(KNOBS[side]):
            raise ValueError(f"no such knobs of {side}: {sorted(unknown)}")
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
