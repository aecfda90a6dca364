"""Threads for what blocks, on behalf of one thread that must not: the reader asks them to connect and to find
leaders."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread

Work = Callable[[], Callable[[], None]]
"""Blocks, and returns what is then to be done in the owner's thread."""


class Helpers:
    """At most `threads_max` of them, started when there is work. `rouse` is called in a helper's thread when
    something is to be finished. All methods belong to the owner's thread."""

    def __init__(self, threads_max: int, rouse: Callable[[], None]) -> None:
        self._threads_max = threads_max
        self._rouse = rouse
        self._threads = 0
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._done: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def do(self, work: Work) -> None:
        self._work.put(work)
        if self._threads < self._threads_max:
            self._threads += 1
            # A daemon: a node that is dead keeps its helper for a connect timeout, and the process may end before.
            Thread(target=self._run, name="kafka-look", daemon=True).start()

    def finish(self) -> None:
        """Do what is to be done after the work that has ended. Raises what the work raised."""
        with suppress(Empty):
            while True:
                self._done.get_nowait()()

    def close(self) -> None:
        """Work that no helper has begun is dropped; what has ended is finished."""
        with suppress(Empty):
            while True:
                self._work.get_nowait()
        # Each helper takes one stop and ends; a helper that hangs in a connect ends when it has returned.
        for _ in range(self._threads):
            self._work.put(None)
        self.finish()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                then = work()
            except Exception as error:  # noqa: BLE001 - raised again in the owner's thread, by `finish`
                then = partial(_raise, error)
            self._done.put(then)
            self._rouse()


def _raise(error: Exception) -> None:
    raise error
