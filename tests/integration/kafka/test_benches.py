"""The bench programs on Kafka still run and still check what they measure, with a few messages each."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka.admin import AdminClient

from bench.kafka_deliver import copy_lap, worker_lap
from bench.kafka_lateness import Seen
from bench.on_kafka.broker import Load, Place
from bench.on_kafka.endpoints import delayline, direct
from bench.on_kafka.laps import ROUNDS, Lap, add_rates, consumed, in_turns, produced
from bench.on_kafka.reader import Reader
from bench.processes.endpoint import Endpoint
from bench.report import Report

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

FEW = 400


@pytest.mark.thorough
def test_the_worker_delivers_a_load_and_reports_what_it_cost(kafka: "KafkaAt") -> None:
    lap = worker_lap(kafka.bootstrap_servers, FEW)
    assert lap.wall_s > 0
    assert lap.cpu_s > 0


@pytest.mark.thorough
def test_the_copy_loop_copies_a_load(kafka: "KafkaAt") -> None:
    assert copy_lap(kafka.bootstrap_servers, FEW).wall_s > 0


@pytest.mark.thorough
@pytest.mark.parametrize("delayed_share", [0, 0.1])
def test_a_lap_through_the_proxy_takes_time_and_cpu(place: Place, delayed_share: float) -> None:
    with delayline(place.servers, place.namespace, delayed_topics=place.topic) as endpoint:
        lap = produced(endpoint, place.topic, 20.0, delayed_share=delayed_share)
        assert 0 < lap.p50_ms <= lap.p99_ms
        assert lap.cpu_s > 0
        assert consumed(endpoint, place.topic, 10.0).wall_s > 0
        assert (place.buffer in topics(place.servers)) == (delayed_share > 0)


def topics(servers: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).topics)


def test_endpoints_take_turns_and_the_first_round_is_not_counted() -> None:
    straight, ours = direct("broker:9092"), Endpoint("ours", "proxy:9092")
    order: list[str] = []

    def lap(endpoint: Endpoint) -> Lap:
        order.append(endpoint.name)
        return Lap(mb=1, wall_s=len(order), cpu_s=0, p50_ms=0, p99_ms=0)

    rounds = in_turns([straight, ours], lap)
    assert order == ["direct", "ours", "ours", "direct"] * (ROUNDS // 2 + 1)
    assert [lap.wall_s for lap in rounds["ours"]][:3] == [3, 6, 7]


def test_a_rate_is_compared_with_that_of_the_same_round() -> None:
    straight, ours = direct("broker:9092"), Endpoint("ours", "proxy:9092")
    slow_and_fast = [Lap(1, wall_s, 0, 0, 0) for wall_s in (1.0, 10.0, 2.0)]
    half_as_fast = [Lap(1, 2 * lap.wall_s, 0, 0, 0) for lap in slow_and_fast]
    report = Report("rates")
    add_rates(report, "produce", {"direct": slow_and_fast, "ours": half_as_fast}, straight, ours, 0.9)
    assert [figure.value for figure in report.figures[:3]] == [0.5, 0.5, 0.5]
    assert not report.met


@pytest.fixture
def place(kafka: "KafkaAt") -> Place:
    return Place.make(kafka.bootstrap_servers)


def loaded(place: Place, numbers: list[int]) -> Reader:
    load = Load(place.servers, place.topic)
    load.add(numbers, [("delayline-due", b"1000")])
    load.release()
    return Reader(place.servers, place.topic)


def test_a_reader_that_misses_a_record_reports_it(place: Place) -> None:
    with pytest.raises(RuntimeError, match="1 records are missing"):
        loaded(place, [0, 1]).all_once(3, 1.0)


def test_a_reader_that_gets_a_record_twice_reports_it(place: Place) -> None:
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
