"""A simulated server: what its BMC and its ramdisk agent share."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any

from ironic_lab.faults import Faults
from ironic_lab.settings import HostSettings
from ironic_lab.timers import Timers

IRONIC_COMPARES = 2
"""How often Ironic compares the BIOS settings in force with those that it has set."""

BIOS_DEFAULTS = {
    "BootMode": "Uefi",
    "EmbeddedSata": "Raid",
    "L2Cache": "10x256 KB",
    "NicBoot1": "NetworkBoot",
    "NumCores": "10",
    "ProcTurboMode": "Enabled",
    "QuietBoot": "true",
    "SecureBootStatus": "Enabled",
    "SerialNumber": "QPX12345",
    "SysPassword": "",
}
"""The settings of the emulator's attribute registry."""

TURNS_ON = ("On", "ForceOn")
TURNS_OFF = ("ForceOff", "GracefulShutdown")
RESTARTS = ("ForceRestart", "GracefulRestart", "PowerCycle")


class Counters:
    """What a server went through since the instance started; nothing resets these."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)

    def add(self, group: str, name: str) -> None:
        """Count one `name` of a `group`."""
        with self._lock:
            self._groups[group][name] += 1

    def view(self) -> dict[str, dict[str, int]]:
        """All counters."""
        with self._lock:
            return {group: dict(names) for group, names in self._groups.items()}


class Machine:
    """A simulated server.

    `system` is the record that the emulator's fake driver works on: power state, boot device, virtual media, BIOS
    settings and so on. Every change passes through `update`, which tells the observers.
    """

    def __init__(self, settings: HostSettings, faults: Faults, timers: Timers, power_delay: float) -> None:
        self.settings = settings
        self.uuid = settings.uuid
        self.faults = faults
        self.counters = Counters()
        self.deployments: list[dict[str, Any]] = []
        self.has_image = False
        self.subscriptions: dict[str, dict[str, Any]] = {}
        self.system: dict[str, Any] = {
            "uuid": settings.uuid,
            "name": settings.name,
            "power_state": "Off",
            "nics": [{"mac": mac, "ip": None} for mac in settings.macs],
        }
        self._timers = timers
        self._power_delay = power_delay
        self._power_changes = 0
        self._reverts_to: dict[str, str] | None = None
        self._is_shown = False
        self._comparisons = 0
        self._lock = threading.RLock()
        self._observers: list[Callable[[Machine], None]] = []

    @property
    def is_on(self) -> bool:
        """Whether the power is on."""
        return self.system["power_state"] == "On"

    def boots_ramdisk(self) -> bool:
        """Whether the next (or present) boot is from virtual media or the network."""
        device = self.system.get("boot_device", "Hdd")
        return (device == "Cd" and self.cd_image() is not None) or device in ("Pxe", "UefiHttp")

    def boots_image(self) -> bool:
        """Whether it is on, and boots (or has booted) the image that was written to its disk."""
        return self.is_on and self.has_image and not self.boots_ramdisk()

    def cd_image(self) -> str | None:
        """The file of the inserted virtual CD."""
        image, _, inserted = (self.system.get("boot_image") or {}).get("Cd") or (None, None, False)
        return image if inserted else None

    def fault(self, side: str, knob: str) -> Any:
        """The value of a fault knob, None when it is off."""
        return self.faults.get(self.uuid, side, knob)

    def credentials(self) -> tuple[str, str]:
        """User and password that the BMC takes at the moment."""
        changed = self.fault("bmc", "credentials")
        if changed:
            return changed["username"], changed["password"]
        return self.settings.username, self.settings.password

    def observe(self, observer: Callable[[Machine], None]) -> None:
        """Have `observer` called after every change of the machine, in the changing thread."""
        self._observers.append(observer)

    def update(self, **changes: Any) -> None:
        """Change the machine's record."""
        with self._lock:
            was_on = self.is_on
            self.system.update(changes)
            if was_on != self.is_on:
                self.counters.add("power", "switched_on" if self.is_on else "switched_off")
            for observer in self._observers:
                observer(self)

    def request_power(self, request: str) -> bool:
        """Take a Redfish reset type through the BMC; False if there is none of that name.

        The request counts even when the machine is in that state already, or ignores it because of a fault.
        """
        if request not in TURNS_ON + TURNS_OFF + RESTARTS:
            return False
        self.counters.add("power_requests", request)
        if not self.fault("bmc", "power_ignored"):
            self.power(request)
        return True

    def power(self, request: str) -> None:
        """Carry out a Redfish reset type."""
        with self._lock:
            self._power_changes += 1
            if request in RESTARTS and self.is_on:
                self.update(power_state="Off")
            if self._power_delay > 0:
                self._timers.after(self._power_delay, self._settle_power, request, self._power_changes)
            else:
                self._settle_power(request, self._power_changes)

    def _settle_power(self, request: str, change: int) -> None:
        with self._lock:
            if change != self._power_changes:
                return  # overtaken by a later request
            if request in TURNS_OFF:
                self.update(power_state="Off")
                return
            pending = self.system.pop("pending_bios", None)
            if pending and not self.fault("bmc", "settings_ignored"):
                # New BIOS settings take effect with the next boot.
                self._reverts_to = self.bios() if self.fault("bmc", "settings_reverted") else None
                self._is_shown, self._comparisons = False, 0
                self.system["bios"] = {**self.bios(), **pending}
            self.update(power_state="On")

    def bios(self) -> dict[str, str]:
        """The BIOS settings in force."""
        return self.system.get("bios") or BIOS_DEFAULTS

    def bios_was_read(self) -> None:
        """Note that the settings in force were read."""
        with self._lock:
            self._is_shown = self._reverts_to is not None

    def bios_was_compared(self) -> None:
        """Take back settings that are to be reverted.

        Ironic reads those in force and then the pending ones, twice: first it waits for them, then it judges the step.
        What it reads after that is what it keeps.
        """
        with self._lock:
            if self._is_shown and self._reverts_to is not None:
                self._is_shown = False
                self._comparisons += 1
                if self._comparisons == IRONIC_COMPARES:
                    self.system["bios"], self._reverts_to = self._reverts_to, None
