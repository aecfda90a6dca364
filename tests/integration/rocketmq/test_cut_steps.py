"""A commit on RocketMQ that is cut off at any of its requests: it happens wholly or not at all, and once."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from delayline.records.message import Key, Shard
from mq.contract import Append, Delivery
from mq.errors import CommitError, QueueUnavailable
from rocketmq.errors import Unreachable
from tests.brokers.rocketmq import RocketMqAt
from tests.contract.drive import Worker, bodies, next_claim, start_worker
from tests.contract.on_rocketmq import SuiteQueue
from tests.integration.rocketmq.waiting import soon
from tests.tiers import sample

SHARD = Shard("orders", "0")
RETRY = "delayline.retry.billing"
PLACES = ("orders", "delayline.buffer.orders", "delayline.audit", "delayline.dead", RETRY)
REQUESTS = 7
"""The step, its deliveries; dead letter and group; what goes on and rows; the note that it is done."""


def opened(rocketmq: RocketMqAt, **options: Any) -> SuiteQueue:
    return SuiteQueue(rocketmq.settings.name_servers[0], namespace="delayline", partitions=1, **options)


@pytest.fixture
def queue(rocketmq: RocketMqAt) -> Iterator[Any]:
    with closing(opened(rocketmq)) as made:
        yield made


def cut(session: Any, number: int, *, sent: bool) -> None:
    """The session ends at its request of this number from now on, before it is `sent` or just afterwards."""
    real, left = session.requests.send_batch_later, [number]

    def send(*args: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0]:
            return real(*args, **more)
        future = real(*args, **more) if sent else None
        session.end()
        if future is None:
            raise Unreachable("cut off")
        return future

    session.requests.send_batch_later = send


def parts(name: str) -> dict[str, Any]:
    """Of a commit of this name: something for every place."""
    body = name.encode()
    return {
        "deliveries": [Delivery(b"%s.%d" % (body, number)) for number in range(3)],
        "appends": [body],
        "audit": [body],
        "dead": [body],
        "cross_partition": [Append(RETRY, "0", body)],
    }


def everywhere(queue: Any) -> dict[str, list[bytes]]:
    found = {topic: queue.topic(topic).partitions for topic in PLACES}
    return {
        topic: [one for partition in partitions for one in bodies(queue, topic, partition)]
        for topic, partitions in found.items()
    }


def taken_again(queue: Any, worker: Worker) -> Any:
    """The cursor that the worker finds when it has the shard again, which it claims."""

    def claim() -> Any:
        worker.source.poll(10, 0.05)
        try:
            return next_claim(queue, SHARD, worker.name)
        except QueueUnavailable:
            return None

    claimed = soon(claim)
    worker.cursors[SHARD] = claimed
    worker.commit(SHARD)
    return claimed


def expected(happened: list[str]) -> dict[str, list[bytes]]:
    names = [name.encode() for name in happened]
    deliveries = [b"%s.%d" % (name, number) for name in names for number in range(3)]
    return {topic: deliveries if topic == "orders" else names for topic in PLACES}


@pytest.mark.parametrize("number", sample(range(1, REQUESTS + 1), every=2))
def test_a_commit_cut_off_at_any_request_happens_wholly_or_not_at_all(queue: Any, number: int) -> None:
    worker = start_worker(queue)
    worker.commit(SHARD, **parts("first"))
    happened = ["first"]
    for sent in (False, True):
        name = f"{number}-{sent}"
        next_offset = worker.cursors[SHARD].next_offset + 1
        worker.cursors[SHARD] = replace(
            worker.cursors[SHARD], next_offset=next_offset, delivered_key=Key(next_offset, 0)
        )
        cut(queue.session(SHARD), number, sent=sent)
        try:
            worker.commit(SHARD, **parts(name))
            answered = True
        except CommitError:
            answered = False
        found = taken_again(queue, worker)
        happened += [name] if found.next_offset == next_offset else []
        worker.cursors[SHARD] = replace(
            worker.cursors[SHARD], next_offset=next_offset, delivered_key=Key(next_offset, 0)
        )
        assert everywhere(queue) == expected(happened)
        assert (found.next_offset == next_offset) or not answered
        assert (found.next_offset == next_offset) == (number > 2 or (number == 2 and sent))


def test_a_commit_without_deliveries_has_happened_when_its_step_is_written_down(queue: Any) -> None:
    worker = start_worker(queue)
    cut(queue.session(SHARD), 2, sent=False)
    with pytest.raises(CommitError):
        worker.commit(SHARD, appends=[b"r"], audit=[b"u"])
    taken_again(queue, worker)
    assert (bodies(queue, "delayline.buffer.orders"), bodies(queue, "orders")) == ([b"r"], [])


def test_a_takeover_that_is_cut_off_itself_is_gone_on_with_by_the_next_one(queue: Any) -> None:
    worker = start_worker(queue)
    worker.commit(SHARD, **parts("first"))
    cut(queue.session(SHARD), 3, sent=False)
    with pytest.raises(CommitError):
        worker.commit(SHARD, **parts("second"))
    ended = soon(lambda: (worker.source.poll(10, 0.05), queue.session(SHARD))[1])
    cut(ended, 5, sent=True)  # two claims, and of the rest the second
    with pytest.raises(QueueUnavailable):
        queue.takeover(SHARD)
    taken_again(queue, worker)
    assert everywhere(queue) == expected(["first", "second"])


def test_rows_that_wait_when_a_worker_is_cut_off_are_stored_by_the_next_one(rocketmq: RocketMqAt) -> None:
    with closing(opened(rocketmq, rows_every_s=3600.0)) as queue:
        worker = start_worker(queue)  # type: ignore[arg-type]
        for name in ("first", "second", "third"):
            worker.commit(SHARD, **parts(name))
        cut(queue.session(SHARD), 2, sent=False)  # its deliveries
        with pytest.raises(CommitError):
            worker.commit(SHARD, **parts("fourth"))
        taken_again(queue, worker)
        assert everywhere(queue) == expected(["first", "second", "third"])
