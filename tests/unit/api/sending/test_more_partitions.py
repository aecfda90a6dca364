"""A topic that gains partitions: when the API sees them, and how often it asks."""

from typing import Any

import pytest

from api.sending.partitioner import partition_index
from api.topics import FRESH_S, RENEWED_S
from mq.contract import TopicInfo
from mq.errors import TopicUnknown
from tests.unit.api.in_memory import MESSAGES, Api, pointers, problem

DELAYED = {"value": "x", "schedule": {"delay": "1h"}}


class Growing(Api):
    """The queue shows two partitions of `orders`, and four once it has `grown`."""

    def __init__(self) -> None:
        super().__init__(topics_on_first_use=False)
        self.grown = self.gone = False
        self.questions = 0
        self.queue.ensure_topic("orders")
        self.queue.ensure_buffer("orders", self.rules)
        self._topic = self.queue.topic
        self.queue.topic = self._shown

    def _shown(self, name: str) -> TopicInfo:
        self.questions += 1
        if self.gone:
            raise TopicUnknown(f"there is no topic {name!r}")
        info = self._topic(name)
        return info if self.grown else info._replace(partitions=info.partitions[:2])

    def pass_s(self, seconds: float) -> None:
        self.clock.advance(round(1000 * seconds))


@pytest.fixture
def growing() -> Growing:
    """It has sent something already, and the topic has grown since then."""
    api = Growing()
    assert api.send({"value": "x", "partition": 1}).status_code == 201
    api.grown = True
    return api


@pytest.mark.parametrize("body", [{"value": "x", "partition": 3}, {**DELAYED, "partition": 3}])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_message_for_a_new_partition_is_taken_at_once(growing: Growing, body: Any, mode: str) -> None:
    assert growing.send(body, f"{MESSAGES}?mode={mode}").status_code in (201, 202)
    buffer = "delayline.buffer.orders" if "schedule" in body else "orders"
    assert [record.value for record in growing.records(buffer, "3")] == [b"x"]


def test_so_is_a_batch_and_of_one_with_faults_only_those_are_named(growing: Growing) -> None:
    members = [{"value": 1, "partition": 3}, {"value": 2, "partition": 4}]
    growing.grown = False
    assert len(pointers(growing.send({"messages": members}))) == 2
    growing.grown = True
    growing.pass_s(RENEWED_S)
    answer = growing.send({"messages": [*members, {"foo": 1}]})
    assert pointers(answer) == [("/messages/1/partition", "partition-unknown"), ("/messages/2/foo", "unknown-field")]
    assert growing.send({"messages": members[:1]}).status_code == 201


def test_a_partition_that_is_not_there_does_not_hammer_the_queue(growing: Growing) -> None:
    growing.questions = 0
    for _ in range(50):
        assert problem(growing.send({"value": "x", "partition": 9})) == (400, "invalid-request")
    assert growing.questions == 1
    growing.pass_s(RENEWED_S)
    for _ in range(50):
        growing.send({"value": "x", "partition": 9})
    assert growing.questions == 2
    growing.send({"value": "x", "partition": 1})
    assert growing.questions == 2


def test_messages_with_a_key_spread_over_the_new_ones_when_the_queue_is_asked_again(growing: Growing) -> None:
    key = next(f"k{n}" for n in range(99) if partition_index(f"k{n}".encode(), 4) > 1)
    assert growing.send({"value": "x", "key": key}).json()["partition"] < 2
    growing.pass_s(FRESH_S)
    assert growing.send({"value": "x", "key": key}).json()["partition"] > 1


def test_who_reads_sees_new_partitions_within_a_second_and_who_sends_after_that(growing: Growing) -> None:
    assert growing.get("/v1/messages?topic=orders").status_code == 200
    assert len(growing.owners.asked[-1][0]) == 2
    growing.pass_s(RENEWED_S)
    growing.get("/v1/messages?topic=orders")
    assert len(growing.owners.asked[-1][0]) == 4
    key = next(f"k{n}" for n in range(99) if partition_index(f"k{n}".encode(), 4) > 1)
    assert growing.send({"value": "x", "key": key}).json()["partition"] > 1


def test_a_topic_that_has_vanished_is_unknown_to_who_reads(growing: Growing) -> None:
    growing.gone = True
    growing.pass_s(RENEWED_S)
    assert problem(growing.get("/v1/messages?topic=orders")) == (404, "topic-unknown")
    assert problem(growing.send({"value": "x"})) == (404, "topic-unknown")
