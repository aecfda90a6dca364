"""Readiness of a process without a worker: the queue's last answer, whatever it raised."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cli import queues
from cli.queues import Watch
from delayline.process import threads
from mq.errors import QueueUnavailable
from tests.integration.kafka.conftest import soon


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "WATCH_S", 0.01)


def _raising(error: Exception) -> Callable[[], Any]:
    def raise_it() -> Any:
        raise error

    return raise_it


def test_a_process_is_ready_while_the_queue_answers_and_can_be_appended_to() -> None:
    answers: Iterator[Callable[[], Any]] = iter([_raising(QueueUnavailable("away")), _raising(KeyError("who knows"))])
    trouble: list[str | None] = ["nothing can be sent: no producer id"]
    admin = SimpleNamespace(reach=lambda: next(answers, list)(), trouble=lambda: trouble[0])
    seen: list[tuple[bool, str]] = []
    before = threads.failures().get("watch", 0)

    def look() -> bool:
        if (readiness := watch.readiness()) not in seen:
            seen.append(readiness)
        return len(seen) > 0 and seen[-1] == (False, "nothing can be sent: no producer id")

    with Watch(admin) as watch:
        soon(look)
        assert threads.failures()["watch"] == before + 1
        trouble[0] = None
        soon(lambda: watch.readiness() == (True, "ready"))
