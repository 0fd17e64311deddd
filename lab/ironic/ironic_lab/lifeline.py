"""Children that do not outlive their parent, however that one ends."""

from __future__ import annotations

import os
import select
import signal
import threading


def tie_forks_to_this_process() -> None:
    """From now on every forked child of this process is killed as soon as this process is gone.

    Ironic's master forks its worker from a thread that ends before the worker does, so the kernel's parent-death
    signal, which watches the forking *thread*, would cut every orderly shutdown short. A process file descriptor
    watches the process.
    """
    master = os.getpid()

    def watch(descriptor: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    def after_fork() -> None:
        try:
            descriptor = os.pidfd_open(master)
        except ProcessLookupError:
            os._exit(1)
        threading.Thread(target=watch, args=(descriptor,), daemon=True, name="lifeline").start()

    os.register_at_fork(after_in_child=after_fork)
