"""What a ramdisk makes of the network data that Ironic wrote into its ISO."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from ironic_lab import config_drive

FILE = config_drive.FOLDER + "network_data.json"
CARDS = ("phy", "ethernet")


def addresses(image: str | None, macs: list[str]) -> list[str] | None:
    """The static addresses of a server with these cards, as `address/prefix length`. None without network data.

    Raises ValueError for network data that a ramdisk could not apply: it would reach nobody.
    """
    content = config_drive.read_file(image, FILE) if image else None
    return None if content is None else _apply(json.loads(content), {mac.lower() for mac in macs})


def _apply(data: dict[str, Any], macs: set[str]) -> list[str]:
    links = {link["id"]: link for link in data.get("links", [])}
    for name, link in links.items():
        below = link.get("bond_links", [])
        below = [link["vlan_link"]] if "vlan_link" in link else below
        if unknown := [other for other in below if other not in links]:
            raise ValueError(f"link {name} is made of links that do not exist: {unknown}")
        mac = str(link.get("ethernet_mac_address", "")).lower()
        if link["type"] in CARDS and mac not in macs:
            raise ValueError(f"link {name} has no card: {mac!r}")
    static = []
    for network in data.get("networks", []):
        if network["link"] not in links:
            raise ValueError(f"network {network['id']} is on a link that does not exist: {network['link']}")
        if network["type"] in ("ipv4", "ipv6"):
            # With a prefix length of its own, or a netmask beside it.
            address = str(network["ip_address"])
            if "/" not in address:
                address = f"{address}/{network['netmask']}"
            static.append(str(ipaddress.ip_interface(address)))
    return static
