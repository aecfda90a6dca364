"""The delay service as it is, on a Kafka queue: from the buffer to the target, not early, not twice."""

from contextlib import ExitStack

import pytest

from delayline.records.headers import DUE
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES
from tests.brokers.distribution import OLDER
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import Place, soon
from tests.integration.kafka.whole_worker import send, working


def arrived(place: Place, queue: object, count: int) -> list[int]:
    """The numbers that a reader of both partitions finds, once there are so many. None of them is early."""

    def look() -> list[int] | None:
        records = [r for part in "01" for r in queue.read(place.topic, part, 0, 10_000)]  # type: ignore[attr-defined]
        for record in records:
            due = dict(decode_body(record.body).headers)[DUE]
            assert due is not None
            assert record.appended_at_ms >= int(due), "early"
        numbers = [int(decode_body(record.body).value or b"") for record in records]
        return numbers if len(numbers) >= count else None

    found = soon(look)
    assert isinstance(found, list)
    return found


@pytest.fixture
def logged(place: Place) -> Place:
    """Both topics are stamped by the broker, so that early and late are judged by its clock."""
    place.make_topic(message_timestamp_type="LogAppendTime")
    return place


def test_what_is_delayed_arrives_when_it_is_due_and_once(logged: Place) -> None:
    queue = logged.queue()
    queue.ensure_buffer(logged.topic, DEFAULT_RULES)
    with working(logged, queue):
        send(logged, queue, range(200), 700)
        assert sorted(arrived(logged, queue, 200)) == list(range(200))


def test_a_worker_that_stops_and_another_that_starts_deliver_everything_once(logged: Place) -> None:
    queue = logged.queue()
    queue.ensure_buffer(logged.topic, DEFAULT_RULES)
    with working(logged, queue):
        send(logged, queue, range(100), 300)
        arrived(logged, queue, 1)
    send(logged, queue, range(100, 200), 0)
    with working(logged, queue):
        assert sorted(arrived(logged, queue, 200)) == list(range(200))


def test_two_workers_share_the_shards_and_deliver_everything_once(logged: Place) -> None:
    queue = logged.queue()
    queue.ensure_buffer(logged.topic, DEFAULT_RULES)
    with working(logged, queue) as first:
        send(logged, queue, range(300), 400)
        with working(logged, queue) as second:
            soon(lambda: first.ready and second.ready and len(first.statuses) == len(second.statuses) == 1)
            send(logged, queue, range(300, 400), 200)
            assert sorted(arrived(logged, queue, 400)) == list(range(400))
        send(logged, queue, range(400, 420), 200)
        assert sorted(arrived(logged, queue, 420)) == list(range(420))


@pytest.mark.thorough
def test_the_oldest_kafka_that_is_supported_delivers_as_well() -> None:
    """Before transaction.version 2 partitions are added to a transaction in requests of their own."""
    with started(lambda: Kafka(version=OLDER)) as kafka, ExitStack() as stack:
        place = Place(kafka, stack)
        place.make_topic(message_timestamp_type="LogAppendTime")
        queue = place.queue()
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        with working(place, queue):
            send(place, queue, range(100), 300)
            arrived(place, queue, 1)
        send(place, queue, range(100, 200), 0)
        with working(place, queue):
            assert sorted(arrived(place, queue, 200)) == list(range(200))
