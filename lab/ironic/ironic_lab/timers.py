"""Delayed calls: one thread waits, a pool runs what is due."""

from __future__ import annotations

import concurrent.futures
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

LOG = logging.getLogger(__name__)


class Timers:
    """Runs calls after a delay. Hundreds of agents share a few threads this way."""

    def __init__(self, threads: int) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="timer")
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True, name="timers").start()

    def after(self, delay: float, call: Callable[..., None], *args: Any) -> None:
        """Call `call(*args)` in `delay` seconds on a thread of the pool; an exception is logged."""
        with self._changed:
            heapq.heappush(self._heap, (time.monotonic() + delay, next(self._order), call, args))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._heap or self._heap[0][0] > time.monotonic():
                    wait = max(0.001, self._heap[0][0] - time.monotonic()) if self._heap else None
                    self._changed.wait(wait)
                _, _, call, args = heapq.heappop(self._heap)
            self._pool.submit(_guarded, call, *args)


def _guarded(call: Callable[..., None], *args: Any) -> None:
    try:
        call(*args)
    except Exception:
        LOG.exception("a delayed call failed")
