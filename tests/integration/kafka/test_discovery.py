"""A buffer topic that the process of a worker makes is found at once."""

from contextlib import ExitStack
from typing import TYPE_CHECKING
from uuid import uuid4

from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from tests.integration.kafka.conftest import Place

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt


def test_a_worker_does_not_wait_for_the_interval_where_its_own_process_makes_the_buffer(kafka: "KafkaAt") -> None:
    with ExitStack() as stack:
        place = Place(kafka, stack)
        queue = place.queue(discovery_interval_s=3600.0)
        place.make_topic(1)
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        worker = place.worker(queue)
        assert worker.assigned(1) == [Shard(place.topic, "0")]
        first, place.topic = place.topic, f"orders-{uuid4().hex[:8]}"
        place.make_topic(1)
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        assert worker.assigned(2) == [Shard(first, "0"), Shard(place.topic, "0")]
