"""The API that Ironic calls its agents at: all agents behind one address, told apart by the first part of the path."""

from __future__ import annotations

import ssl
from typing import Any

from ironic_lab.agent import AGENT_VERSION, Agent, Ramdisks
from ironic_lab.agent_commands import AgentError
from ironic_lab.web import Handler, Listener, tls_context

LONGEST_WAIT = 60.0
"""Seconds that a call with `wait=true` waits for its command at most."""


class AgentListener(Listener):
    """The agents' address."""

    def __init__(self, ramdisks: Ramdisks) -> None:
        # The agent's own certificate is new with every boot in real life, and offered with TLS 1.3.
        context = tls_context(ramdisks.settings.tls, ssl.TLSVersion.TLSv1_3)
        super().__init__(ramdisks.settings.agent_port, AgentHandler, context, ramdisks.settings.address)
        self.ramdisks = ramdisks


class AgentHandler(Handler):
    """One connection of Ironic to an agent."""

    server: AgentListener

    def do_GET(self) -> None:
        """Status, commands, one command."""
        parts, query = self.split_path()
        if len(parts) == 3 and parts[2] == "status":
            self.reply(200, {"started_at": 0, "version": AGENT_VERSION})
            return
        if len(parts) < 3 or parts[2] != "commands":
            self._refuse(404, "not found")
            return
        agent = self._agent(parts[0], query)
        if agent is None:
            return
        if len(parts) == 3:
            self.reply(200, {"commands": [command.view() for command in list(agent.commands)]})
            return
        for command in list(agent.commands):
            if command.id == parts[3]:
                if query.get("wait") == "true":
                    command.done.wait(LONGEST_WAIT)
                self.reply(200, command.view())
                return
        self._refuse(404, "no such command")

    def do_POST(self) -> None:
        """Give a command."""
        parts, query = self.split_path()
        body: dict[str, Any] = self.read_json()
        if len(parts) != 3 or parts[2] != "commands":
            self._refuse(404, "not found")
            return
        agent = self._agent(parts[0], query)
        if agent is None:
            return
        try:
            command = agent.run(body["name"], body.get("params") or {})
        except AgentError as error:
            self._refuse(error.code, error.message)
            return
        if query.get("wait") == "true":
            command.done.wait(LONGEST_WAIT)
        self.reply(200, command.view())

    def _agent(self, uuid: str, query: dict[str, str]) -> Agent | None:
        """The agent that is asked, if it lives and the token is right; otherwise the call is answered."""
        agent = self.server.ramdisks.of(uuid)
        if agent is None or not agent.is_alive:
            self.close_connection = True  # as good as nobody being there
            return None
        if query.get("agent_token") != agent.token:
            self._refuse(401, "401 Unauthorized: Token invalid.")
            return None
        return agent

    def _refuse(self, code: int, message: str) -> None:
        self.reply(code, {"faultcode": "Client" if code < 500 else "Server", "faultstring": message})
