"""Tests of the parts that need no Ironic: `python -m unittest discover -s tests` in lab/ironic, with its packages."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import queue
import socket
import sqlite3
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from typing import Any

import requests

from ironic_lab import config_drive, ipmi, iso, ramdisk_network, wipe
from ironic_lab.agent_commands import execute_step
from ironic_lab.events import Events
from ironic_lab.faults import ALL, Faults
from ironic_lab.inventory import merge, ramdisk_report
from ironic_lab.ipmitool import parse
from ironic_lab.machine import Machine
from ironic_lab.request_log import path_class, user
from ironic_lab.settings import HostSettings
from ironic_lab.timers import Timers
from ironic_lab.web import Handler, Listener, Server


def machine(power_delay: float = 0) -> Machine:
    """A machine that is off."""
    host = HostSettings("uuid-1", "host-1", "ipmi", 10001, "admin", "secret", ["52:54:00:00:01:01"])
    return Machine(host, Faults(), Timers(2), power_delay)


class Receiver(Handler):
    """Where events are delivered."""

    def do_POST(self) -> None:
        """Keep what arrives."""
        RECEIVED.put((self.path, self.headers.get("X-Receiver"), self.read_json()))
        self.reply(200, {})


RECEIVED: queue.SimpleQueue[tuple[str, str | None, Any]] = queue.SimpleQueue()


class Subscriptions(unittest.TestCase):
    """Events to the destinations of subscriptions."""

    def test_a_power_change_is_told_to_those_who_subscribed_to_alerts(self) -> None:
        web = Server()
        listener = web.add(Listener(0, Receiver, None))
        threading.Thread(target=web.run, daemon=True).start()
        to = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        server = machine()
        server.subscriptions = {
            "a": {"Destination": f"{to}/all", "Context": "c", "HttpHeaders": [{"X-Receiver": "test"}]},
            "b": {"Destination": f"{to}/others", "EventTypes": ["StatusChange"]},
            "c": {"Destination": "http://127.0.0.1:1/nobody"},
        }
        events = Events()
        events.watch(server)
        server.request_power("On")
        server.update(boot_device="Cd")
        server.request_power("ForceOff")
        found = sorted([RECEIVED.get(timeout=10) for _ in range(2)], key=lambda one: int(one[2]["Id"]))
        self.assertEqual([(path, header) for path, header, _ in found], [("/all", "test")] * 2)
        first, second = (body for _, _, body in found)
        self.assertEqual(first["Context"], "c")
        messages = [body["Events"][0]["Message"] for body in (first, second)]
        self.assertEqual(messages, ["The server is on", "The server is off"])


class Power(unittest.TestCase):
    """Power requests."""

    def test_requests_count_even_when_they_change_nothing(self) -> None:
        server = machine()
        for request in ("On", "On", "ForceRestart", "ForceOff"):
            self.assertTrue(server.request_power(request))
        self.assertFalse(server.request_power("Explode"))
        counters = server.counters.view()
        self.assertEqual(counters["power_requests"], {"On": 2, "ForceRestart": 1, "ForceOff": 1})
        self.assertEqual(counters["power"], {"switched_on": 2, "switched_off": 2})

    def test_an_ignored_request_changes_nothing(self) -> None:
        server = machine()
        server.faults.set(ALL, "bmc", {"power_ignored": True})
        self.assertTrue(server.request_power("On"))
        self.assertFalse(server.is_on)

    def test_the_last_of_two_delayed_requests_wins(self) -> None:
        server = machine(power_delay=0.05)
        server.request_power("On")
        server.request_power("ForceOff")
        time.sleep(0.2)
        self.assertNotIn("power", server.counters.view())

    def test_bios_settings_wait_for_the_next_boot(self) -> None:
        server = machine()
        server.update(pending_bios={"NumCores": "4"})
        self.assertEqual(server.bios()["NumCores"], "10")
        server.request_power("On")
        self.assertEqual(server.bios()["NumCores"], "4")

    def test_ignored_bios_settings_never_come_into_force(self) -> None:
        server = machine()
        server.faults.set(ALL, "bmc", {"settings_ignored": True})
        server.update(pending_bios={"NumCores": "4"})
        server.request_power("On")
        server.faults.clear()
        server.request_power("ForceRestart")
        self.assertEqual(server.bios()["NumCores"], "10")

    def test_reverted_bios_settings_are_in_force_until_they_were_compared_twice(self) -> None:
        server = machine()
        server.faults.set(ALL, "bmc", {"settings_reverted": True})
        server.update(pending_bios={"NumCores": "4"})
        server.request_power("On")
        server.bios_was_compared()  # with settings that were read before the boot
        for _ in range(2):
            self.assertEqual(server.bios()["NumCores"], "4")
            server.bios_was_read()
            server.bios_was_compared()
        self.assertEqual(server.bios()["NumCores"], "10")


class Disk(unittest.TestCase):
    """What a machine boots."""

    def test_only_a_written_disk_is_booted(self) -> None:
        server = machine()
        server.request_power("On")
        self.assertFalse(server.boots_image())
        server.has_image = True
        self.assertTrue(server.boots_image())
        server.update(boot_device="Pxe")
        self.assertFalse(server.boots_image())
        server.update(boot_device="Hdd")
        execute_step(server, requests.Session(), "clean", {"step": {"step": "erase_devices_metadata"}})
        self.assertFalse(server.boots_image())


class Knobs(unittest.TestCase):
    """Faults."""

    def test_a_hosts_own_knob_wins_and_clearing_clears_all(self) -> None:
        faults = Faults()
        calls: list[int] = []
        faults.on_change(lambda: calls.append(1))
        faults.set(ALL, "bmc", {"status": 500, "delay": 1})
        faults.set("one", "bmc", {"status": 503})
        self.assertEqual(faults.get("one", "bmc", "status"), 503)
        self.assertEqual(faults.get("one", "bmc", "delay"), 1)
        self.assertEqual(faults.get("two", "bmc", "status"), 500)
        self.assertIsNone(faults.get("one", "agent", "status"))
        faults.clear()
        self.assertIsNone(faults.get("one", "bmc", "status"))
        self.assertEqual(len(calls), 3)
        with self.assertRaises(ValueError):
            faults.set(ALL, "bcm", {})


class Inventories(unittest.TestCase):
    """What a ramdisk reports."""

    def test_variations_and_what_is_merged_on_top(self) -> None:
        server = machine()
        self.assertEqual(len(ramdisk_report(server)["inventory"]["disks"]), 2)
        variation = {"nics": 3, "disks": [], "merge": {"cpu": {"count": 2}}}
        server.faults.set("uuid-1", "agent", {"inventory": variation})
        inventory = ramdisk_report(server)["inventory"]
        macs = [card["mac_address"] for card in inventory["interfaces"]]
        self.assertEqual(macs, ["52:54:00:00:01:01", "52:54:00:00:01:02", "52:54:00:00:01:03"])
        self.assertEqual(inventory["disks"], [])
        self.assertEqual((inventory["cpu"]["count"], inventory["cpu"]["architecture"]), (2, "x86_64"))

    def test_merging_replaces_lists(self) -> None:
        target: dict[str, Any] = {"a": {"b": 1, "c": [1]}, "d": 1}
        merge(target, {"a": {"c": []}, "d": {"e": 2}})
        self.assertEqual(target, {"a": {"b": 1, "c": []}, "d": {"e": 2}})


class Ipmi(unittest.TestCase):
    """The IPMI stand-in."""

    def test_command_lines(self) -> None:
        line = "-I lanplus -H 127.0.0.1 -L ADMINISTRATOR -p 10001 -U admin -v -R 7 -f /x power status"
        options, command = parse(line.split())
        self.assertEqual((options["-p"], options["-f"], command), ("10001", "/x", ["power", "status"]))

    def test_power_boot_device_and_credentials(self) -> None:
        server = machine()
        self.assertEqual(ipmi.run(server, "admin", "secret", ["power", "status"])[1], "Chassis Power is off")
        ipmi.run(server, "admin", "secret", ["raw", "0x00", "0x08", "0x05", "0xe0", "0x04", "0x00"])
        self.assertTrue(server.boots_ramdisk())
        ipmi.run(server, "admin", "secret", ["power", "on"])
        self.assertTrue(server.is_on)
        status, _, error = ipmi.run(server, "admin", "wrong", ["power", "off"])
        self.assertEqual((status, server.is_on), (1, True))
        self.assertIn("RAKP 2 HMAC is invalid", error)


class Files(unittest.TestCase):
    """Config drives and databases."""

    def test_a_config_drive_is_read_back(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            latest = pathlib.Path(folder, "tree/openstack/latest")
            latest.mkdir(parents=True)
            (latest / "meta_data.json").write_text('{"a": 1}')
            (latest / "user_data").write_text("#cloud-config\n")
            image = pathlib.Path(folder, "drive.iso")
            iso.build(f"{folder}/tree", str(image), "config-2")
            encoded = base64.b64encode(gzip.compress(image.read_bytes())).decode()
        drive = config_drive.decode(encoded)
        expected = {
            "meta_data": {"a": 1},
            "user_data": "#cloud-config\n",
            "network_data": None,
            "files": {
                "openstack/latest/meta_data.json": "eyJhIjogMX0=",
                "openstack/latest/user_data": "I2Nsb3VkLWNvbmZpZwo=",
            },
        }
        self.assertEqual(drive, expected)
        self.assertIsNone(config_drive.decode(None))

    def test_a_ramdisk_takes_its_addresses_from_the_network_data_in_its_iso(self) -> None:
        card = {"id": "eth0", "type": "phy", "ethernet_mac_address": "52:54:00:00:01:01"}
        bond = {"id": "bond0", "type": "bond", "bond_links": ["eth0"]}
        vlan = {"id": "vlan", "type": "vlan", "vlan_link": "bond0", "vlan_id": 5}
        fixed = {"id": "a", "link": "vlan", "type": "ipv4", "ip_address": "192.0.2.9", "netmask": "255.255.255.0"}
        six = {"id": "b", "link": "eth0", "type": "ipv6", "ip_address": "2001:db8::9/64"}
        leased = {"id": "c", "link": "eth0", "type": "ipv4_dhcp"}
        good = {"links": [card, bond, vlan], "networks": [fixed, six, leased]}
        self.assertEqual(self.addresses(good), ["192.0.2.9/24", "2001:db8::9/64"])
        self.assertEqual(self.addresses({"links": [card], "networks": [leased]}), [])
        self.assertIsNone(self.addresses(None))
        for bad in (
            {"links": [{**card, "ethernet_mac_address": "52:54:00:00:01:99"}]},
            {"links": [bond]},
            {"links": [vlan]},
            {"links": [card], "networks": [{**six, "link": "eth1"}]},
            {"links": [card], "networks": [{**six, "ip_address": "2001:db8::9/200"}]},
        ):
            with self.assertRaises(ValueError, msg=str(bad)):
                self.addresses(bad)

    def addresses(self, network_data: dict[str, Any] | None) -> list[str] | None:
        """What the server of `machine` makes of a ramdisk with this network data."""
        with tempfile.TemporaryDirectory() as folder:
            latest = pathlib.Path(folder, "tree/openstack/latest")
            latest.mkdir(parents=True)
            if network_data is not None:
                (latest / "network_data.json").write_text(json.dumps(network_data))
            image = f"{folder}/ramdisk.iso"
            iso.build(f"{folder}/tree", image, "ipa")
            return ramdisk_network.addresses(image, ["52:54:00:00:01:01"])

    def test_a_wipe_keeps_the_conductor(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/db"
            database = sqlite3.connect(path)
            for table in ("nodes", "ports", "conductors"):
                database.execute(f"CREATE TABLE {table} (id)")
                database.execute(f"INSERT INTO {table} VALUES (1), (2)")
            database.commit()
            self.assertEqual(wipe.wipe(path), 4)
            self.assertEqual(database.execute("SELECT count(*) FROM conductors").fetchone(), (2,))
            self.assertEqual(database.execute("SELECT count(*) FROM nodes").fetchone(), (0,))
            database.close()


class Requests(unittest.TestCase):
    """The log of requests."""

    def test_paths_are_classed(self) -> None:
        for path, wanted in {
            "/": "/",
            "/v1/nodes": "/v1/nodes",
            "/v1/nodes/": "/v1/nodes",
            "/v1/nodes/metal3~host-1/states/provision": "/v1/nodes/{id}/states/provision",
            "/v1/nodes/x/ports": "/v1/nodes/{id}/ports",
            "/v1/ports/detail": "/v1/ports/detail",
            "/v1/heartbeat/x": "/v1/heartbeat/{id}",
            "/v1/continue_inspection": "/v1/continue_inspection",
        }.items():
            self.assertEqual(path_class(path), wanted)

    def test_users(self) -> None:
        self.assertEqual(user("Basic " + base64.b64encode(b"ironic:a:b").decode()), "ironic")
        self.assertEqual((user(""), user("Bearer x"), user("Basic !")), ("", "", ""))


class Hello(Handler):
    """Says hello."""

    def do_GET(self) -> None:
        """Anything."""
        self.reply(200, {"hello": True})


class Listeners(unittest.TestCase):
    """The HTTP server."""

    def test_a_closed_listener_refuses_and_comes_back_on_its_port(self) -> None:
        server = Server()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        # With a number of its own: the kernel keeps a port that was asked for by number, and no other.
        listener = server.add(Listener(port, Hello, None))
        threading.Thread(target=server.run, daemon=True).start()
        url = f"http://127.0.0.1:{port}/"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=5) as answer:
            # urllib closes after each answer, and must be told that the server does too.
            self.assertEqual(answer.headers["Connection"], "close")
        server.set_open(listener, False)
        with self.assertRaises(urllib.error.URLError) as error:
            opener.open(url, timeout=5)
        self.assertIsInstance(error.exception.reason, ConnectionRefusedError)
        self.assertEqual(listener.socket.getsockname()[1], port)
        server.set_open(listener, True)
        with opener.open(url, timeout=5) as answer:
            self.assertEqual(answer.status, 200)


if __name__ == "__main__":
    unittest.main()
