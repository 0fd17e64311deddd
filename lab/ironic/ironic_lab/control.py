"""How the lab steers and watches the simulated machines: a small HTTP API without TLS, for this machine only.

GET    /machines          every machine: power, agent, counters
GET    /machines/<uuid>   one machine, with its deployments and their config drives
POST   /machines/<uuid>/power-cut   the machine loses its power, past its BMC
GET    /faults            all fault knobs
POST   /faults            {"host": "<uuid>" | "all", "bmc": {...}, "agent": {...}}: replaces the sides it names
DELETE /faults            every knob off
POST   /ipmi              one command of the `ipmitool` stand-in
"""

from __future__ import annotations

from typing import Any

from ironic_lab import config_drive, ipmi
from ironic_lab.agent import Ramdisks
from ironic_lab.faults import ALL, SIDES, Faults
from ironic_lab.machine import Machine
from ironic_lab.web import Handler, Listener


class ControlListener(Listener):
    """The address of the control API."""

    def __init__(self, port: int, machines: list[Machine], ramdisks: Ramdisks, faults: Faults) -> None:
        super().__init__(port, ControlHandler, None)
        self.machines = {machine.uuid: machine for machine in machines}
        self.ipmi = {machine.settings.port: machine for machine in machines if machine.settings.protocol == "ipmi"}
        self.ramdisks = ramdisks
        self.faults = faults


class ControlHandler(Handler):
    """One connection to the control API."""

    server: ControlListener

    def do_GET(self) -> None:
        """Machines and knobs."""
        parts, _ = self.split_path()
        if parts == ["machines"]:
            self.reply(200, {"machines": [self._view(machine) for machine in self.server.machines.values()]})
        elif len(parts) == 2 and parts[0] == "machines" and parts[1] in self.server.machines:
            machine = self.server.machines[parts[1]]
            self.reply(200, {**self._view(machine), "deployments": _deployments(machine)})
        elif parts == ["faults"]:
            self.reply(200, self.server.faults.view())
        else:
            self.reply(404, {"error": "not found"})

    def do_POST(self) -> None:
        """Set knobs, cut a machine's power, or run an IPMI command."""
        parts, _ = self.split_path()
        body = self.read_json()
        if parts == ["faults"]:
            host = body["host"]
            if host != ALL and host not in self.server.machines:
                self.reply(404, {"error": f"no such host: {host}"})
                return
            for side in SIDES:
                if side in body:
                    self.server.faults.set(host, side, body[side])
            self.reply(200, self.server.faults.view())
        elif len(parts) == 3 and parts[::2] == ["machines", "power-cut"] and parts[1] in self.server.machines:
            self.server.machines[parts[1]].power("ForceOff")
            self.reply(200, {})
        elif parts == ["ipmi"]:
            self.reply(200, self._run_ipmi(body))
        else:
            self.reply(404, {"error": "not found"})

    def do_DELETE(self) -> None:
        """Clear all knobs."""
        self.server.faults.clear()
        self.reply(200, {})

    def _run_ipmi(self, request: dict[str, Any]) -> dict[str, Any]:
        machine = self.server.ipmi.get(request["port"])
        if machine is None:
            return {"status": 1, "output": "", "errors": ipmi.NO_SESSION}
        status, output, errors = ipmi.run(machine, request["username"], request["password"], request["command"])
        return {"status": status, "output": output, "errors": errors}

    def _view(self, machine: Machine) -> dict[str, Any]:
        agent = self.server.ramdisks.of(machine.uuid)
        return {
            "uuid": machine.uuid,
            "name": machine.settings.name,
            "is_on": machine.is_on,
            "boot_device": machine.system.get("boot_device", "Hdd"),
            "virtual_cd": machine.cd_image() is not None,
            "deploys": len(machine.deployments),
            "runs_image": machine.boots_image() and not (agent is not None and agent.is_alive),
            "counters": machine.counters.view(),
            "event_subscriptions": len(machine.subscriptions),
            "bios": machine.bios(),
            "agent": None
            if agent is None
            else {
                "state": agent.state,
                "is_alive": agent.is_alive,
                "node": agent.node,
                "addresses": agent.addresses,
                "commands": [
                    {"name": command.name, "step": command.step, "status": command.status}
                    for command in list(agent.commands)
                ],
            },
        }


def _deployments(machine: Machine) -> list[dict[str, Any]]:
    return [
        {**deployment, "config_drive": config_drive.decode(deployment["config_drive"])}
        for deployment in list(machine.deployments)
    ]
