"""The simulated servers of an instance: `python -m ironic_lab.machines INSTANCE.JSON`.

One process for all of them: BMCs, ramdisk agents, the image server and the control API.
"""

from __future__ import annotations

import logging
import sys

from ironic_lab import redfish
from ironic_lab.agent import Ramdisks
from ironic_lab.agent_server import AgentListener
from ironic_lab.control import ControlListener
from ironic_lab.faults import Faults
from ironic_lab.image_server import ImageListener
from ironic_lab.machine import Machine
from ironic_lab.settings import Settings
from ironic_lab.timers import Timers
from ironic_lab.web import Server, tls_context


def main() -> None:
    """Serve until killed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    settings = Settings.load(sys.argv[1])
    timers = Timers(threads=min(max(16, len(settings.hosts)), 64))
    faults = Faults()
    machines = [Machine(host, faults, timers, settings.power_delay) for host in settings.hosts]
    log = open(settings.folder / "log" / "agents.jsonl", "a", buffering=1, encoding="utf-8")
    ramdisks = Ramdisks(settings, timers, log)
    for machine in machines:
        machine.observe(ramdisks.machine_changed)

    server = Server()
    app = redfish.application(settings, machines)
    context = tls_context(settings.tls)
    bmcs = [
        redfish.BmcListener(machine, app, context, settings.address)
        for machine in machines
        if machine.settings.protocol == "redfish"
    ]

    def open_and_close_bmcs() -> None:
        for bmc in bmcs:
            server.set_open(bmc, not bmc.machine.fault("bmc", "down"))

    faults.on_change(open_and_close_bmcs)
    for listener in bmcs:
        server.add(listener)
    server.add(ImageListener(settings.image_port, settings))
    if context is not None:
        server.add(ImageListener(settings.image_https_port, settings, context))
    server.add(AgentListener(ramdisks))
    server.add(ControlListener(settings.control_port, machines, ramdisks, faults))
    server.run()


if __name__ == "__main__":
    main()
