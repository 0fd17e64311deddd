"""The `ipmitool` that Ironic finds: hands its arguments to the simulated machines, see `ironic_lab.ipmi`."""

from __future__ import annotations

import http.client
import json
import os
import sys

WITH_VALUE = frozenset("-I -H -L -p -U -f -P -R -N -C -S -m -b -t -B -T -y".split())


def parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options and command of an `ipmitool` command line."""
    options: dict[str, str] = {}
    command: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in WITH_VALUE:
            options[argument] = next(rest, "")
        elif not argument.startswith("-"):
            command.append(argument)
    return options, command


def main() -> int:
    """Run one command line; the exit status."""
    options, command = parse(sys.argv[1:])
    if not command or "-H" not in options:
        return 0  # Ironic asks which options this program knows
    password = options.get("-P", "")
    if "-f" in options:
        with open(options["-f"], encoding="utf-8") as file:
            password = file.read().strip()
    request = {
        "port": int(options.get("-p", "623")),
        "username": options.get("-U", ""),
        "password": password,
        "command": command,
    }
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["LAB_CONTROL_PORT"]), timeout=60)
    connection.request("POST", "/ipmi", json.dumps(request))
    answer = json.loads(connection.getresponse().read())
    sys.stdout.write(answer["output"] + "\n")
    sys.stderr.write(answer["errors"] + "\n" if answer["errors"] else "")
    return answer["status"]
