"""The ramdisk agent of a simulated server: boots, reports its inventory, looks its node up, sends heartbeats and
carries out commands.

It speaks the agent's side of Ironic's ramdisk API. An agent lives from one power-on with a bootable ramdisk until the
power goes off; everything that takes time runs on shared timers, so that many agents need few threads.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
import threading
import time
from typing import Any, TextIO

import requests

from ironic_lab import agent_commands as commands
from ironic_lab import ramdisk_network
from ironic_lab.agent_commands import AgentError, Command
from ironic_lab.inventory import ramdisk_report
from ironic_lab.machine import Machine
from ironic_lab.settings import Settings
from ironic_lab.timers import Timers

API_VERSION = {"X-OpenStack-Ironic-API-Version": "1.68"}
AGENT_VERSION = "13.0.0"
USER_AGENT = "ironic-lab-agent"
FIRST_HEARTBEAT_GAP = 0.6
"""Seconds between the first two heartbeats. Ironic drops one that finds the node locked, and still answers 202."""
INSPECTION_RETRIES = 30
UNREACHABLE = 599
"""What a failed connection is noted as, among HTTP statuses."""
KERNEL_PARAMETER = re.compile(rb"ipa-(?:api-url|inspection-callback-url)=")


class Ramdisks:
    """All agents of an instance: starts and stops them as the machines' power changes."""

    def __init__(self, settings: Settings, timers: Timers, log: TextIO) -> None:
        self.settings = settings
        self.timers = timers
        self.scheme = "https" if settings.tls else "http"
        self.ca = open(settings.tls.ca, encoding="ascii").read() if settings.tls else None
        self._log = log
        self._started = time.monotonic()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._agents: dict[str, Agent] = {}
        self._was_on: dict[str, bool] = {}

    def http(self) -> requests.Session:
        """This thread's HTTP client."""
        if not hasattr(self._local, "session"):
            session = requests.Session()
            session.trust_env = False
            session.headers["User-Agent"] = USER_AGENT
            if self.settings.tls:
                session.verify = self.settings.tls.ca
            self._local.session = session
        return self._local.session

    def log(self, machine: Machine, event: str, **details: Any) -> None:
        """Add a line to the log of agents."""
        entry = {"t": round(time.monotonic() - self._started, 3), "host": machine.settings.name, "event": event}
        self._log.write(json.dumps({**entry, **details}) + "\n")

    def of(self, uuid: str) -> Agent | None:
        """The present or last agent of a machine."""
        return self._agents.get(uuid)

    def machine_changed(self, machine: Machine) -> None:
        """Boot a ramdisk or end it, if the change calls for that."""
        with self._lock:
            was_on = self._was_on.get(machine.uuid, False)
            self._was_on[machine.uuid] = machine.is_on
            agent = self._agents.get(machine.uuid)
            if not machine.is_on and agent:
                agent.stop()
            if machine.is_on and not was_on and machine.boots_ramdisk():
                agent = self._agents[machine.uuid] = Agent(machine, self)
                delay = machine.fault("agent", "boot_delay")
                self.timers.after(self.settings.boot_delay if delay is None else delay, agent.boot)


class Agent:
    """The agent of one boot of one machine."""

    def __init__(self, machine: Machine, ramdisks: Ramdisks) -> None:
        self.machine = machine
        self.ramdisks = ramdisks
        self.is_alive = True
        self.state = "booting"
        self.token: str | None = None
        self.node: str | None = None
        self.addresses: list[str] | None = None
        self.commands: list[Command] = []
        self._lock = threading.Lock()
        self._api: str | None = ramdisks.settings.ironic_url
        self._inspection_url: str | None = None
        self._gap = FIRST_HEARTBEAT_GAP
        self._next_heartbeat = 0
        self._heartbeats = 0

    # Boot

    def boot(self) -> None:
        """The ramdisk is up."""
        if not self.is_alive or self._is_silent("boot"):
            return
        line = self._kernel_line()
        self._log("boot", kernel_line=sorted(line))
        self.machine.counters.add("agent", "boots")
        if not self._has_network():
            self.state = "without a network"
            return
        self.token = line.get("ipa-agent-token")
        if line:
            # Ironic built this ISO, and says in it whom to call. For inspections that is only the inspection's URL.
            self._api = line.get("ipa-api-url")
            self._inspection_url = line.get("ipa-inspection-callback-url")
        else:
            self._inspection_url = f"{self._api}/v1/continue_inspection"
        if self._inspection_url and not self._is_silent("inspect"):
            self._inspect(0)
        elif self._api:
            self._look_up(0)

    def _has_network(self) -> bool:
        """Whether the ramdisk has an address: by network data, or else by DHCP."""
        try:
            self.addresses = ramdisk_network.addresses(self.machine.cd_image(), self.machine.settings.macs)
        except (ValueError, KeyError) as error:
            self._log("network", error=repr(error))
            return False
        self._log("network", addresses=self.addresses)
        return bool(self.addresses) or not self.machine.fault("agent", "no_dhcp")

    def stop(self) -> None:
        """The machine goes off, or the agent dies."""
        if self.is_alive:
            self._log("stop", state=self.state)
        self.is_alive = False

    def _kernel_line(self) -> dict[str, str]:
        """The parameters that Ironic wrote into an ISO of its own; none in a prebuilt one, or without an ISO."""
        image = self.machine.cd_image()
        if image is None:
            return {}
        try:
            content = pathlib.Path(image).read_bytes()
        except OSError:
            return {}
        found = KERNEL_PARAMETER.search(content)
        if not found:
            return {}
        # By hand: a pattern of the whole line would be tried at every byte of megabytes without a line.
        begin = content.rfind(b"\n", 0, found.start()) + 1
        end = content.find(b"\n", found.end())
        words = content[begin : end if end >= 0 else None].decode("ascii", "replace").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    # Inspection

    def _inspect(self, tries: int) -> None:
        if not self.is_alive:
            return
        self.state = "inspecting"
        code = self._report_inventory()
        if code == 202:
            if self._api:
                self._after(1, self._look_up, 0)
            return
        # 404: either Ironic is not yet in the state that waits for this, or no inspection is going on at all.
        # Only with nobody else to call is it worth to insist.
        if (code >= 500 or code == 409 or (code == 404 and not self._api)) and tries < INSPECTION_RETRIES:
            self._after(min(1 + tries / 2, 5), self._inspect, tries + 1)
        elif self._api:
            self._look_up(0)

    def _report_inventory(self) -> int:
        # Without a version: the version for look-ups is too old for this call, "no version" is not.
        code, answer = self._call("POST", self._inspection_url or "", ramdisk_report(self.machine), {})
        self._log("continue_inspection", code=code)
        if code == 202:
            self.node = answer.get("uuid")
            self.state = "inspected"
            self.machine.counters.add("agent", "inspections")
        return code

    # Look-up and heartbeats

    def _look_up(self, tries: int) -> None:
        if not self.is_alive or self._is_silent("look_up"):
            return
        self.state = "looking up"
        query = "addresses=" + ",".join(self.machine.settings.macs)
        if self.node:
            query += f"&node_uuid={self.node}"
        code, answer = self._call("GET", f"{self._api}/v1/lookup?{query}")
        if tries % 10 == 0 or code == 200:
            self._log("lookup", code=code, tries=tries)
        if code != 200:
            self._after(min(0.5 + tries * 0.25, 5), self._look_up, tries + 1)
            return
        self.node = answer["node"]["uuid"]
        token = answer["config"]["agent_token"]
        if token and set(token) != {"*"}:  # told once; masked for those who ask again
            self.token = token
        self.state = "running"
        self._schedule_heartbeat(0)

    def _schedule_heartbeat(self, delay: float) -> None:
        """Send the next heartbeat in `delay` seconds, instead of when it was planned before."""
        with self._lock:
            self._next_heartbeat += 1
            number = self._next_heartbeat
        self._after(delay, self._heartbeat, number)

    def _heartbeat(self, number: int) -> None:
        if not self.is_alive or number != self._next_heartbeat:
            return
        if self._is_silent("heartbeat"):
            self._schedule_heartbeat(1)
            return
        settings = self.ramdisks.settings
        url = f"{self.ramdisks.scheme}://{settings.address}:{settings.agent_port}/{self.machine.uuid}"
        body = {
            "callback_url": url,
            "agent_token": "wrong" if self.machine.fault("agent", "wrong_token") else self.token,
            "agent_version": AGENT_VERSION,
        }
        if self.ramdisks.ca:
            body["agent_verify_ca"] = self.ramdisks.ca
        code, answer = self._call("POST", f"{self._api}/v1/heartbeat/{self.node}", body)
        self._log("heartbeat", code=code, **({} if code == 202 else {"answer": answer}))
        self.machine.counters.add("agent", "heartbeats")
        self._heartbeats += 1
        # An agent that was quicker than Ironic had its inventory refused: offer it again until there is work.
        is_idle = self.state == "running" and not self.commands and self._heartbeats in (1, 3, 6)
        if is_idle and self._inspection_url and not self._is_silent("inspect"):
            self._report_inventory()
        with self._lock:
            if number != self._next_heartbeat:
                return  # a command ended meanwhile and has planned a sooner one
        self._gap = min(self._gap * 1.7, settings.heartbeat_limit)
        self._schedule_heartbeat(self._gap * random.uniform(0.8, 1.2))

    # Commands

    def run(self, name: str, params: dict[str, Any]) -> Command:
        """Start a command that Ironic gave."""
        commands.check_name(name)
        command = Command(name, params)
        with self._lock:
            if self.commands and self.commands[-1].status == "RUNNING":
                busy = f"Agent is busy: executing command {self.commands[-1].name}"
                raise AgentError(409, busy, "AgentIsBusy")
            self.commands.append(command)
        self._log("command", name=name, step=command.step)
        if name in commands.STEP_KINDS:
            self._begin_step(command)
        else:
            command.succeed(commands.immediate_result(name, self.ramdisks.settings.extra_deploy_steps))
            self._act_on(name)
        return command

    def _act_on(self, name: str) -> None:
        """What a command does to the machine."""
        if name == "standby.power_off":
            self._after(0, self.machine.power, "ForceOff")
        elif name == "standby.run_image":
            self._after(0, self.machine.power, "ForceRestart")
        elif name == "system.lockdown":
            self._after(0.2, self.stop)

    def _begin_step(self, command: Command) -> None:
        self.machine.counters.add(f"{commands.STEP_KINDS[command.name]}_steps", command.step or "")
        if self.machine.fault("agent", "dies_in_step") == command.step:
            self._after(0.1, self.stop)
            return
        delay = self.machine.fault("agent", "step_delay")
        self._after(self.ramdisks.settings.step_delay if delay is None else delay, self._end_step, command)

    def _end_step(self, command: Command) -> None:
        if not self.is_alive:
            return
        if self.machine.fault("agent", "hangs_in_step") == command.step:
            self._after(0.5, self._end_step, command)  # until the fault is cleared
            return
        kind = commands.STEP_KINDS[command.name]
        try:
            command.succeed(commands.execute_step(self.machine, self.ramdisks.http(), kind, command.params))
        except AgentError as error:
            command.fail(error)
        except Exception as error:
            command.fail(AgentError(500, repr(error)))
        self._log("done", name=command.name, step=command.step, status=command.status)
        # Ironic looks at the result when the next heartbeat comes.
        self._gap = FIRST_HEARTBEAT_GAP
        self._schedule_heartbeat(0.05)

    # Common

    def _is_silent(self, stage: str) -> bool:
        return self.machine.fault("agent", "never") == stage

    def _after(self, delay: float, call: Any, *args: Any) -> None:
        self.ramdisks.timers.after(delay, call, *args)

    def _log(self, event: str, **details: Any) -> None:
        self.ramdisks.log(self.machine, event, **details)

    def _call(self, method: str, url: str, body: Any = None, headers: dict[str, str] = API_VERSION) -> tuple[int, Any]:
        """Status and JSON answer of a call to Ironic."""
        try:
            response = self.ramdisks.http().request(method, url, json=body, headers=headers, timeout=60)
        except requests.RequestException as error:
            return UNREACHABLE, {"error": str(error)}
        try:
            return response.status_code, response.json() if response.content else {}
        except ValueError:
            return response.status_code, {"text": response.text[:300]}
