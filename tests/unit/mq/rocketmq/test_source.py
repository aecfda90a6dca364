"""How a worker reads its shards on RocketMQ: one pull at a time, and when the next one follows."""

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from delayline.clock import ManualClock
from delayline.records.message import Shard
from mq.broker_clock import BrokerClock
from mq.contract import Assigned, Fetched, OutOfRange
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.source import TICK_S, RocketmqSource
from rocketmq.client.broker import Pulled, PullStatus
from rocketmq.wire.bodies import Queue
from rocketmq.wire.stored import StoredMessage
from tests.unit.mq.rocketmq.scene import noted

SHARDS = [Shard("orders", f"a:{number}") for number in range(2)]


class Pulls:
    """Pulls that are under way, by queue id; the offset of each."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[int, Future[Pulled]]] = {}

    def pull_later(self, queue: Queue, offset: int, **_: Any) -> "Future[Pulled]":
        assert queue.queue_id not in self.waiting
        future: Future[Pulled] = Future()
        self.waiting[queue.queue_id] = offset, future
        return future

    def answer(self, number: int, end: int, offsets: Sequence[int] = ()) -> None:
        """With one message, or those at the `offsets`, where the queue ends at `end`."""
        offset, future = self.waiting.pop(number)
        messages = [message_at(number, at) for at in offsets or (offset,)]
        future.set_result(Pulled(PullStatus.FOUND, messages[-1].queue_offset + 1, 0, end, messages))


def message_at(number: int, offset: int) -> StoredMessage:
    return StoredMessage("orders", number, offset, 0, b"x", b"", 0, 0, 0, b"", 0, 0, b"", 0, 0, 0, 0)


class Scene:
    def __init__(self) -> None:
        self.clock, self.pulls = ManualClock(), Pulls()
        settings = RocketmqSettings(name_servers="a:1", namespace="ns")
        cluster: Any = SimpleNamespace(low=lambda _: 0)
        requests: Any = self.pulls
        self.source = RocketmqSource(settings, cluster, requests, self.clock, BrokerClock(self.clock), noted)
        self.source.notify(Assigned(SHARDS))
        self.source.poll(10, 0)
        for shard in SHARDS:
            self.source.seek(shard, 0)

    def fetched(self) -> list[int]:
        """The offsets that a poll brings."""
        events = self.source.poll(10, 0)
        return [offset for event in events if isinstance(event, Fetched) for offset, _, _ in event.records]


def test_behind_the_end_of_a_queue_the_next_pull_waits_for_a_tick() -> None:
    scene = Scene()
    assert scene.fetched() == []
    scene.pulls.answer(0, end=1)
    assert scene.fetched() == [0]
    assert scene.fetched() == []
    assert sorted(scene.pulls.waiting) == [1]
    scene.clock.advance(round(1000 * TICK_S))
    assert scene.fetched() == []
    assert sorted(scene.pulls.waiting) == [0, 1]


def test_where_more_is_there_the_next_pull_follows_at_once() -> None:
    scene = Scene()
    assert scene.fetched() == []
    scene.pulls.answer(0, end=2)
    assert scene.fetched() == [0]
    assert scene.fetched() == []
    assert scene.pulls.waiting[0][0] == 1


def test_shards_whose_ends_were_read_at_different_times_are_pulled_together() -> None:
    scene = Scene()
    assert scene.fetched() == []
    for number, shard in enumerate(SHARDS):
        scene.pulls.answer(number, end=1)
        assert scene.fetched() == [0], shard
        scene.clock.advance(round(1000 * TICK_S / 4))
    assert not scene.pulls.waiting
    scene.clock.advance(round(1000 * TICK_S / 2))
    assert scene.fetched() == []
    assert sorted(scene.pulls.waiting) == [0, 1]


def test_a_shard_of_which_messages_are_gone_is_read_up_to_them_and_no_further() -> None:
    scene = Scene()
    assert scene.fetched() == []
    scene.pulls.answer(0, end=9, offsets=[0, 1, 5, 6])
    assert scene.fetched() == [0, 1]
    assert scene.fetched() == []
    assert scene.pulls.waiting[0][0] == 2
    scene.pulls.answer(0, end=9, offsets=[5, 6])
    events = scene.source.poll(10, 0)
    assert events == [OutOfRange(SHARDS[0], "orders.a:0: offsets 2 to 5 have been deleted")]
    scene.clock.advance(60_000)
    assert scene.fetched() == []
    assert 0 not in scene.pulls.waiting
