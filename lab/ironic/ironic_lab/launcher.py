"""Starts the packaged Ironic for an instance: `python -m ironic_lab.launcher INSTANCE.JSON`.

API and conductor run in one process, as the package's own `ironic` program does it. What is changed leaves the API
and the state machine alone; `"plain": true` in the instance's file leaves all of it out.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
from typing import Any

from ironic_lab import lifeline, state_log

PBKDF2_ROUNDS = 1000
BACKLOG = 512
IDLE_CONNECTIONS = 512


def cheapen_password_hashing() -> None:
    """The redfish driver hashes the BMC's password with 600 000 rounds, 0.6 CPU seconds, at every call of a BMC.

    It is the key of a cache of sessions. Remembering results is not enough: threads that miss together all compute.
    """
    stock = hashlib.pbkdf2_hmac

    def pbkdf2_hmac(name: str, password: bytes, salt: bytes, rounds: int, dklen: int | None = None) -> bytes:
        return stock(name, password, salt, min(rounds, PBKDF2_ROUNDS), dklen)

    hashlib.pbkdf2_hmac = pbkdf2_hmac


def widen_http_server(threads: int, request_log: pathlib.Path) -> None:
    """Take bursts of agents and controllers, and log every request.

    The stock backlog of 5 and 10 idle connections show as refused and dropped connections.
    """
    from cheroot import server, wsgi

    from ironic_lab.request_log import RequestLog

    server.HTTPServer.keep_alive_conn_limit = IDLE_CONNECTIONS
    stock = wsgi.Server.__init__

    def __init__(self: Any, bind_addr: Any, wsgi_app: Any, **options: Any) -> None:
        options |= {"request_queue_size": BACKLOG, "numthreads": threads}
        stock(self, bind_addr, RequestLog(wsgi_app, request_log), **options)

    wsgi.Server.__init__ = __init__


def pool_database_connections() -> None:
    """Keep sqlite connections instead of opening the file for every query."""
    import types

    from oslo_db.sqlalchemy import engines
    from sqlalchemy import pool

    class Pool(pool.QueuePool):
        def __init__(self, creator: Any, **options: Any) -> None:
            super().__init__(creator, **{**options, "pool_size": 40, "max_overflow": 300, "timeout": 60})

        def recreate(self) -> Pool:
            return Pool(
                self._creator,
                recycle=self._recycle,
                echo=self.echo,
                logging_name=self._orig_logging_name,
                reset_on_return=self._reset_on_return,
                pre_ping=self._pre_ping,
                _dispatch=self.dispatch,
                dialect=self._dialect,
            )

    names = {name: getattr(pool, name) for name in dir(pool) if not name.startswith("__")}
    engines.pool = types.SimpleNamespace(**{**names, "NullPool": Pool})


def shorten_command_polling() -> None:
    """The option's value is read while modules load, before the configuration file is."""
    from ironic.conf import CONF

    CONF.set_default("command_wait_interval", 1, group="agent")


def keep_last_error() -> None:
    """Put `last_error` back after a failed deploy.

    With redfish-virtual-media the packaged version loses it when the failure path switches the machine off.
    """
    from ironic.command import conductor

    stock_warnings = conductor.issue_startup_warnings

    def issue_startup_warnings(conf: Any) -> Any:
        # Called once the conductor's modules are loaded, which must not happen before the options are.
        from ironic.conductor import utils

        stock_handler = utils.deploying_error_handler

        def deploying_error_handler(task: Any, log: str, error: str | None = None, *args: Any, **options: Any) -> None:
            stock_handler(task, log, error, *args, **options)
            task.node.refresh()
            if not task.node.last_error:
                task.node.last_error = error or log
                task.node.save()

        utils.deploying_error_handler = deploying_error_handler
        return stock_warnings(conf)

    conductor.issue_startup_warnings = issue_startup_warnings


def main() -> None:
    """Run Ironic until it is told to end."""
    path = pathlib.Path(sys.argv[1]).resolve()
    instance = json.loads(path.read_text())
    lifeline.tie_forks_to_this_process()
    if not instance["plain"]:
        cheapen_password_hashing()
        widen_http_server(instance["api_threads"], path.parent / "log" / "requests.jsonl")
        pool_database_connections()
        shorten_command_polling()
        state_log.install(path.parent / "log" / "states.jsonl")
    if instance["keep_last_error"]:
        keep_last_error()
    from ironic.command import singleprocess

    sys.argv = ["ironic", "--config-file", str(path.parent / "ironic.conf")]
    sys.exit(singleprocess.main())


if __name__ == "__main__":
    main()
