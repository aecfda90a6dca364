"""What a commit writes on RocketMQ, and in which order."""

from types import SimpleNamespace
from typing import Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.records.message import Shard
from delayline.records.record import encode_body
from mq.contract import Append, ShardBatch
from mq.errors import CommitAborted
from mq.rocketmq.batches import Batches
from mq.rocketmq.cluster import TopicOnBrokers
from mq.rocketmq.naming import place_of
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.topology import TopicOnBroker
from rocketmq.wire.bodies import Queue
from tests.unit.mq.rocketmq.scene import noted

SHARD = Shard("orders", "a:0")
BODY = encode_body(None, b"x")


class Cluster:
    """Its own topics are on these brokers."""

    def __init__(self, *brokers: str) -> None:
        self._brokers = brokers

    def queue(self, topic: str, partition: str) -> Queue:
        return place_of(partition, topic).of(topic)

    def queue_held(self, topic: str, partition: str) -> tuple[Queue, TopicOnBroker]:
        return self.queue(topic, partition), TopicOnBroker(1, True, 4)

    def recall(self, topic: str) -> TopicOnBrokers:
        return TopicOnBrokers(topic, topic, {broker: TopicOnBroker(1, True, 4) for broker in self._brokers})

    describe = recall


def rounds(cluster: Cluster, **parts: Any) -> list[list[str]]:
    """The topics of each."""
    settings, nothing = RocketmqSettings(name_servers="a:1", namespace="ns"), SimpleNamespace(ensure_own=noted)
    batches = Batches(settings, cluster, nothing, nothing)  # type: ignore[arg-type]
    cursor = Cursor(topic_id=bytes(16), owner_epoch=1, writer="w")
    return [[one.queue.topic for one in some] for some in batches.rounds(ShardBatch(SHARD, cursor, **parts))]


def test_rows_are_behind_all_that_they_speak_of() -> None:
    everything = {
        "deliveries": [(BODY, None)],
        "appends": [BODY],
        "audit": [BODY],
        "dead": [BODY],
        "cross_partition": [Append("ns.buffer.orders", "a:1", BODY)],
    }
    found = rounds(Cluster("a", "b"), **everything)
    assert found == [["orders"], ["ns.buffer.orders", "ns.dead"], ["ns.buffer.orders"], ["ns.audit"]]


def test_rows_are_on_the_shards_own_broker_or_the_commit_waits() -> None:
    with pytest.raises(CommitAborted, match=r"'ns\.audit' has no queues on a"):
        rounds(Cluster("b"), audit=[BODY])
