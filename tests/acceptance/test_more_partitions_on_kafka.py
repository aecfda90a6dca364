"""A topic of Kafka that gains partitions while a server knows it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.asking import HTTP, wait_for
from tests.acceptance.on_kafka import PARTITIONS
from tests.fault.server import Server

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt


def add_partitions(kafka: "KafkaAt", topic: str, number: int) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, number)])[topic].result()
    wait_for(lambda: len(admin.list_topics(topic).topics[topic].partitions), lambda found: found == number)


@pytest.mark.thorough
def test_messages_for_a_new_partition_are_taken_at_once(
    kafka: "KafkaAt", running: Callable[..., list[Server]], topic: str
) -> None:
    (server,) = running("serve")
    path = f"{server.url}/v1/topics/{topic}/messages"
    delayed = {"schedule": {"delay": "10ms"}}

    def status(body: dict[str, Any]) -> int:
        answer = HTTP.post(path, json=body, timeout=20)
        assert answer.status_code == 201, answer.text
        return answer.status_code

    assert [status({"value": 1, "partition": 1}), status({"value": 1, "partition": 1, **delayed})] == [201, 201]
    add_partitions(kafka, topic, PARTITIONS + 2)
    new = {"value": 2, "partition": PARTITIONS + 1}
    assert status(new) == 201
    assert status({**new, **delayed}) == 201
    assert status({"messages": [new, {**new, **delayed}]}) == 201
    records = f"{server.url}/v1/topics/{topic}/records"
    found = wait_for(
        lambda: HTTP.get(records, params={"partition": PARTITIONS + 1}).json().get("records", []),
        lambda found: len(found) == 4,
    )
    assert len(found) == 4
