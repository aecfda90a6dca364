"""How a member leaves the group: nothing is asked of a library that closes, and few of its events are left."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from delayline.clock import SystemClock
from delayline.records.message import Shard
from mq.contract import Assigned, Event, Lost, Revoked
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker import membership
from mq.kafka.worker.membership import Membership

SETTINGS = KafkaSettings(bootstrap_servers="127.0.0.1:1", namespace="ns")
PARTS = [TopicPartition("ns.buffer.orders", 0)]
SHARDS = (Shard("orders", "0"),)


class Library:
    """The consumer, as far as a member uses it. It has news for who has unsubscribed, and more for who closes it."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.at_last: list[Callable[[], None]] = []
        self.in_close: list[Callable[[], None]] = []
        self.unsubscribed = self.closing = False
        self.asked_while_closing = 0

    def subscribe(self, _: list[str], on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.at_last = [lambda: on_assign(self, PARTS), lambda: on_assign(self, [])]
        self.in_close = [lambda: on_assign(self, []), lambda: on_revoke(self, PARTS)]

    def unsubscribe(self) -> None:
        self.unsubscribed = True

    def poll(self, _: float) -> None:
        if self.unsubscribed and self.at_last:
            self.at_last.pop(0)()

    def close(self) -> None:
        self.closing = True
        for news in self.in_close:
            news()

    def consumer_group_metadata(self) -> bytes:
        self.asked_while_closing += self.closing
        return b"member and generation"

    def memberid(self) -> str:
        return "member"

    def incremental_assign(self, parts: list[TopicPartition]) -> None:
        assert parts == []

    incremental_unassign = incremental_assign


def test_a_member_that_leaves_hears_the_library_out_and_asks_nothing_of_one_that_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "Consumer", Library)
    events: list[Event] = []
    member = Membership(SETTINGS, "writer", SystemClock(), events.append)
    member.close()
    assert not member._thread.is_alive()
    library: Any = member._member
    assert (library.at_last, library.asked_while_closing) == ([], 0)
    assert events == [Assigned(SHARDS), Revoked(SHARDS), Lost(SHARDS)]
    assert member.standing().metadata is None
