"""A member of the worker group that fails: what it had is lost, and another one takes its place."""

from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event as Flag
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from delayline.clock import SystemClock
from delayline.process import threads
from delayline.records.message import Shard
from mq.contract import Assigned, Event, Lost
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker import membership
from mq.kafka.worker.membership import Membership

FATAL = KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "fatal", fatal=True))
SHARD = Shard("orders", "2")


class Member:
    """Is assigned the shard at once, and fails when a test asks for it."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.assigned: Callable[..., None] | None = None
        self.closed = False

    def subscribe(self, _: list[str], *, on_assign: Callable[..., None], **__: Any) -> None:
        self.assigned = on_assign

    def poll(self, timeout_s: float) -> None:
        if self.closed:
            raise RuntimeError("Consumer closed")
        if self.error is not None:
            raise self.error
        if self.assigned is not None:
            assigned, self.assigned = self.assigned, None
            assigned(self, [TopicPartition("delayline.buffer.orders", 2)])

    def unsubscribe(self) -> None:
        if self.closed:
            raise RuntimeError("Consumer closed")

    def close(self) -> None:
        self.closed = True

    def incremental_assign(self, _: object) -> None:
        pass

    def memberid(self) -> str:
        return "" if self.closed else "one"

    def consumer_group_metadata(self) -> bytes:
        return b"metadata"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "AGAIN_S", 0.01)


@pytest.mark.parametrize("error", [FATAL, SystemError("lost"), RuntimeError("Consumer closed")])
def test_a_member_that_fails_loses_its_shards_and_joins_anew(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    members = [Member(), Member()]
    made: Iterator[Member] = iter(members)
    monkeypatch.setattr(membership, "Consumer", lambda _: next(made))
    events: list[Event] = []
    twice = Flag()

    def notify(event: Event) -> None:
        events.append(event)
        if len(events) == 1:
            members[0].error = error
        if len(events) == 3:
            twice.set()

    with closing(
        Membership(KafkaSettings(bootstrap_servers="127.0.0.1:1"), "writer", SystemClock(), notify)
    ) as member:
        assert twice.wait(30)
        assert events == [Assigned((SHARD,)), Lost((SHARD,)), Assigned((SHARD,))]
        assert member.standing().tenures == {SHARD: 2}
