"""Redfish events: a BMC tells the destinations of its subscriptions when the power of its server changes."""

from __future__ import annotations

import concurrent.futures
import itertools
import logging
from typing import Any

import requests

from ironic_lab.machine import Machine

LOG = logging.getLogger(__name__)
TIMEOUT = 5.0
"""Seconds that a destination may take to answer."""


class Events:
    """Delivers the events of all BMCs, each once, on threads of its own: a slow destination holds up no power change."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="events")
        self._numbers = itertools.count(1)

    def watch(self, machine: Machine) -> None:
        """Have the machine's BMC send an event with every change of its power."""
        was_on = machine.is_on

        def changed(machine: Machine) -> None:
            nonlocal was_on
            if machine.is_on != was_on:
                was_on = machine.is_on
                self.send(machine, "Alert", f"The server is {'on' if was_on else 'off'}")

        machine.observe(changed)

    def send(self, machine: Machine, kind: str, message: str) -> None:
        """Send an event of this type to all who have subscribed to it."""
        record = {
            "EventType": kind,
            "EventId": str(next(self._numbers)),
            "Severity": "OK",
            "Message": message,
            "MessageId": "LabEvent.1.0.Changed",
            "OriginOfCondition": {"@odata.id": f"/redfish/v1/Systems/{machine.uuid}"},
        }
        for subscription in list(machine.subscriptions.values()):
            if kind in (subscription.get("EventTypes") or [kind]):
                self._pool.submit(_deliver, subscription, record)


def _deliver(subscription: dict[str, Any], record: dict[str, Any]) -> None:
    event = {
        "@odata.type": "#Event.v1_3_0.Event",
        "Id": record["EventId"],
        "Name": "Event",
        "Context": subscription.get("Context", ""),
        "Events": [record],
    }
    headers = {name: value for part in subscription.get("HttpHeaders") or [] for name, value in part.items()}
    try:
        with requests.Session() as session:
            session.trust_env = False
            # As a BMC: it knows no authority that could have signed the destination's certificate.
            session.post(subscription["Destination"], json=event, headers=headers, timeout=TIMEOUT, verify=False)
    except requests.RequestException as error:
        LOG.warning("an event was not delivered: %s", type(error).__name__)
