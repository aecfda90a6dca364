"""The bench programs on Kafka still run and still check what they measure, with a few messages each."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")

from bench.kafka_deliver import copy_lap, worker_lap
from bench.kafka_lateness import Seen
from bench.on_kafka.broker import Load, Place
from bench.on_kafka.reader import Reader

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

FEW = 400


@pytest.mark.slow
def test_the_worker_delivers_a_load_and_tells_what_it_cost(kafka: "Kafka") -> None:
    lap = worker_lap(kafka.bootstrap_servers, FEW, atomic=True)
    assert lap.wall_s > 0
    assert lap.cpu_s > 0


@pytest.mark.slow
@pytest.mark.parametrize("atomic", [True, False])
def test_the_copy_loop_copies_a_load(kafka: "Kafka", atomic: bool) -> None:
    assert copy_lap(kafka.bootstrap_servers, FEW, atomic=atomic).wall_s > 0


@pytest.fixture
def place(kafka: "Kafka") -> Place:
    return Place.make(kafka.bootstrap_servers)


def loaded(place: Place, numbers: list[int]) -> Reader:
    load = Load(place.servers, place.topic)
    load.add(numbers, [("delayline-due", b"1000")])
    load.release()
    return Reader(place.servers, place.topic)


def test_a_reader_that_misses_a_record_says_so(place: Place) -> None:
    with pytest.raises(RuntimeError, match="1 records are missing"):
        loaded(place, [0, 1]).all_once(3, 1.0)


def test_a_reader_that_gets_a_record_twice_says_so(place: Place) -> None:
    with pytest.raises(RuntimeError, match="1 of 3 records came twice"):
        loaded(place, [0, 1, 1]).all_once(3, 10.0)


def test_lateness_is_what_lies_between_the_due_header_and_the_moments(place: Place) -> None:
    seen = Seen()
    for messages in loaded(place, [0]).batches(1, 10.0):
        for message in messages:
            stamp = message.timestamp()[1]
            seen.note(message, stamp + 7)
            assert (seen.appended_ms, seen.arrived_ms) == ([stamp - 1000], [stamp + 7 - 1000])
    assert len(seen.appended_ms) == 1
