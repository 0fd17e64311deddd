"""Lets cloud-init read what was rendered for a machine, and tells what it understood.

Run with the modules of one version of cloud-init on PYTHONPATH. A request comes as JSON on standard input; the answer
goes as JSON to standard output:

    {"networks": {NAME: YAML, ...}, "macs": {MAC: INTERFACE, ...}}   network data, and the machine's interfaces
        -> {NAME: {"interfaces": {...}, "dns": [...], "warnings": [...]}}
    {"yaml": [TEXT, ...]}
        -> what PyYAML reads, text by text
    {"templates": [{"user_data": TEXT, "instance_data": {...}}, ...]}   user data that is a template
        -> [{"rendered": TEXT or null, "warnings": [...]}, ...]
"""

import json
import logging
import sys
from typing import Any

import yaml
from cloudinit import net
from cloudinit.handlers import jinja_template
from cloudinit.net import network_state
from cloudinit.sources.helpers import openstack


class Warnings(logging.Handler):
    """Keeps what cloud-init warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        self.texts.append(record.getMessage())


WARNINGS = Warnings()


def main() -> None:
    """Answers one request."""
    logging.getLogger().addHandler(WARNINGS)
    # The machine that tests run on is not the one that the data is for.
    net.get_ib_hwaddrs_by_interface = dict
    request = json.load(sys.stdin)
    if "yaml" in request:
        answer: Any = [yaml.safe_load(text) for text in request["yaml"]]
    elif "templates" in request:
        answer = [template(**each) for each in request["templates"]]
    else:
        answer = {name: network(text, request["macs"]) for name, text in request["networks"].items()}
    json.dump(answer, sys.stdout)


def network(text: str, macs: dict[str, str]) -> dict[str, Any]:
    """Reads network data as the machine does, and sums up what its interfaces become."""
    WARNINGS.texts.clear()
    config = openstack.convert_net_json(yaml.safe_load(text), known_macs=macs)
    state = network_state.parse_net_config_data(config, skip_broken=False)
    interfaces = {interface["name"]: interface for interface in state.iter_interfaces()}
    return {
        "interfaces": {name: summary(interface, interfaces) for name, interface in interfaces.items()},
        "dns": state.dns_nameservers,
        "warnings": list(WARNINGS.texts),
    }


def summary(interface: dict[str, Any], all_of_them: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What matters of an interface; what it does not have is left out."""
    addresses, dynamic, routes, dns = [], [], [], []
    for subnet in interface["subnets"]:
        if subnet["type"] in ("static", "static6"):
            addresses.append(f"{subnet['address']}/{subnet['prefix']}")
        else:
            dynamic.append(subnet["type"])
        for route in subnet["routes"]:
            via = f" via {route['gateway']}" if "gateway" in route else ""
            routes.append(f"{route['network']}/{route['prefix']}{via}")
        dns.extend(server for server in subnet.get("dns_nameservers", []) if server not in dns)
    parts = {
        "mac": interface["mac_address"],
        "mtu": interface["mtu"],
        "bond": bond(interface, all_of_them) if interface["type"] == "bond" else None,
        "in": interface.get("bond-master"),
        "vlan": interface.get("vlan_id"),
        "on": interface.get("vlan-raw-device"),
        "addresses": addresses,
        "dynamic": dynamic,
        "routes": routes,
        "dns": dns,
    }
    return {name: part for name, part in parts.items() if part is not None and part != []}


def bond(interface: dict[str, Any], all_of_them: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The parameters of a bond. Versions differ over hyphens and underscores in their names."""
    links = [name for name, other in all_of_them.items() if other.get("bond-master") == interface["name"]]
    names = {key: key[len("bond_") :].replace("_", "-") for key in interface if key.startswith(("bond_", "bond-"))}
    parameters = {name: interface[key] for key, name in names.items() if name not in ("slaves", "master")}
    return {"links": links, **parameters}


def template(user_data: str, instance_data: dict[str, Any]) -> dict[str, Any]:
    """Renders user data as the machine does."""
    WARNINGS.texts.clear()
    try:
        rendered = jinja_template.render_jinja_payload(user_data, "user-data", instance_data)
    except Exception as error:  # what cloud-init does not catch ends in its log
        return {"rendered": None, "warnings": [*WARNINGS.texts, str(error)]}
    return {"rendered": rendered, "warnings": list(WARNINGS.texts)}


if __name__ == "__main__":
    main()
