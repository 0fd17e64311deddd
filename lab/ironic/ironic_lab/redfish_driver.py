"""The Redfish emulator's driver: a richer and quicker one than its own fake driver.

Its own changes the power after a random delay of up to eleven seconds and only when somebody looks, keeps its state in
pickled files, and knows no BIOS settings, processors or memory.
"""

from __future__ import annotations

import threading
from typing import Any

from sushy_tools import error
from sushy_tools.emulator.resources.systems import fakedriver

from ironic_lab.machine import Machine

CURRENT = threading.local()
"""`CURRENT.machine` is the machine whose BMC is answering in this thread: a BMC knows no system but its own."""


class Driver(fakedriver.FakeDriver):
    """All machines, of which a request sees the one that it was sent to."""

    def __init__(self, machines: list[Machine]) -> None:
        self._machines = {machine.uuid: machine for machine in machines}
        self._by_name = {machine.settings.name: machine.uuid for machine in machines}

    def _machine(self, identity: str) -> Machine:
        own: Machine = CURRENT.machine
        if identity == own.uuid:
            return own
        if identity == own.settings.name:
            raise error.AliasAccessError(own.uuid)
        raise error.NotFound(f"There is no system {identity} behind this BMC")

    def _get(self, identity: str) -> dict[str, Any]:
        return self._machine(identity).system

    def _update(self, system: Any, **changes: Any) -> None:
        identity = system if isinstance(system, str) else system["uuid"]
        self._machine(identity).update(**changes)

    @property
    def systems(self) -> list[str]:
        """Every system that this BMC has."""
        return [CURRENT.machine.uuid]

    def set_power_state(self, identity: str, state: str) -> None:
        if not self._machine(identity).request_power(state):
            raise error.NotSupportedError(f"Power state {state} is not supported")

    def get_bios(self, identity: str) -> dict[str, str]:
        return self._machine(identity).bios()

    def set_bios(self, identity: str, attributes: dict[str, str]) -> None:
        pending = self._get(identity).get("pending_bios") or {}
        self._update(identity, pending_bios={**pending, **attributes})

    def reset_bios(self, identity: str) -> None:
        self._update(identity, bios=None, pending_bios=None)

    def get_versions(self, identity: str) -> dict[str, str]:
        return self._get(identity).get("versions") or {"BiosVersion": "1.0.0"}

    def set_versions(self, identity: str, versions: dict[str, str]) -> None:
        self._update(identity, versions=versions)

    def reset_versions(self, identity: str) -> None:
        self._update(identity, versions=None)

    def get_total_memory(self, identity: str) -> int:
        return 16

    def get_total_cpus(self, identity: str) -> int:
        return 8

    def get_processors(self, identity: str) -> list[dict[str, str]]:
        return [{"id": "CPU0", "socket": "CPU 0", "vendor": "Fake", "model": "Fake CPU", "cores": "4", "threads": "8"}]

    def get_simple_storage_collection(self, identity: str) -> dict[str, Any]:
        disk = {"Name": "sda", "CapacityBytes": 100 << 30}
        return {"virtio": {"Id": "virtio", "Name": "virtio", "DeviceList": [disk]}}

    def find_or_create_storage_volume(self, data: dict[str, Any]) -> str:
        return data["Id"]

    def get_http_boot_uri(self, identity: str) -> str | None:
        return self._get(identity).get("http_boot_uri")

    def set_http_boot_uri(self, uri: str) -> None:
        # The emulator does not say of which system.
        CURRENT.machine.update(http_boot_uri=uri)
