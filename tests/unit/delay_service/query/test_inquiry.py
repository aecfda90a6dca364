"""Questions about a message whose shard has just changed its owner."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from delay_service.core.history import History
from delay_service.query.inquiry import WorkerInquiry
from delay_service.worker.loop import Worker
from delayline.questions.inquiry import Found, Gone, Held, OwnerUnavailable, RequestedNames, State
from delayline.records.message import MessageId, Shard
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench

WITHIN_S = 10.0


class Answering:
    """A worker that stands still, and whose thread is whoever asks."""

    def __init__(self, worker: Worker) -> None:
        self.core, self.owns, self.writer = worker.core, worker.owns, worker.writer

    def call(self, question: Callable[[], Any]) -> "Future[Any]":
        answer: Future[Any] = Future()
        try:
            answer.set_result(question())
        except OwnerUnavailable as error:
            answer.set_exception(error)
        return answer


@pytest.fixture
def bench() -> Bench:
    """A first owner has delivered what stands behind a message that waits; the second has lost its index, and reads
    one record at a time."""
    bench = Bench()
    bench.send(b"waits", (b"delay", b"1h"))
    bench.send(b"delivered", (b"delay-ms", b"1000"))
    bench.turn()
    bench.clock.advance(1001)
    bench.turn()
    assert bench.delivered() == [b"delivered"]
    bench.index = MemoryIndex()
    bench.settings = replace(bench.settings, poll_records_max=1)
    bench.start("w2")
    return bench


@pytest.fixture
def asked(bench: Bench) -> Iterator[WorkerInquiry]:
    host = SimpleNamespace(worker=Answering(bench.worker))
    with WorkerInquiry(host, bench.queue, NAMES, History(10, 1000), bench.decisions) as inquiry:
        yield inquiry


def ids(bench: Bench) -> list[MessageId]:
    first, second = bench.log(NAMES.buffer("orders"))[:2]
    return [
        MessageId(ORDERS, 0, first.appended_at_ms + 3_600_000),
        MessageId(ORDERS, 1, second.appended_at_ms + 1000),
    ]


def test_nothing_is_answered_before_all_is_read_that_an_earlier_owner_can_have_decided(
    bench: Bench, asked: WorkerInquiry
) -> None:
    looks = 0
    while (core := bench.worker.core(ORDERS)) is None or not core.caught_up:
        for message_id in ids(bench):
            with pytest.raises(OwnerUnavailable):
                asked.find(message_id).result(WITHIN_S)
        looks += core is not None
        bench.turn(1)
    assert looks > 0, "it was never seen while it reads"
    waiting, delivered = (asked.find(message_id).result(WITHIN_S) for message_id in ids(bench))
    assert isinstance(waiting, Found)
    assert waiting.state is State.PENDING
    assert delivered == Gone()


@pytest.fixture
def unread(bench: Bench) -> MessageId:
    """A message that the worker, who has read all else, has not come to yet."""
    while (core := bench.worker.core(ORDERS)) is None or not core.caught_up:
        bench.turn(1)
    offset = bench.send(b"unread", (b"delay", b"1h"))
    return MessageId(ORDERS, offset, bench.log(NAMES.buffer("orders"))[-1].appended_at_ms + 3_600_000)


def test_of_what_a_transaction_may_hide_nothing_is_answered(
    bench: Bench, asked: WorkerInquiry, unread: MessageId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.queue, "read", lambda *_: [])
    monkeypatch.setattr(bench.queue, "is_stable", lambda *_: False)
    with pytest.raises(OwnerUnavailable, match="hide"):
        asked.find(unread).result(WITHIN_S)
    monkeypatch.undo()
    found = asked.find(unread).result(WITHIN_S)
    assert isinstance(found, Found)
    assert found.state is State.ACCEPTED


def test_a_transaction_may_end_while_it_is_asked_for(
    bench: Bench, asked: WorkerInquiry, unread: MessageId, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, hidden = bench.queue.read, [True]

    def is_stable(*_: object) -> bool:
        hidden.clear()
        return True

    monkeypatch.setattr(bench.queue, "read", lambda *given: [] if hidden else read(*given))
    monkeypatch.setattr(bench.queue, "is_stable", is_stable)
    assert isinstance(asked.find(unread).result(WITHIN_S), Found)


def test_what_has_been_trimmed_was_there_once_whatever_the_owner_knows(
    bench: Bench, asked: WorkerInquiry, unread: MessageId
) -> None:
    never = unread._replace(offset=unread.offset + 1)
    assert asked.find(never).result(WITHIN_S) is None
    bench.queue.trim(ORDERS, unread.offset + 1)
    assert asked.find(unread).result(WITHIN_S) == Gone()


def test_it_is_known_which_shards_are_the_workers(bench: Bench, asked: WorkerInquiry) -> None:
    assert not asked.owns(ORDERS)
    bench.turn()
    assert asked.owns(ORDERS)
    assert not asked.owns(Shard("orders", "1"))
    assert asked.writer == "w1"


def test_a_process_whose_worker_is_not_open_yet_owns_nothing(bench: Bench) -> None:
    host = SimpleNamespace(worker=None)
    with WorkerInquiry(host, bench.queue, NAMES, History(10, 1000), bench.decisions) as inquiry:
        assert (inquiry.owns(ORDERS), inquiry.writer) == (False, "")
        with pytest.raises(OwnerUnavailable):
            inquiry.find(ids(bench)[0]).result(WITHIN_S)


def test_it_is_known_who_has_a_name_while_the_message_waits_and_a_request_even_longer(
    bench: Bench, asked: WorkerInquiry
) -> None:
    with pytest.raises(OwnerUnavailable):
        asked.held(ORDERS, [RequestedNames("mine")]).result(WITHIN_S)
    request = (b"delayline-idempotency", b"digest key")
    bench.send(b"own", (b"delay-ms", b"1000"), (b"delay-id", b"mine"))
    bench.send(b"again", (b"delay-every", b"1h"), (b"delay-id", b"again"))
    bench.send(b"request", (b"delay-ms", b"1000"), request)
    for _ in range(20):
        bench.turn(1)
    claims = [
        RequestedNames("mine"),
        RequestedNames("again"),
        RequestedNames(None, "key"),
        RequestedNames("mine", "key"),
        RequestedNames("key"),
        RequestedNames("other"),
    ]
    held = [Held.MESSAGE, Held.REPEAT, Held.REQUEST, Held.REQUEST, Held.FREE, Held.FREE]
    assert asked.held(ORDERS, claims).result(WITHIN_S) == held
    bench.clock.advance(1001)
    for _ in range(20):
        bench.turn(1)
    held[0] = Held.FREE
    assert asked.held(ORDERS, claims).result(WITHIN_S) == held
