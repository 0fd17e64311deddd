"""Redfish BMCs: the emulator of sushy-tools with our driver and what it lacks, one address for each BMC."""

from __future__ import annotations

import base64
import copy
import io
import json
import logging
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import flask
from sushy_tools.emulator import memoize

from ironic_lab.events import Events
from ironic_lab.machine import Machine
from ironic_lab.settings import Settings
from ironic_lab.web import Handler, Listener


class InMemoryDict(dict[Any, Any]):
    """What the emulator keeps in pickled sqlite files, in memory.

    As there, what is put in and taken out are copies: the emulator puts the same record of a virtual drive in for every
    machine, and one that is shared has the drive of one machine emptied by another.
    """

    def make_permanent(self, *_: Any) -> None:
        """Nothing: it ends with the process."""

    def __getitem__(self, key: Any) -> Any:
        return copy.deepcopy(super().__getitem__(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, copy.deepcopy(value))

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Put in every value by itself."""
        for key, value in dict(other, **more).items():
            self[key] = value


# Before the emulator is loaded, which makes its dictionaries then.
memoize.PersistentDict = InMemoryDict

from sushy_tools.emulator import main as emulator  # noqa: E402
from sushy_tools.emulator.resources.systems import fakedriver  # noqa: E402

from ironic_lab.redfish_driver import CURRENT, Driver  # noqa: E402

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}")
EVENTS = "/redfish/v1/EventService"
OPEN_PATHS = ("", "/redfish", "/redfish/v1")


def application(settings: Settings, machines: list[Machine]) -> Wsgi:
    """The WSGI application of all BMCs; `CURRENT.machine` says which one is asked."""
    driver = Driver(machines)
    fakedriver.FakeDriver.initialize = classmethod(lambda cls, config, logger: lambda: driver)
    app = emulator.app
    app.configure(extra_config=_storage(machines) | {"SUSHY_EMULATOR_FAKE_DRIVER": True})
    app.logger.setLevel(logging.WARNING)
    _ = app.systems  # built once, before threads race to do it
    _announce_events()
    events = Events()
    for machine in machines:
        events.watch(machine)
    _add_routes(app, events)
    return app.wsgi_app


def _storage(machines: list[Machine]) -> dict[str, Any]:
    """A RAID controller with two drives for every machine."""
    storage: dict[str, Any] = {}
    drives: dict[Any, Any] = {}
    volumes: dict[Any, Any] = {}
    for machine in machines:
        names = [f"{machine.settings.name}-drive-{number}" for number in (1, 2)]
        controller = {"MemberId": "0", "Name": "Contoso RAID", "SpeedGbps": 12}
        storage[machine.uuid] = [{"Id": "1", "Name": "Controller", "StorageControllers": [controller], "Drives": names}]
        drives[machine.uuid, "1"] = [
            {"Id": name, "Name": name, "CapacityBytes": 100 << 30, "Protocol": "SAS"} for name in names
        ]
        volumes[machine.uuid, "1"] = []
    return {
        "SUSHY_EMULATOR_STORAGE": storage,
        "SUSHY_EMULATOR_DRIVES": drives,
        "SUSHY_EMULATOR_VOLUMES": volumes,
    }


def _announce_events() -> None:
    """Link the event service, which the emulator lacks, in the service root."""
    stock = emulator.Application.render_template

    def render_template(self: Any, name: str, /, **params: Any) -> str:
        text = stock(self, name, **params)
        if name != "root.json":
            return text
        return json.dumps({**json.loads(text), "EventService": {"@odata.id": EVENTS}})

    emulator.Application.render_template = render_template


def _answer(body: Any, code: int = 200, **headers: str) -> flask.Response:
    return flask.Response(json.dumps(body), code, headers, content_type="application/json")


def _error(message: str, code: str = "Base.1.0.GeneralError") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _add_routes(app: flask.Flask, events: Events) -> None:
    """Add event subscriptions and the deletion of volumes."""

    @app.route(EVENTS)
    def event_service() -> flask.Response:
        test = f"{EVENTS}/Actions/EventService.SubmitTestEvent"
        return _answer(
            {
                "@odata.id": EVENTS,
                "@odata.type": "#EventService.v1_3_0.EventService",
                "Id": "EventService",
                "Name": "Event Service",
                "ServiceEnabled": True,
                "Status": {"State": "Enabled", "Health": "OK"},
                "DeliveryRetryAttempts": 3,
                "DeliveryRetryIntervalSeconds": 60,
                "EventTypesForSubscription": [
                    "StatusChange",
                    "ResourceUpdated",
                    "ResourceAdded",
                    "ResourceRemoved",
                    "Alert",
                ],
                "Subscriptions": {"@odata.id": f"{EVENTS}/Subscriptions"},
                "Actions": {
                    "#EventService.SubmitTestEvent": {
                        "target": test,
                        "EventType@Redfish.AllowableValues": ["StatusChange", "Alert"],
                    }
                },
            }
        )

    @app.route(f"{EVENTS}/Actions/EventService.SubmitTestEvent", methods=["POST"])
    def submit_test_event() -> Any:
        wish = flask.request.get_json()
        events.send(CURRENT.machine, wish.get("EventType", "Alert"), wish.get("Message", "A test"))
        return "", 204

    @app.route(f"{EVENTS}/Subscriptions", methods=["GET", "POST"])
    def subscriptions() -> flask.Response:
        known = CURRENT.machine.subscriptions
        if flask.request.method == "GET":
            members = [{"@odata.id": subscription["@odata.id"]} for subscription in known.values()]
            return _answer(
                {
                    "@odata.id": f"{EVENTS}/Subscriptions",
                    "@odata.type": "#EventDestinationCollection.EventDestinationCollection",
                    "Name": "Subscriptions",
                    "Members@odata.count": len(members),
                    "Members": members,
                }
            )
        wish = flask.request.get_json()
        if not wish.get("Destination"):
            return _answer(_error("Destination missing"), 400)
        identity = str(uuid.uuid4())
        path = f"{EVENTS}/Subscriptions/{identity}"
        known[identity] = {
            **wish,
            "Id": identity,
            "Name": f"Subscription {identity}",
            "@odata.id": path,
            "@odata.type": "#EventDestination.v1_0_0.EventDestination",
        }
        return _answer(known[identity], 201, Location=path)

    @app.route(f"{EVENTS}/Subscriptions/<identity>", methods=["GET", "DELETE"])
    def subscription(identity: str) -> Any:
        known = CURRENT.machine.subscriptions
        if identity not in known:
            return _answer(_error("no such subscription", "Base.1.0.ResourceMissing"), 404)
        if flask.request.method == "DELETE":
            del known[identity]
            return "", 204
        return _answer(known[identity])

    @app.route("/redfish/v1/Systems/<identity>/Storage/<storage>/Volumes/<volume>", methods=["DELETE"])
    def delete_volume(identity: str, storage: str, volume: str) -> Any:
        for known in list(app.volumes.get_volumes_col(identity, storage) or []):
            if known["Id"] == volume:
                app.volumes.delete_volume(identity, storage, known)
                return "", 204
        return _answer(_error("no such volume", "Base.1.0.ResourceMissing"), 404)


def _with_target(body: bytes, machine: Machine) -> bytes:
    """An update for a BMC with one system names no target, which the emulator insists on."""
    wish = json.loads(body or b"{}")
    return json.dumps({"Targets": [f"/redfish/v1/Systems/{machine.uuid}"], **wish}).encode()


def _wait(machine: Machine, knob: str) -> None:
    """Take as many seconds longer as the knob says, or until it is off."""
    until = time.monotonic() + (machine.fault("bmc", knob) or 0)
    while time.monotonic() < until and machine.fault("bmc", knob):
        time.sleep(0.1)


class BmcListener(Listener):
    """The address of one BMC."""

    def __init__(self, machine: Machine, app: Wsgi, tls: Any, address: str) -> None:
        super().__init__(machine.settings.port, BmcHandler, tls, address)
        self.address = address
        self.machine = machine
        self.app = app


class BmcHandler(Handler):
    """One connection to a BMC: counts, plays the faults, checks credentials, and hands over to the emulator."""

    server: BmcListener

    def do_GET(self) -> None:
        """Any method."""
        machine = self.server.machine
        body = self.read_body()
        path, _, query = self.path.partition("?")
        machine.counters.add("bmc_requests", f"{self.command} {UUID.sub('{id}', path)}")
        delay = machine.fault("bmc", "delay")
        if delay:
            time.sleep(delay)
        if path.endswith(("VirtualMedia.InsertMedia", "VirtualMedia.EjectMedia")):
            _wait(machine, "slow_virtual_media")
        if "/Subscriptions" in path and self.command != "GET":
            _wait(machine, "slow_subscriptions")
        status = machine.fault("bmc", "status")
        if status:
            self.reply(status, _error("a fault of the lab"))
        elif path.rstrip("/") not in OPEN_PATHS and not self._is_authorized():
            self.reply(401, _error("Unauthorized", "Base.1.0.NoValidSession"))
        elif path.endswith("VirtualMedia.InsertMedia") and machine.fault("bmc", "no_virtual_media"):
            self.reply(500, _error("cannot mount"))
        elif path.endswith("VirtualMedia.EjectMedia") and machine.fault("bmc", "virtual_media_stays"):
            self.reply(500, _error("cannot eject"))
        elif path.endswith("ComputerSystem.Reset") and machine.fault("bmc", "power_refused"):
            self.reply(400, _error("a fault of the lab"))
        elif path.endswith("/BIOS/Settings") and self.command == "PATCH" and machine.fault("bmc", "settings_refused"):
            self.reply(400, _error("a fault of the lab"))
        elif path.endswith("UpdateService.SimpleUpdate") and machine.fault("bmc", "updates_refused"):
            self.reply(400, _error("a fault of the lab"))
        elif path.endswith("/Subscriptions") and self.command == "POST" and machine.fault("bmc", "subscriptions_refused"):
            self.reply(400, _error("a fault of the lab"))
        elif "/Subscriptions/" in path and self.command == "DELETE" and machine.fault("bmc", "subscriptions_stay"):
            self.reply(400, _error("a fault of the lab"))
        elif path.endswith("UpdateService.SimpleUpdate"):
            self._emulate(path, query, _with_target(body, machine))
        else:
            self._emulate(path, query, body)
            if self.command == "GET" and path.endswith("/BIOS"):
                machine.bios_was_read()
            elif self.command == "GET" and path.endswith("/BIOS/Settings"):
                machine.bios_was_compared()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = do_GET

    def _is_authorized(self) -> bool:
        username, password = self.server.machine.credentials()
        wanted = base64.b64encode(f"{username}:{password}".encode()).decode()
        return self.headers.get("Authorization") == f"Basic {wanted}"

    def _emulate(self, path: str, query: str, body: bytes) -> None:
        environment = {
            "REQUEST_METHOD": self.command,
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "SERVER_NAME": self.server.address,
            "SERVER_PORT": str(self.server.machine.settings.port),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if self.server.tls else "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in self.headers.items():
            environment["HTTP_" + name.upper().replace("-", "_")] = value
        head: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> None:
            head[:] = [status, headers]

        CURRENT.machine = self.server.machine
        content = b"".join(self.server.app(environment, start_response))
        status, headers = head
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        for name, value in headers:
            if name.lower() != "content-length":
                self.send_header(name, value)
        if code != "204":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()
