"""A process that is started before its rights are granted serves when they are."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from mq.contract import Append
from mq.errors import QueueError, QueueUnavailable
from tests.conftest import started
from tests.integration.kafka.conftest import PATIENCE_S, Place, body, soon

if TYPE_CHECKING:
    from mq.kafka.queue import KafkaQueue
    from tests.brokers.kafka import Kafka

US = "User:ANONYMOUS"
LITERAL = ResourcePatternType.LITERAL
DENIED = [
    (ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE),
    (ResourceType.TOPIC, "*", AclOperation.WRITE),
]
"""What makes a broker refuse a producer its id (`KafkaApis.handleInitProducerIdRequest`)."""


@pytest.fixture
def strict() -> "Iterator[Kafka]":
    from tests.brokers.kafka import Kafka

    with started(lambda: Kafka(properties={"super.users": "User:root"})) as broker:
        yield broker


def deny(place: Place) -> None:
    """A resource with rules is no more open to everybody: so everything is allowed, but this is denied."""
    acls = [AclBinding(kind, name, LITERAL, US, "*", what, AclPermissionType.DENY) for kind, name, what in DENIED]
    allow, anything = AclPermissionType.ALLOW, AclOperation.ALL
    acls = [*(AclBinding(kind, name, LITERAL, US, "*", anything, allow) for kind, name, _ in DENIED), *acls]
    for future in place.admin.create_acls(acls).values():
        future.result(PATIENCE_S)


def grant(place: Place) -> None:
    for kind, name, what in DENIED:
        found = AclBindingFilter(kind, name, LITERAL, US, "*", what, AclPermissionType.DENY)
        for future in place.admin.delete_acls([found]).values():
            future.result(PATIENCE_S)


def sent(queue: "KafkaQueue", topic: str, records: int) -> bool:
    try:
        return len(queue.append([Append(topic, "0", body(b"%d" % n)) for n in range(records)]).result(PATIENCE_S)) > 0
    except QueueUnavailable:
        return False


def test_sends_succeed_once_rights_are_granted_that_were_missing_at_the_start(strict: "Kafka") -> None:
    with ExitStack() as stack:
        place = Place(strict, stack)
        place.make_topic()
        deny(place)
        queue = place.queue()
        trouble = soon(queue.trouble)
        assert "Cluster authorization failed" in trouble
        assert [sent(queue, place.topic, records) for records in (1, 3)] == [False, False]
        assert place.topic in queue.topics(), "what needs no producer goes on"
        grant(place)
        soon(lambda: sent(queue, place.topic, 1))
        soon(lambda: sent(queue, place.topic, 3))
        soon(lambda: queue.trouble() is None)


def test_rights_that_are_taken_away_and_given_back_leave_nothing_behind(strict: "Kafka") -> None:
    with ExitStack() as stack:
        place = Place(strict, stack)
        place.make_topic()
        queue = place.queue()
        soon(lambda: sent(queue, place.topic, 1))
        deny(place)
        soon(lambda: _is_refused(queue, place.topic))
        grant(place)
        soon(lambda: sent(queue, place.topic, 1))
        soon(lambda: queue.trouble() is None)


def _is_refused(queue: "KafkaQueue", topic: str) -> bool:
    try:
        queue.append([Append(topic, "0", body(b"x"))]).result(PATIENCE_S)
    except QueueError:
        return True
    return False
