"""What only the in-memory queue has, and readers that a trim overtakes: that takes a queue that can be held still."""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.records.message import Shard
from mq.contract import Delivery, OutOfRange
from mq.errors import OffsetOutOfRange, QueueUnavailable
from mq.memory import MemoryQueue
from tests.contract.drive import append, bodies, buffer, fetched, start_worker

SHARD = Shard("orders", "0")


@pytest.fixture
def queue(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue(namespace="delayline", clock=clock, bytes_max=1000)


def test_an_append_has_taken_effect_when_the_call_returns(queue: MemoryQueue) -> None:
    queue.ensure_topic("orders")
    future = queue.append([])
    assert future.done()


def test_clients_are_refused_where_memory_is_full_and_workers_go_on(queue: MemoryQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"x" * 1000)
    with pytest.raises(QueueUnavailable, match="its limit is 1000"):
        append(queue, "orders", "0", b"x")
    worker.commit(SHARD, deliveries=[Delivery(b"d")])
    assert bodies(queue, "orders") == [b"d"]


def test_trimmed_memory_can_be_filled_again(queue: MemoryQueue) -> None:
    name = buffer(queue)
    append(queue, name, "0", b"x" * 500, b"x" * 500)
    queue.trim(SHARD, 1)
    append(queue, name, "0", b"y")
    assert bodies(queue, name, offset=1) == [b"x" * 500, b"y"]


class Overtaking(ManualClock):
    """A clock that stops. `meanwhile` is done once by another thread, when the time is asked for."""

    meanwhile: Callable[[], None] | None = None

    def monotonic_s(self) -> float:
        if self.meanwhile is not None:
            Thread(target=self.meanwhile).start()
            self.meanwhile = None
        return super().monotonic_s()


def test_records_that_come_right_behind_others_are_read_together_and_a_wake_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mq.local.worker.READ_EVERY_S", 3600.0)
    clock = Overtaking()
    queue = MemoryQueue(namespace="delayline", clock=clock)
    worker, name = start_worker(queue), buffer(queue)
    worker.seek_all()
    append(queue, name, "0", b"first")
    assert worker.poll()
    append(queue, name, "0", b"second")

    def meanwhile() -> None:
        append(queue, name, "0", b"third")
        worker.source.wake()

    clock.meanwhile = meanwhile
    found = fetched(worker.source.poll(10, 3600.0))
    assert [record.body for record in found[SHARD]] == [b"second", b"third"]


def trim_before_reading(queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a reader's look at the range and its reading, everything is trimmed away."""
    read: Callable[..., Any] = queue._storage.read

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        queue.trim(SHARD, 2)
        return read(*arguments)

    monkeypatch.setattr(queue._storage, "read", overtaken)


def test_a_client_that_a_trim_overtakes_hears_that_the_records_are_gone(
    queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(queue, buffer(queue), "0", b"a", b"b")
    trim_before_reading(queue, monkeypatch)
    with pytest.raises(OffsetOutOfRange):
        queue.read(buffer(queue), "0", 0, 10)


def test_a_worker_that_a_trim_overtakes_hears_of_it_by_the_next_poll(
    queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a", b"b")
    worker.seek_all()
    trim_before_reading(queue, monkeypatch)
    assert worker.source.poll(10, 0) == []
    assert [type(event) for event in worker.source.poll(10, 0)] == [OutOfRange]
