"""Brokers that all processes of a run share are started once, and end with the run."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.brokers.distribution import Unavailable
from tests.brokers.shared import Lender, borrowed


class Brokers:
    """How often each was started and ended; the second kind cannot be had."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def start(self, stack: ExitStack) -> str:
        self.events.append("started")
        stack.callback(self.events.append, "ended")
        return "127.0.0.1:1"

    def fail(self, stack: ExitStack) -> Any:
        self.events.append("tried")
        raise Unavailable("there is no java on the path")


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def lender(brokers: Brokers) -> Iterator[Lender]:
    with closing(Lender({"kafka": brokers.start, "rocketmq": brokers.fail})) as lender:
        yield lender


def test_a_broker_is_started_once_for_all_who_ask_and_ends_with_the_lender(brokers: Brokers) -> None:
    with closing(Lender({"kafka": brokers.start})) as lender, ThreadPoolExecutor(8) as threads:
        before = list(brokers.events)
        found = list(threads.map(lambda _: borrowed(lender.address, "kafka"), range(8)))
        meanwhile = list(brokers.events)
    assert (before, meanwhile, brokers.events) == ([], ["started"], ["started", "ended"])
    assert found == ["127.0.0.1:1"] * 8


def test_a_broker_that_cannot_be_had_is_tried_once_and_the_reason_is_reported_to_all(
    brokers: Brokers, lender: Lender
) -> None:
    for _ in range(2):
        with pytest.raises(Unavailable, match="no java"):
            borrowed(lender.address, "rocketmq")
    assert brokers.events == ["tried"]
    assert borrowed(lender.address, "kafka") == "127.0.0.1:1"


def ask_and_be_killed(address: str) -> None:
    borrowed(address, "kafka")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_ends_no_broker_for_the_others(brokers: Brokers, lender: Lender) -> None:
    process = multiprocessing.get_context("spawn").Process(target=ask_and_be_killed, args=(lender.address,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert brokers.events == ["started"]
    assert borrowed(lender.address, "kafka") == "127.0.0.1:1"
    assert brokers.events == ["started"]
