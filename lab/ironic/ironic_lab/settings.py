"""What an instance of the lab consists of, as read from its `instance.json`."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files of the instance's certificate, PEM."""

    ca: str
    certificate: str
    key: str


@dataclasses.dataclass(frozen=True)
class HostSettings:
    """One simulated server."""

    uuid: str
    name: str
    protocol: str
    """`redfish` or `ipmi`."""
    port: int
    """Where its BMC listens; an IPMI host's is only a number that `ipmitool` is given."""
    username: str
    password: str
    macs: list[str]


@dataclasses.dataclass(frozen=True)
class Settings:
    """One instance of the lab."""

    folder: pathlib.Path
    ironic_url: str
    agent_port: int
    control_port: int
    image_port: int
    image_https_port: int
    tls: Tls | None
    hosts: list[HostSettings]
    power_delay: float
    """Seconds until a power change takes effect."""
    boot_delay: float
    """Seconds from power-on until the ramdisk's agent runs."""
    step_delay: float
    """Seconds that every clean, deploy or service step takes."""
    heartbeat_limit: float
    """The longest time between two heartbeats, in seconds."""
    extra_deploy_steps: list[str]
    """Names of in-band deploy steps offered besides the usual ones."""
    address: str = "127.0.0.1"
    """Where everything listens. Another one where Ironic runs in a network of its own."""

    @classmethod
    def load(cls, path: str | pathlib.Path) -> Settings:
        """Read an `instance.json`; keys that this module does not know belong to others."""
        path = pathlib.Path(path)
        raw: dict[str, Any] = json.loads(path.read_text())
        known = {field.name for field in dataclasses.fields(cls)}
        values = {key: value for key, value in raw.items() if key in known}
        values["folder"] = path.parent.resolve()
        values["tls"] = Tls(**raw["tls"]) if raw.get("tls") else None
        values["hosts"] = [HostSettings(**host) for host in raw["hosts"]]
        return cls(**values)
