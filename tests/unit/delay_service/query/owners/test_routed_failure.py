"""The thread that asks other processes takes its process with it where it ends by itself."""

from threading import Event
from typing import Any

import pytest

from delay_service.query.owners import routed
from delay_service.query.owners.directory import Directory
from delay_service.query.owners.routed import RoutedOwners
from delay_service.query.owners.signing import Signer
from delayline.clock import SystemClock
from mq.memory import MemoryQueue


def owners(on_failure: Event) -> RoutedOwners:
    clock = SystemClock()
    queue = MemoryQueue(namespace="delayline", clock=clock)
    return RoutedOwners(Directory(queue, clock), Signer("secret" * 8, clock), queue, clock, on_failure=on_failure.set)


def test_one_that_cannot_begin_prints_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no certificates")

    monkeypatch.setattr(routed, "Remote", refuse)
    failed = Event()
    with pytest.raises(RuntimeError, match="no certificates"), owners(failed):
        pass
    assert not failed.is_set()


def test_one_that_ends_in_the_middle_is_reported_and_raised_at_the_end() -> None:
    failed = Event()
    asking = owners(failed)

    def fail() -> None:
        raise SystemExit("by itself")

    asking.__enter__()
    asking.loop.call_soon_threadsafe(fail)
    assert failed.wait(30)
    with pytest.raises(SystemExit, match="by itself"):
        asking.__exit__(None, None, None)
