"""Where things are: learned once, believed until another answer comes."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from delayline.clock import SystemClock
from kafkawire.client.address import Address
from kafkawire.client.metadata import GROUP, TRANSACTION, Nodes
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, TopicMissing, Unreachable
from kafkawire.protocol.message import Message, RequestHeader, decode
from kafkawire.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from kafkawire.security.access import Access
from tests.unit.mq.kafka.served import served


class Cluster:
    """One node, 1, that knows who leads what. `leaders` by topic; -1 is nobody."""

    def __init__(self) -> None:
        self.leaders: dict[str, list[int]] = {"orders": [1, 2]}
        self.asked: list[int] = []
        self.address = Address("127.0.0.1", 0)
        self.hang_up = 0

    def answer(self, header: RequestHeader, body: memoryview) -> Message | None:
        self.asked.append(header.api_key)
        if self.hang_up:
            self.hang_up -= 1
            return None
        brokers = [MetadataBroker(1, *self.address)]
        if header.api_key == ApiKey.FIND_COORDINATOR:
            (key,) = decode(FindCoordinatorRequest, header.version, body).coordinator_keys
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE if key == "nobody's" else 0
            return FindCoordinatorResponse(coordinators=[Coordinator(key, 1, *self.address, error, None)])
        topics = decode(MetadataRequest, header.version, body).topics or []
        return MetadataResponse(brokers=brokers, topics=[self._topic(topic.name or "") for topic in topics])

    def _topic(self, name: str) -> MetadataTopic:
        if name not in self.leaders:
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        rows = enumerate(self.leaders[name])
        return MetadataTopic(0, name, partitions=[MetadataPartition(0, row, leader) for row, leader in rows])


@contextmanager
def cluster() -> Iterator[tuple[Cluster, Nodes]]:
    made = Cluster()
    with (
        served(made.answer) as made.address,
        closing(Nodes((made.address,), Access(), "test", 5, SystemClock())) as nodes,
    ):
        yield made, nodes


def test_a_leader_is_asked_for_once_and_again_when_it_was_forgotten() -> None:
    with cluster() as (made, nodes):
        assert [nodes.leader("orders", 0), nodes.leader("orders", 1), nodes.leader("orders", 0)] == [1, 2, 1]
        assert made.asked == [ApiKey.METADATA]
        made.leaders["orders"] = [2, 2]
        nodes.forget("orders")
        assert nodes.known_leader("orders", 0) is None
        assert nodes.leader("orders", 0) == 2


@pytest.mark.parametrize(("topic", "row", "error"), [("nowhere", 0, TopicMissing), ("orders", 2, TopicMissing)])
def test_what_there_is_not_is_an_error(topic: str, row: int, error: type[Exception]) -> None:
    with cluster() as (_, nodes), pytest.raises(error):
        nodes.leader(topic, row)


def test_a_partition_without_a_leader_is_unreachable_and_asked_for_again() -> None:
    with cluster() as (made, nodes):
        made.leaders["orders"] = [-1]
        with pytest.raises(Unreachable, match="no leader"):
            nodes.leader("orders", 0)
        made.leaders["orders"] = [1]
        assert nodes.leader("orders", 0) == 1


def test_a_coordinator_is_asked_for_once_and_again_when_it_was_forgotten() -> None:
    with cluster() as (made, nodes):
        assert nodes.coordinator(GROUP, "workers") == nodes.coordinator(GROUP, "workers") == 1
        assert len(made.asked) == 1
        nodes.forget_coordinator(GROUP, "workers")
        nodes.coordinator(GROUP, "workers")
        nodes.coordinator(TRANSACTION, "workers")
        assert len(made.asked) == 3
        with pytest.raises(Unreachable, match="nobody's"):
            nodes.coordinator(GROUP, "nobody's")


def test_a_question_whose_answer_was_lost_is_asked_again() -> None:
    with cluster() as (made, nodes):
        made.hang_up = 1
        assert nodes.leader("orders", 0) == 1
        assert len(made.asked) == 2


def test_a_connection_leads_to_the_node_that_was_named() -> None:
    with cluster() as (_, nodes):
        with closing(nodes.connect(1)) as connection:
            assert connection.is_open
        with pytest.raises(Unreachable, match="no node 2"):
            nodes.connect(2)


def test_another_server_is_tried_where_the_first_does_not_answer() -> None:
    with served(lambda header, body: None) as dead:
        pass
    with cluster() as (made, _), closing(Nodes((dead, made.address), Access(), "test", 5, SystemClock())) as nodes:
        assert nodes.leader("orders", 0) == 1
