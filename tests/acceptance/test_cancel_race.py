"""Cancels that race the due instant: nobody hears one thing and gets the other.

`make race` for more of them; the seed is printed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from threading import Event, Thread

import pytest

from tests.acceptance.asking import delivered
from tests.acceptance.racing import RACES, race
from tests.fault.server import Server, read_topic

KILL_EVERY_S = 27.0
"""The group misses a killed worker for six seconds; then its messages have owners again for a while."""


@pytest.mark.race
def test_a_cancel_that_is_confirmed_is_kept_and_one_that_is_refused_came_too_late(server: Server) -> None:
    race(server.url, "orders", lambda: delivered(server.url))


@pytest.mark.thorough
@pytest.mark.race
def test_nobody_is_lied_to_while_workers_are_killed(running: Callable[..., list[Server]], topic: str) -> None:
    api, *workers = running("api", "worker", "worker")
    kills: list[Server] = []

    @contextmanager
    def killing() -> Iterator[None]:
        done = Event()

        def kill() -> None:
            for worker in cycle(workers):
                if done.wait(KILL_EVERY_S / (2 if not kills else 1)):
                    return
                kills.append(worker)
                worker.kill()
                worker.start()

        thread = Thread(target=kill)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def arrived() -> list[str]:
        return sorted(record["value"] for record in read_topic(api.url, topic, 2))

    race(api.url, topic, arrived, max(RACES, 1200), killing, per_s=60)
    print(f"{len(kills)} workers killed")
    assert kills
