"""What a real broker refuses, and what a commit makes of it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.records.message import Header, Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Delivery, Lost
from mq.errors import DeliveryRefused, QueueUnavailable, TopicUnknown
from mq.rocketmq.body import PROPERTIES_BYTES_MAX
from mq.rocketmq.queue import RocketmqQueue
from mq.rocketmq.settings import RECORD_BYTES_MAX, RocketmqSettings
from rocketmq.client.client import Client
from rocketmq.errors import InvalidRequest, Refused
from rocketmq.wire.bodies import Queue
from rocketmq.wire.codes import Answer
from rocketmq.wire.headers.admin import Permission
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.contract.drive import Worker
from tests.integration.rocketmq.service import delete
from tests.integration.rocketmq.waiting import CLOCK, soon

pytestmark = pytest.mark.thorough
BODY_MAX = 4 << 20


class Owned:
    """A worker with the only shard of a topic, on a queue of its own namespace."""

    def __init__(self, server: RocketMqAt, topic: str) -> None:
        settings = RocketmqSettings(
            name_servers=server.settings.name_servers[0],
            namespace=f"ns-{topic}",
            discovery_interval_s=0.2,
            landing_s=0.1,
        )
        self.queue = RocketmqQueue(settings, CLOCK)
        self.shard = Shard(topic, f"{BROKER}:0")
        self.queue.ensure_buffer(topic, DEFAULT_RULES)
        self.source, self.sink = self.queue.open_worker("first")
        self.worker = Worker(self.queue, "first", self.source, self.sink, {})
        soon(lambda: self.source.poll(1, 0.1))
        handover = self.queue.takeover(self.shard)
        self.worker.cursors[self.shard] = Cursor(topic_id=handover.topic_id, owner_epoch=1, writer="first")
        self.worker.commit(self.shard)

    def deliver(self, *bodies: bytes) -> None:
        self.worker.commit(self.shard, deliveries=[Delivery(body) for body in bodies])

    def refusal(self, *bodies: bytes) -> DeliveryRefused:
        with pytest.raises(DeliveryRefused) as found:
            self.deliver(*bodies)
        return found.value

    def close(self) -> None:
        self.source.close()
        self.queue.close()


@pytest.fixture
def topic(client: Client, queue: Queue) -> str:
    client.admin.create_topic(queue.topic, BROKER, 1)
    return queue.topic


@pytest.fixture
def owned(rocketmq: RocketMqAt, topic: str) -> Iterator[Owned]:
    with closing(Owned(rocketmq, topic)) as made:
        yield made


def values(client: Client, topic: str) -> list[bytes]:
    return [one.body for one in client.broker.pull(Queue(topic, BROKER, 0), 0).messages]


def body(value: bytes, *headers: Header) -> bytes:
    return encode_body(None, value, list(headers))


def test_a_target_that_may_not_be_written_refuses_and_goes_on_when_it_may(
    client: Client, topic: str, owned: Owned
) -> None:
    client.admin.create_topic(topic, BROKER, 1, permission=Permission.READ)
    soon(lambda: "may not be written" in str(owned.queue.target_trouble(owned.shard)))
    refused = owned.refusal(body(b"m"))
    assert (refused.shard, refused.of_record) == (owned.shard, False)
    assert "may not be written" in refused.reason
    with pytest.raises(QueueUnavailable, match="may not be written"):
        owned.queue.append([Append(topic, f"{BROKER}:0", body(b"at once"))]).result()
    client.admin.create_topic(topic, BROKER, 1)
    soon(lambda: owned.queue.target_trouble(owned.shard) is None)
    owned.deliver(body(b"m"))
    soon(lambda: values(client, topic) == [b"m"])


def test_a_target_that_was_deleted_refuses_and_goes_on_when_it_is_made_again(
    rocketmq: RocketMqAt, client: Client, topic: str, owned: Owned
) -> None:
    delete(rocketmq, client, topic)
    soon(lambda: owned.queue.target_trouble(owned.shard) is not None)
    refused = owned.refusal(body(b"m"))
    assert (refused.shard, refused.of_record) == (owned.shard, False)
    client.admin.create_topic(topic, BROKER, 1)
    soon(lambda: owned.queue.target_trouble(owned.shard) is None)
    owned.deliver(body(b"m"))
    soon(lambda: values(client, topic) == [b"m"])


def test_the_largest_record_is_delivered_and_a_larger_one_is_the_records_fault(
    client: Client, topic: str, owned: Owned
) -> None:
    largest = RECORD_BYTES_MAX - len(body(b""))
    while len(body(bytes(largest))) > RECORD_BYTES_MAX:
        largest -= 1
    assert owned.refusal(body(bytes(largest + 1))).of_record
    owned.deliver(*[body(bytes(largest))] * 5)  # two requests
    soon(lambda: sum(map(len, values(client, topic))) >= largest)


def test_headers_as_large_as_properties_may_be_are_delivered_and_larger_ones_are_the_records_fault(
    client: Client, topic: str, owned: Owned
) -> None:
    most = PROPERTIES_BYTES_MAX - len("h\x01\x02")
    assert owned.refusal(body(b"m", (b"h", b"x" * (most + 1)))).of_record
    owned.deliver(body(b"m", (b"h", b"x" * most)))
    soon(lambda: values(client, topic) == [b"m"])


def test_a_broker_takes_4_mib_and_refuses_more_as_illegal(rocketmq: RocketMqAt, client: Client, topic: str) -> None:
    queue = Queue(topic, BROKER, 0)
    client.broker.send(queue, bytes(BODY_MAX))
    with pytest.raises(InvalidRequest):
        client.broker.send(queue, bytes(BODY_MAX + 1))
    with Client(replace(rocketmq.settings, body_bytes_max=2 * BODY_MAX)) as other, pytest.raises(Refused) as found:
        other.broker.send(queue, bytes(BODY_MAX + 1))
    assert found.value.code == Answer.MESSAGE_ILLEGAL


def test_a_buffer_that_is_deleted_takes_its_shard_with_it_and_comes_back_as_another_one(
    rocketmq: RocketMqAt, client: Client, topic: str, owned: Owned
) -> None:
    def lost() -> Any:
        return [event for event in owned.source.poll(10, 0.1) if isinstance(event, Lost)]

    delete(rocketmq, client, f"ns-{topic}%buffer%{topic}")
    assert soon(lost)[0].shards == (owned.shard,)
    with pytest.raises(TopicUnknown):
        owned.queue.buffer(owned.shard)
    owned.queue.ensure_buffer(topic, DEFAULT_RULES)
    soon(lambda: owned.source.poll(10, 0.1))
    handover = owned.queue.takeover(owned.shard)
    assert handover.cursor is not None
    assert handover.cursor.topic_id != handover.topic_id
