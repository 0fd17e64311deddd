"""IPMI BMCs: what the `ipmitool` stand-in's command lines do to a machine.

Nothing of IPMI goes over a wire. Ironic's driver runs `ipmitool`, finds `bin/ipmitool` first in its `PATH`, and that
one hands its arguments to the process of the simulated machines.
"""

from __future__ import annotations

import time

from ironic_lab.machine import Machine

NO_SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session"
POWER = {
    "power on": "On",
    "power off": "ForceOff",
    "power soft": "GracefulShutdown",
    "power reset": "ForceRestart",
    "power cycle": "PowerCycle",
}
BOOT_DEVICES = {"pxe": "Pxe", "disk": "Hdd", "cdrom": "Cd"}
BOOT_SELECTORS = {0x04: "Pxe", 0x08: "Hdd", 0x14: "Cd"}
"""Device selectors in the second data byte of boot option 5."""
SELECTOR_NAMES = {
    "Pxe": "Force PXE",
    "Hdd": "Force Boot from default Hard-Drive",
    "Cd": "Force Boot from CD/DVD",
}


def run(machine: Machine, username: str, password: str, command: list[str]) -> tuple[int, str, str]:
    """Run a command against a machine's BMC; exit status, output and errors."""
    text = " ".join(command)
    machine.counters.add("bmc_requests", text)
    delay = machine.fault("bmc", "delay")
    if delay:
        time.sleep(delay)
    if machine.fault("bmc", "down") or machine.fault("bmc", "status"):
        return 1, "", NO_SESSION
    if (username, password) != machine.credentials():
        return 1, "", f"{NO_SESSION}: RAKP 2 HMAC is invalid"
    return 0, _run(machine, text, command), ""


def _run(machine: Machine, text: str, command: list[str]) -> str:
    if text == "power status":
        return f"Chassis Power is {machine.system['power_state'].lower()}"
    if text in POWER:
        machine.request_power(POWER[text])
        return f"Chassis Power Control: {text}"
    if text.startswith("chassis bootdev") and len(command) > 2:
        machine.update(boot_device=BOOT_DEVICES.get(command[2], "Hdd"))
        return f"Set Boot Device to {command[2]}"
    if text.startswith("chassis bootparam get"):
        selector = SELECTOR_NAMES.get(machine.system.get("boot_device", ""), "No override")
        return f" Boot Device Selector : {selector}\n Options apply to only next boot"
    if text.startswith("raw 0x00 0x08 0x05") and len(command) > 5:
        device = BOOT_SELECTORS.get(int(command[5], 16))
        if device:
            machine.update(boot_device=device)
        return ""
    if text.startswith("mc info"):
        return "Device ID : 32\nManufacturer ID : 10876\nManufacturer Name : Supermicro\nProduct ID : 1 (0x1)"
    return ""
