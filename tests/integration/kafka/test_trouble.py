"""A whole worker on a broker, and what people and machines do to it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from threading import Event
from typing import Any

import pytest

from delay_service.worker.loop import Worker
from delayline.clock import SystemClock
from delayline.records.dead_letter import read_dead_letter
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import decode, encode
from kafkawire.protocol.messages.metadata import MetadataResponse
from mq.contract import Append
from mq.errors import QueueError, QueueUnavailable
from mq.kafka.admin.cluster import Cluster
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings
from tests.brokers.kafka import Kafka
from tests.brokers.scripted import FORWARD, Act, Altered, Asked, Held, Instead, Scripted
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, soon
from tests.integration.kafka.whole_worker import LONG_S, arrived, records, send, values, working


def trouble_of(queue: Any, place: Place) -> str:
    try:
        return queue.target_trouble(place.shard) or ""
    except QueueError:
        return ""  # the broker that was asked is the one that is gone


def reasons(worker: Worker) -> dict[str, str | None]:
    return {status.id.partition: status.stalled for status in worker.statuses}


@pytest.fixture
def logged(place: Place) -> Place:
    """A topic whose records the broker stamps, so that early and late are judged by its clock."""
    place.make_topic(message_timestamp_type="LogAppendTime")
    return place


# --- outages


@pytest.mark.outage
def test_a_broker_killed_under_load_for_longer_than_every_timeout_costs_nothing_but_time() -> None:
    """Also where it comes back without the markers of its last commits."""
    with started(Kafka) as kafka, ExitStack() as stack:
        place = Place(kafka, stack)
        place.make_topic(message_timestamp_type="LogAppendTime")
        queue = place.queue(transaction_timeout_s=3.0, request_timeout_s=3.0)
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        with working(place, queue) as worker:
            send(place, queue, range(2000), 1500)
            send(place, queue, range(2000, 2100), 10_000)
            soon(lambda: len(records(place, queue, place.topic)) > 100)
            kafka.nodes[0].kill()
            Event().wait(12.0)  # session 2 s, transaction 3 s, request 3 s
            away = reasons(worker)
            kafka.nodes[0].start()
            kafka.wait_ready()
            back_s = CLOCK.monotonic_s()
            send(place, queue, range(2100, 2200), 0)
            assert arrived(place, queue, 2200) == list(range(2200))
            took_s = CLOCK.monotonic_s() - back_s
            soon(lambda: set(reasons(worker).values()) == {None})
        assert away == {} or set(away.values()) <= {"commit", "unavailable", "takeover", "fenced", "commit_unknown"}
        print(f"everything was delivered {took_s:.1f} s after the broker was back")


@pytest.mark.outage
def test_a_target_in_want_of_replicas_is_waited_for_and_others_are_delivered() -> None:
    from confluent_kafka.admin import NewTopic

    with started(lambda: Kafka(3)) as kafka, ExitStack() as stack:
        place, other = Place(kafka, stack), Place(kafka, stack)
        other.namespace = place.namespace
        config = {"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime"}
        wanted = [
            NewTopic(place.topic, 2, replica_assignment=[[2, 3], [2, 3]], config=config),
            NewTopic(other.topic, 2, replica_assignment=[[1, 2, 3], [1, 2, 3]], config=config),
            NewTopic(place.buffer, 2, replica_assignment=[[1, 2, 3], [1, 2, 3]]),
        ]
        for future in place.admin.create_topics(wanted).values():
            future.result()
        queue = place.queue(transaction_timeout_s=5.0, request_timeout_s=5.0)
        for topic in (place.topic, other.topic):
            queue.ensure_buffer(topic, DEFAULT_RULES)
        with working(place, queue) as worker:
            soon(lambda: len(worker.statuses) == 4 and worker.ready, LONG_S)
            kafka.nodes[2].kill()
            soon(lambda: "replicas are in sync" in trouble_of(queue, place), LONG_S)
            send(place, queue, range(10), 0)
            soon(lambda: {s.stalled for s in worker.statuses if s.id.topic == place.topic} == {"target"}, LONG_S)
            send(other, queue, range(10, 20), 0)
            assert arrived(other, queue, 10) == list(range(10, 20))
            assert records(place, queue, place.topic) == []
            kafka.nodes[2].start()
            kafka.wait_ready()
            assert arrived(place, queue, 10) == list(range(10))
            soon(lambda: {status.stalled for status in worker.statuses} == {None})


def without_brokers(asked: Asked) -> Act:
    """What a cluster answers whose brokers have all missed their heartbeats to the controller. There is no
    leader of the groups either: a member that still found its coordinator would stay one."""
    if asked.api == ApiKey.METADATA:
        return Altered(partial(_without_brokers, asked.version))
    return Instead(ErrorCode.COORDINATOR_NOT_AVAILABLE) if asked.api == ApiKey.FIND_COORDINATOR else FORWARD


def _without_brokers(version: int, data: bytes) -> bytes:
    answer = decode(MetadataResponse, version, data)
    answer.brokers, answer.controller_id = [], -1
    for partition in (partition for topic in answer.topics for partition in topic.partitions):
        partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE
    return b"".join(encode(answer, version))


@pytest.mark.thorough
def test_a_cluster_that_has_named_no_brokers_for_a_while_is_worked_for_again(logged: Place) -> None:
    outside = logged.queue()
    outside.ensure_buffer(logged.topic, DEFAULT_RULES)
    with closing(Scripted(logged.kafka.bootstrap_servers)) as scripted:
        queue = logged.queue(bootstrap_servers=scripted.bootstrap_servers, session_timeout_s=2.0)
        with working(logged, queue) as worker:
            soon(lambda: len(worker.statuses) == 2 and worker.ready)
            with scripted.following(without_brokers):
                soon(lambda: not worker.statuses)
            send(logged, outside, range(10), 0)
            assert arrived(logged, outside, 10) == list(range(10))
            soon(lambda: _takes(logged, queue, 10), LONG_S)
            assert set(arrived(logged, outside, 11)) == set(range(11))


def test_a_log_whose_leader_does_not_answer_has_no_end(logged: Place) -> None:
    """The library's answer to that carries no error."""
    held = Event()
    with closing(Scripted(logged.kafka.bootstrap_servers)) as scripted:
        settings = KafkaSettings(bootstrap_servers=scripted.bootstrap_servers, request_timeout_s=5.0)
        cluster = Cluster(settings, CLOCK, Event().wait)
        before = cluster.log_ends(logged.topic, [0])
        silent = scripted.following(lambda asked: Held(held) if asked.api == ApiKey.LIST_OFFSETS else FORWARD)
        with silent, pytest.raises(QueueUnavailable):
            cluster.log_ends(logged.topic, [0])
        held.set()
        assert cluster.log_ends(logged.topic, [0]) == before == {0: 0}


def _takes(place: Place, queue: Any, number: int) -> bool:
    try:
        send(place, queue, [number], 0)
    except QueueError:
        return False
    return True


# --- clocks


class Skewed(SystemClock):
    """A machine's clock that is off by so much."""

    def __init__(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@contextmanager
def skewed(place: Place, ahead_ms: int, clock_skew_max_ms: int) -> Iterator[tuple[Worker, Any, Skewed]]:
    place.queue().ensure_buffer(place.topic, DEFAULT_RULES)
    settings = KafkaSettings(
        bootstrap_servers=place.kafka.bootstrap_servers,
        namespace=place.namespace,
        discovery_interval_s=0.2,
        session_timeout_s=2.0,
    )
    clock = Skewed(ahead_ms)
    with (
        closing(KafkaQueue(settings, clock)) as queue,
        working(place, queue, clock, clock_skew_max_ms=clock_skew_max_ms) as worker,
    ):
        soon(lambda: len(worker.statuses) == 2 and worker.ready)
        yield worker, queue, clock


def test_a_machine_an_hour_ahead_delivers_nothing_early(logged: Place) -> None:
    with skewed(logged, 3_600_000, clock_skew_max_ms=7_200_000) as (worker, queue, _):
        send(logged, queue, range(50), 1500)
        assert arrived(logged, queue, 50) == list(range(50))
        clock = worker.statuses[0].clock
        assert clock is not None
        assert clock.least_ms <= 3_600_000 <= clock.most_ms


@pytest.mark.parametrize("ahead_ms", [-10_000, 10_000])
def test_a_machine_whose_clock_is_too_far_off_waits_until_it_is_right_again(logged: Place, ahead_ms: int) -> None:
    with skewed(logged, ahead_ms, clock_skew_max_ms=5000) as (worker, queue, clock):
        soon(lambda: set(reasons(worker).values()) == {"clock_skew"})
        send(logged, queue, range(10), 0)
        soon(lambda: sum(status.pending for status in worker.statuses) == 10)
        waiting = records(logged, queue, logged.topic)
        clock.ahead_ms = 0
        assert arrived(logged, queue, 10) == list(range(10))
        assert (waiting, set(reasons(worker).values())) == ([], {None})


# --- targets


def test_a_target_that_is_deleted_and_made_again_with_more_partitions_is_followed(place: Place) -> None:
    place.make_topic(2)
    queue = place.queue(tend_interval_s=0.3)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    with working(place, queue) as worker:
        soon(lambda: len(worker.statuses) == 2 and worker.ready)
        place.admin.delete_topics([place.topic])[place.topic].result()
        send(place, queue, range(10), 0)
        soon(lambda: set(reasons(worker).values()) == {"target"})
        place.make_topic(3, message_timestamp_type="LogAppendTime")
        assert arrived(place, queue, 10, timeout_s=LONG_S) == list(range(10))
        soon(lambda: len(worker.statuses) == 3 and worker.ready, LONG_S)
        soon(lambda: _tried(lambda: send(place, queue, [11], 0, 3) or True))  # the client hears of it a moment later
        send(place, queue, [n for n in range(10, 20) if n != 11], 0, 3)
        assert arrived(place, queue, 20, 3) == list(range(20))


def test_of_a_target_with_fewer_partitions_only_the_missing_ones_wait(place: Place) -> None:
    place.make_topic(2)
    queue = place.queue()
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    with working(place, queue) as worker:
        soon(lambda: len(worker.statuses) == 2 and worker.ready)
        place.admin.delete_topics([place.topic])[place.topic].result()
        place_again = lambda: place.make_topic(1, message_timestamp_type="LogAppendTime") or True  # noqa: E731
        soon(lambda: _tried(place_again))
        send(place, queue, range(10), 0)
        soon(lambda: len(records(place, queue, place.topic, 1)) == 5, LONG_S)
        soon(lambda: reasons(worker) == {"0": None, "1": "target"}, LONG_S)
        send(place, queue, [10], 0)
        soon(lambda: len(records(place, queue, place.topic, 1)) == 6, LONG_S)
        assert values(records(place, queue, place.topic, 1)) == [0, 2, 4, 6, 8, 10]
        detail = next(status.detail for status in worker.statuses if status.id.partition == "1")
        assert "partition" in detail


def _tried(call: Any) -> bool:
    from confluent_kafka import KafkaException

    try:
        return bool(call())
    except (KafkaException, QueueError):
        return False


def shrink(queue: KafkaQueue, topic: str) -> None:
    """Until the broker shows that the topic takes 2,000 bytes: the controller has answered before."""
    queue.cluster.configure(topic, {"max.message.bytes": "2000"})
    soon(lambda: queue.cluster.config(topic)["max.message.bytes"] == "2000")


def test_where_the_target_takes_only_smaller_records_the_large_one_is_buried_and_the_rest_arrives(
    logged: Place,
) -> None:
    queue = logged.queue()
    queue.ensure_buffer(logged.topic, DEFAULT_RULES)
    with working(logged, queue) as worker:
        soon(lambda: len(worker.statuses) == 2 and worker.ready)
        shrink(queue, logged.topic)
        large = encode_body(None, b"7" * 5000, [(b"delay-ms", b"500")])
        futures = [queue.append([Append(logged.buffer, "0", large)])]
        futures += [
            queue.append([Append(logged.buffer, "0", encode_body(None, b"%d" % n, [(b"delay-ms", b"500")]))])
            for n in range(20)
        ]
        assert [len(future.result(PATIENCE_S)) for future in futures] == [1] * 21
        assert arrived(logged, queue, 20) == list(range(20))
        dead = soon(lambda: records(logged, queue, f"{logged.namespace}.dead", 4))
        assert [decode_body(record.body).value for record in dead] == [b"7" * 5000]


def test_a_dead_letter_too_large_for_its_topic_has_size_and_digest_alone_and_the_rest_arrives(logged: Place) -> None:
    queue = logged.queue()
    queue.ensure_buffer(logged.topic, DEFAULT_RULES)
    with working(logged, queue) as worker:
        soon(lambda: len(worker.statuses) == 2 and worker.ready)
        shrink(queue, f"{logged.namespace}.dead")
        large = encode_body(None, b"7" * 5000, [(b"delay-ms", b"soon")])
        queue.append([Append(logged.buffer, "0", large)]).result(PATIENCE_S)
        send(logged, queue, range(20), 500)
        assert arrived(logged, queue, 20) == list(range(20))
        (dead,) = soon(lambda: records(logged, queue, f"{logged.namespace}.dead", 4))
        letter = read_dead_letter(dead.body)
        assert letter is not None
        assert (letter.code, letter.is_left_out) == ("invalid-schedule", True)


@pytest.mark.thorough
def test_a_target_that_forbids_writing_is_waited_for_and_beyond_stall_max_its_messages_are_buried(
    place: Place,
) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    place.make_topic(message_timestamp_type="LogAppendTime")
    forbid = (ResourceType.TOPIC, place.topic, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.WRITE)
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }
    queue = place.queue(bootstrap_servers=place.kafka.sasl_servers, properties=properties)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    with working(place, queue, stall_max_s=5.0) as worker:
        soon(lambda: len(worker.statuses) == 2 and worker.ready)
        denied = AclBinding(*forbid, AclPermissionType.DENY)
        allowed = AclBinding(
            forbid[0], forbid[1], forbid[2], "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW
        )
        for future in place.admin.create_acls([denied, allowed]).values():
            future.result()
        send(place, queue, range(6), 0)
        soon(lambda: set(reasons(worker).values()) == {"target"})
        early = len(records(place, queue, f"{place.namespace}.dead", 4))
        dead = soon(lambda: f if len(f := records(place, queue, f"{place.namespace}.dead", 4)) == 6 else None, LONG_S)
        for future in place.admin.delete_acls([AclBindingFilter(*forbid, AclPermissionType.DENY)]).values():
            future.result()
        send(place, queue, range(6, 10), 0)
        assert arrived(place, queue, 4) == [6, 7, 8, 9]
        assert (early, values(dead)) == (0, list(range(6)))


# --- the buffer


def test_a_buffer_topic_that_is_made_anew_stalls_with_the_reason(place: Place) -> None:
    """Whoever deletes it takes what waits with it: that must be seen, and not look like a new topic."""
    place.make_topic()
    queue = place.queue(tend_interval_s=0.3)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    with working(place, queue) as worker:
        send(place, queue, range(4), 3_600_000)
        soon(lambda: sum(status.pending for status in worker.statuses) == 4)
        place.admin.delete_topics([place.buffer])[place.buffer].result()
        soon(lambda: None not in reasons(worker).values(), LONG_S)  # or its maker was quicker already
        soon(lambda: _tried(lambda: queue.ensure_buffer(place.topic, DEFAULT_RULES)), LONG_S)
        soon(lambda: set(reasons(worker).values()) == {"buffer_recreated"}, LONG_S)


def test_records_lost_behind_the_low_offset_stall_the_next_owner_and_those_before_it_nobody(place: Place) -> None:
    place.make_topic(message_timestamp_type="LogAppendTime")
    queue = place.queue()
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    with working(place, queue):
        send(place, queue, range(10), 0)  # both partitions
        assert arrived(place, queue, 10) == list(range(10))
    send(place, queue, range(10, 20), 3_600_000)
    low = soon(lambda: queue.takeover(place.shard).cursor).low_offset
    assert low >= 5
    queue.cluster.trim(place.buffer, 0, low)  # harmless
    queue.cluster.trim(place.buffer, 1, queue.cluster.log_range(place.buffer, 1)[1])
    with working(place, queue) as worker:
        soon(lambda: reasons(worker) == {"0": None, "1": "buffer_truncated"})
        soon(lambda: [status.pending for status in worker.statuses if status.id.partition == "0"] == [5])


def test_settings_of_the_cursors_altered_by_hand_are_repaired(place: Place) -> None:
    place.make_topic()
    queue = place.queue(tend_interval_s=0.2)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    place.worker(queue)
    name = f"{place.namespace}.cursor"
    queue.cluster.configure(name, {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"})
    soon(lambda: queue.cluster.config(name)["cleanup.policy"] == "compact")
    assert queue.cluster.config(name)["message.timestamp.type"] == "LogAppendTime"
