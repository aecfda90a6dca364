"""A worker with the rights of docs/deploy.md, and no other, delivers, also to partitions that are added later."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewPartitions

from cli import kafka_rights as table
from delayline.schedule.rules import DEFAULT_RULES
from tests.integration.kafka.conftest import PATIENCE_S, soon
from tests.integration.kafka.strict import Strict, strict_broker
from tests.integration.kafka.whole_worker import arrived, send, working

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

COUNT = 20


@pytest.fixture
def broker() -> "Iterator[Kafka]":
    with strict_broker() as kafka:
        yield kafka


def test_a_worker_with_the_rights_on_the_page_delivers_also_to_a_partition_that_is_added(broker: "Kafka") -> None:
    with ExitStack() as stack:
        place = Strict(broker, stack)
        place.grant([need.acl for need in place.needs("worker")])
        queue = place.as_delayline()
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
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
