"""What a ramdisk tells about its server."""

from __future__ import annotations

from typing import Any

from ironic_lab.machine import Machine

GIB = 1 << 30
DEFAULT_DISKS: list[dict[str, Any]] = [
    {"name": "/dev/sda", "model": "FakeDisk", "size": 100 * GIB},
    {"name": "/dev/nvme0n1", "model": "FakeNVMe", "size": 500 * GIB},
]


def ramdisk_report(machine: Machine) -> dict[str, Any]:
    """The body that an agent posts to Ironic at the end of an inspection."""
    variation = machine.fault("agent", "inventory") or {}
    macs = _macs(machine, variation.get("nics"))
    inventory = _inventory(machine, macs, variation)
    merge(inventory, variation.get("merge") or {})
    return {
        "inventory": inventory,
        "boot_interface": "01-" + macs[0].replace(":", "-"),
        "error": machine.fault("agent", "inspection_error"),
        "configuration": {
            "collectors": ["default", "logs"],
            "managers": [{"name": "generic_hardware_manager", "version": "1.2"}],
        },
    }


def merge(target: dict[str, Any], changes: dict[str, Any]) -> None:
    """Merge `changes` into `target`: objects member by member, everything else replaced."""
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value


def _macs(machine: Machine, count: int | None) -> list[str]:
    """The server's MACs, cut or extended to `count`: further ones differ in the last byte only."""
    macs = list(machine.settings.macs)
    if count is None:
        return macs
    prefix = macs[0].rsplit(":", 1)[0]
    return (macs + [f"{prefix}:{number:02x}" for number in range(len(macs) + 1, count + 1)])[: max(count, 1)]


def _inventory(machine: Machine, macs: list[str], variation: dict[str, Any]) -> dict[str, Any]:
    key = macs[0].replace(":", "")
    memory_mib = variation.get("memory_mib") or 16384
    cpus = variation.get("cpus") or 8
    disks = variation.get("disks")
    return {
        "interfaces": [_interface(number, mac) for number, mac in enumerate(macs)],
        "cpu": {
            "model_name": "Fake CPU @ 2.10GHz",
            "frequency": "2100.0",
            "count": cpus,
            "architecture": variation.get("architecture") or "x86_64",
            "flags": ["fpu", "mmx", "sse2", "vmx"],
            "socket_count": 1,
        },
        "disks": [_disk(key, number, disk) for number, disk in enumerate(DEFAULT_DISKS if disks is None else disks)],
        "memory": {"total": memory_mib << 20, "physical_mb": memory_mib},
        "bmc_address": "0.0.0.0",
        "bmc_v6address": "::/0",
        "system_vendor": {
            "product_name": variation.get("product") or "FakeServer",
            "serial_number": "SN" + key,
            "manufacturer": variation.get("vendor") or "Fake",
            "firmware": {"vendor": "EDK II", "version": "2024.02", "build_date": "02/01/2024"},
        },
        "boot": {"current_boot_mode": "uefi", "pxe_interface": macs[0]},
        "hostname": machine.settings.name,
    }


def _interface(number: int, mac: str) -> dict[str, Any]:
    # Chassis id, port id, time to live and the switch's name, as LLDP TLVs in hex.
    lldp = [[1, "04112233aabbcc"], [2, "07373334"], [3, "0078"], [5, "7377697463682d31"]] if number == 0 else None
    return {
        "name": f"eth{number}",
        "mac_address": mac,
        "ipv4_address": f"172.22.{int(mac[12:14], 16)}.{int(mac[9:11], 16) + 1}" if number == 0 else None,
        "ipv6_address": None,
        "has_carrier": True,
        "lldp": lldp,
        "vendor": "0x1af4",
        "product": "0x0001",
        "client_id": None,
        "biosdevname": None,
        "speed_mbps": 10000,
        "pci_address": f"0000:00:{3 + number:02x}.0",
        "driver": "virtio_net",
    }


def _disk(key: str, number: int, disk: dict[str, Any]) -> dict[str, Any]:
    """A disk with all the agent's fields; those that `disk` names win."""
    is_nvme = str(disk.get("name", "")).startswith("/dev/nvme")
    wwn = None if is_nvme else f"0x5000c5{number:02x}{key[-8:]}"
    defaults: dict[str, Any] = {
        "name": f"/dev/sd{chr(ord('a') + number)}",
        "model": "FakeDisk",
        "size": 100 * GIB,
        "rotational": False,
        "wwn": wwn,
        "serial": f"{'NVM' if is_nvme else 'DSK'}{key}{number:02x}",
        "vendor": None if is_nvme else "FakeVendor",
        "wwn_with_extension": wwn,
        "wwn_vendor_extension": None,
        "hctl": None if is_nvme else f"0:0:{number}:0",
        "by_path": None if is_nvme else f"/dev/disk/by-path/pci-0000:00:05.0-scsi-0:0:{number}:0",
        "logical_sectors": 512,
        "physical_sectors": 512,
    }
    return {**defaults, **disk}
