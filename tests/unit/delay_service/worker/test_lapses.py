"""delay_service.worker.lapses: a worker that did not run for a while, and what was stored meanwhile."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from delay_service.worker.lapses import AGAIN_S, LATE_S
from delayline.buffer.record import encode_control
from delayline.records.message import Header
from mq.contract import Event, Source
from mq.errors import QueueUnavailable
from tests.mutation.mutant import Mutant, load
from tests.mutation.operators import drop
from tests.unit.delay_service.harness import Bench

OWN: Header = (b"delay-id", b"k")
REPLACE: Header = (b"delay-on-conflict", b"replace")
SECOND = 1000


def delay(ms: int) -> Header:
    return b"delay-ms", b"%d" % ms


class Waiting(Executor):
    """Carries out nothing before it is `let`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.calls.append((future, lambda: call(*args, **named)))
        return future

    def let(self) -> None:
        calls, self.calls = self.calls, []
        for future, call in calls:
            future.set_result(call())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing runs."""


class OneAtATime:
    """A source that brings one record in each turn."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def poll(self, _: int, wait_s: float) -> Sequence[Event]:
        return self._source.poll(1, wait_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def waits() -> Bench:
    """A message with an own id is due in a second, and the worker has read it."""
    bench = Bench()
    bench.send(b"first", OWN, delay(SECOND))
    bench.turn()
    return bench


def lapse(bench: Bench, ms: int) -> None:
    """The worker does not run."""
    bench.clock.advance(ms)


def test_what_was_stored_in_a_lapse_before_the_due_time_is_decided_before_the_delivery() -> None:
    for more, expected in (((), [b"first"]), ((REPLACE,), [b"second"])):
        bench = waits()
        lapse(bench, SECOND // 2)
        bench.send(b"second", OWN, *more, delay(SECOND // 4))
        lapse(bench, SECOND)
        bench.turn(8)
        assert bench.delivered() == expected


def test_what_is_read_after_a_lapse_is_read_to_the_end_before_it_is_delivered() -> None:
    bench = Bench(in_front=OneAtATime)
    bench.turn()
    bench.send(b"first", OWN, delay(1))
    bench.clock.advance(10)
    bench.send(b"second", OWN, REPLACE, delay(1))
    lapse(bench, SECOND)
    bench.turn(8)
    assert bench.delivered() == [b"second"]


def test_a_purge_that_was_stored_in_a_lapse_ends_what_fell_due_in_it() -> None:
    bench = waits()
    lapse(bench, SECOND // 2)
    bench.send_raw(encode_control("purge"))
    lapse(bench, SECOND)
    bench.turn(8)
    assert bench.delivered() == []


def test_a_turn_that_took_no_longer_than_turns_do_is_no_lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = waits()
    asked: list[Any] = []
    monkeypatch.setattr(bench.queue, "log_range", asked.append)
    for _ in range(10):
        lapse(bench, int(LATE_S * 900))
        bench.turn(1)
    assert (bench.delivered(), asked) == ([b"first"], [])


def test_nothing_is_delivered_before_the_queue_names_the_end_of_the_log() -> None:
    bench = waits()
    log_range, is_there = bench.queue.log_range, False

    def asked(shard: Any) -> tuple[int, int]:
        if is_there:
            return log_range(shard)
        raise QueueUnavailable("no answer")

    bench.queue.log_range = asked
    lapse(bench, 5 * SECOND)
    bench.turn()
    assert bench.delivered() == []
    is_there = True
    bench.clock.advance(int(AGAIN_S * 1000))
    bench.turn()
    assert bench.delivered() == [b"first"]


def test_an_end_that_was_asked_for_before_another_lapse_does_not_count() -> None:
    bench, executor = waits(), Waiting()
    bench.acquirer.to = executor
    lapse(bench, SECOND * 3 // 4)
    bench.turn(1)
    calls, executor.calls = executor.calls, []
    bench.send(b"second", OWN, delay(SECOND // 4))
    for future, call in calls:
        future.set_result(dict.fromkeys(call(), 1))
    lapse(bench, SECOND)
    bench.turn(1)
    assert bench.delivered() == []
    executor.let()
    bench.clock.advance(int(LATE_S * 500))
    bench.turn(8)
    executor.let()
    bench.turn(8)
    assert bench.delivered() == [b"first"]


CAUGHT: tuple[tuple[Mutant, str, Callable[[], None]], ...] = (
    (
        Mutant("a worker goes on after a lapse as if there had been none", "lapse", drop),
        "tests.unit.delay_service.harness.Worker",
        test_what_was_stored_in_a_lapse_before_the_due_time_is_decided_before_the_delivery,
    ),
    (
        Mutant("what is read after a lapse is delivered before the rest of it is read", "lapse-unread", drop),
        "delay_service.worker.loop.Lapses",
        test_what_is_read_after_a_lapse_is_read_to_the_end_before_it_is_delivered,
    ),
    (
        Mutant("an end of before a lapse counts", "lapse-anew", drop),
        "delay_service.worker.loop.Lapses",
        test_an_end_that_was_asked_for_before_another_lapse_does_not_count,
    ),
)
MUTANTS = tuple(mutant for mutant, _, _ in CAUGHT)


@pytest.mark.parametrize(("mutant", "place", "check"), CAUGHT, ids=[mutant.broken for mutant in MUTANTS])
def test_a_rule_that_is_broken_is_noticed(
    mutant: Mutant, place: str, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = getattr(load(mutant, (mutant.module,))[mutant.module], place.rpartition(".")[2])
    monkeypatch.setattr(place, broken)

    with pytest.raises(AssertionError):
        check()
