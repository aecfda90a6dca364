"""A worker with the rights of docs/deploy.md, and no other, delivers, also to partitions that are added later."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from cli import kafka_rights as table
from delayline.schedule.rules import DEFAULT_RULES
from mq.errors import QueueUnavailable
from mq.kafka.queue import KafkaQueue
from tests.conftest import started
from tests.integration.kafka.conftest import PATIENCE_S, Place, soon
from tests.integration.kafka.whole_worker import arrived, send, working

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

COUNT = 20


@pytest.fixture
def strict() -> "Iterator[Kafka]":
    from tests.brokers.kafka import Kafka

    with started(lambda: Kafka(properties={"allow.everyone.if.no.acl.found": "false"})) as broker:
        yield broker


def grant(place: Place) -> None:
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    resources = {
        table.OWN: (ResourceType.TOPIC, f"{place.namespace}.", prefixed),
        table.TARGETS: (ResourceType.TOPIC, place.topic, literal),
        table.WORKER_GROUP: (ResourceType.GROUP, f"{place.namespace}-worker", literal),
        table.RECONCILE_GROUP: (ResourceType.GROUP, f"{place.namespace}-reconcile", literal),
        table.OUR_IDS: (ResourceType.TRANSACTIONAL_ID, place.namespace, prefixed),
        table.CLUSTER: (ResourceType.BROKER, "kafka-cluster", literal),
    }
    acls = []
    for right in table.RIGHTS:
        if "worker" in right.roles:
            kind, name, pattern = resources[right.resource]
            operation = AclOperation[table._asked(right.operation)]
            acls.append(AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW))
    for future in place.admin.create_acls(acls).values():
        future.result(PATIENCE_S)


def _has_buffer(queue: KafkaQueue, topic: str) -> bool:
    """False while the broker refuses: it applies rights some time after it has answered."""
    try:
        queue.ensure_buffer(topic, DEFAULT_RULES)
    except QueueUnavailable:
        return False
    return True


def test_a_worker_with_the_rights_on_the_page_delivers_also_to_a_partition_that_is_added(strict: "Kafka") -> None:
    with ExitStack() as stack:
        place = Place(strict, stack)
        place.make_topic(message_timestamp_type="LogAppendTime")
        grant(place)
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
        }
        queue = place.queue(bootstrap_servers=strict.sasl_servers, properties=login)
        soon(lambda: _has_buffer(queue, place.topic))
        with working(place, queue) as worker:
            soon(lambda: len(worker.statuses) == 2 and worker.ready)
            send(place, queue, range(COUNT), 0)
            assert arrived(place, queue, COUNT) == list(range(COUNT))
            place.admin.create_partitions([NewPartitions(place.topic, 3)])[place.topic].result(PATIENCE_S)
            soon(lambda: len(queue.describe(place.topic).info.partitions) == 3)
            assert len(queue.ensure_buffer(place.topic, DEFAULT_RULES).partitions) == 3
            soon(lambda: len(worker.statuses) == 3 and worker.ready)
        for topic, needed in ((place.topic, table.TARGETS), (place.buffer, table.OWN)):
            assert table.operations(needed) <= (queue.describe(topic).operations or frozenset())
