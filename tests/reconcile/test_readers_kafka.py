"""The ledger's rows from a Kafka: exactly what is committed in the planned offsets, or an error."""

from typing import TYPE_CHECKING, Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, encode_audit
from delayline.buffer.record import encode_rules
from delayline.errors import ConfigError
from delayline.records.message import Shard
from delayline.schedule.rules import Rules
from reconcile.errors import CannotJudge, NoAnswer
from reconcile.logic.plan import Range, Read
from tests.reconcile.on_kafka import CLOCK, Place, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.readers.kafka import KafkaReader
    from tests.brokers.kafka import KafkaAt


def offsets(spark: "SparkSession", reader: "KafkaReader", read: Read) -> list[int]:
    return [row["offset"] for row in rows(reader.accepted(spark, [read]))]


def test_a_range_ends_with_what_a_transaction_leaves_behind_and_shows_nothing_that_was_aborted(
    spark: "SparkSession", place: Place, reader: "KafkaReader"
) -> None:
    for outcome in ("commit_transaction", "abort_transaction", "commit_transaction", "abort_transaction"):
        producer = place.transaction()
        place.send(producer, 3)
        getattr(producer, outcome)()  # each ends with a marker

    held = reader.held().buffers[place.topic].shards

    assert held == {0: Range(0, 16), 1: Range(0, 0)}
    assert offsets(spark, reader, Read(place.topic, 0, 0, 16)) == [0, 1, 2, 8, 9, 10]
    assert offsets(spark, reader, Read(place.topic, 0, 1, 9)) == [1, 2, 8]
    assert offsets(spark, reader, Read(place.topic, 0, 4, 8)) == []
    assert offsets(spark, reader, Read(place.topic, 0, 3, 3)) == []


def test_what_an_open_transaction_hides_is_not_held(
    spark: "SparkSession", place: Place, reader: "KafkaReader"
) -> None:
    place.send(place.producer(**{"compression.type": "lz4"}), 5)
    producer = place.transaction()
    place.send(producer, 2)
    place.send(place.producer(), 2)

    held = reader.held().buffers[place.topic].shards[0]

    assert held == Range(0, 5)
    assert offsets(spark, reader, Read(place.topic, 0, *held)) == [0, 1, 2, 3, 4]
    with pytest.raises(CannotJudge, match="ends at 5, and was to be read up to 7"):
        reader.accepted(spark, [Read(place.topic, 0, 0, 7)])
    producer.abort_transaction()


def test_what_is_trimmed_after_the_plan_is_an_error_of_the_read(
    spark: "SparkSession", place: Place, reader: "KafkaReader"
) -> None:
    place.send(place.producer(), 6)
    planned = reader.accepted(spark, [Read(place.topic, 0, 2, 6)])
    place.trim(4)

    with pytest.raises(CannotJudge, match=r"does not hold what was to be read: .*buffer"):
        rows(planned)
    with pytest.raises(CannotJudge, match="begins at 4 now, 2 was to be read"):
        reader.accepted(spark, [Read(place.topic, 0, 2, 6)])
    assert reader.held().buffers[place.topic].shards[0] == Range(4, 6)


def test_a_log_that_ends_before_the_range_does_is_an_error_and_not_the_end_of_it(place: Place) -> None:
    from mq.errors import OffsetOutOfRange
    from mq.kafka.planned.ranges import read_range

    place.send(place.producer(), 3)

    with pytest.raises(OffsetOutOfRange, match="partition 0: it ends at 3, before 4"):
        list(read_range(place.settings(request_timeout_s=1.0), CLOCK, place.buffer, 0, 0, 4))


def test_a_partition_that_was_added_and_a_topic_that_was_made_again_show(place: Place, reader: "KafkaReader") -> None:
    from confluent_kafka.admin import NewPartitions

    before = reader.held().buffers[place.topic]
    place.admin.create_partitions([NewPartitions(place.buffer, 3)])[place.buffer].result()
    grown = eventually(lambda: reader.held().buffers[place.topic], lambda found: len(found.shards) == 3)
    place.admin.delete_topics([place.buffer])[place.buffer].result()
    eventually(lambda: reader.held().buffers, lambda found: place.topic not in found)
    place.make(place.buffer)
    again = eventually(lambda: reader.held().buffers.get(place.topic), bool)

    assert grown.topic_id == before.topic_id
    assert grown.shards == {0: Range(0, 0), 1: Range(0, 0), 2: Range(0, 0)}
    assert again is not None
    assert again.topic_id != before.topic_id


def eventually(ask: Any, is_so: Any) -> Any:
    """A topic that is being made or deleted may not be known to have any ends."""
    until_s = CLOCK.monotonic_s() + 30
    while CLOCK.monotonic_s() < until_s:
        try:
            if is_so(found := ask()):
                return found
        except (CannotJudge, NoAnswer):
            continue
    raise AssertionError("it did not happen")


def test_each_record_has_the_rules_of_its_place(spark: "SparkSession", place: Place, reader: "KafkaReader") -> None:
    rules = Rules(number=1, levels_ms=(7000,))
    place.send(place.producer(), 2, headers={"delay-level": "1"})
    place.write(place.buffer, encode_rules(rules))
    place.send(place.producer(), 1, headers={"delay-level": "1"})

    found = rows(reader.accepted(spark, [Read(place.topic, 0, 0, 4), Read(place.topic, 1, 0, 0)]))

    delays = [row["due_ms"] and row["due_ms"] - row["appended_ms"] for row in found]
    assert delays == [1000, 1000, None, 7000]
    assert [row["rules"] for row in found] == [None, None, rules.encoded.decode(), None]
    assert found[0]["id"] == f"{place.topic}.0.0.{found[0]['due_ms']}"
    assert {(row["topic"], row["shard"]) for row in found} == {(place.topic, 0)}


def commit_cursor(place: Place, shard: int, rules: Rules) -> None:
    """As a worker group without members has it."""
    from confluent_kafka import Consumer, TopicPartition

    from mq.kafka.worker.cursors import encode_metadata

    cursor = Cursor(topic_id=b"." * 16, next_offset=2, low_offset=2, owner_epoch=1, rules=rules)
    consumer = Consumer({"bootstrap.servers": place.servers, "group.id": f"{place.namespace}-worker"})
    offset = TopicPartition(place.buffer, shard, 2, metadata=encode_metadata(cursor))
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()


def test_the_rules_where_what_is_held_begins_are_those_of_the_cursor_or_of_its_mirror(
    place: Place, reader: "KafkaReader"
) -> None:
    from delayline.buffer.outcome import spread
    from mq.kafka.worker.mirror import shard_key

    rules = Rules(number=4, levels_ms=(9000,))
    place.send(place.producer(), 3)
    whole = reader.rules(place.topic, [0, 1])
    place.trim(2)
    unknown = reader.rules(place.topic, [0, 1])

    shard = Shard(place.topic, "0")
    cursor = Cursor(topic_id=b"." * 16, next_offset=2, low_offset=2, owner_epoch=1, rules=rules)
    producer = place.producer()
    producer.produce(f"{place.namespace}.cursor", cursor.encode(), shard_key(shard), spread(shard, 2))
    producer.flush()
    mirrored = reader.rules(place.topic, [0, 1])
    commit_cursor(place, 0, rules.numbered(5))

    assert (whole, unknown) == ({}, {})
    assert mirrored == {0: rules.encoded.decode()}
    assert reader.rules(place.topic, [0]) == {0: rules.numbered(5).encoded.decode()}


def test_without_the_cursor_topic_the_rules_are_those_of_the_group_s_cursor_or_not_known(
    place: Place, reader: "KafkaReader"
) -> None:
    rules = Rules(number=4, levels_ms=(9000,))
    place.send(place.producer(), 3)
    place.trim(2)
    cursors = f"{place.namespace}.cursor"
    place.admin.delete_topics([cursors])[cursors].result()
    eventually(lambda: place.admin.list_topics(timeout=5).topics, lambda found: cursors not in found)

    unknown = reader.rules(place.topic, [0])
    commit_cursor(place, 0, rules)

    assert unknown == {}
    assert reader.rules(place.topic, [0]) == {0: rules.encoded.decode()}


def test_nobody_knows_the_rules_before_a_change_that_the_cursor_has_passed(
    place: Place, reader: "KafkaReader"
) -> None:
    rules = Rules(number=4, levels_ms=(9000,))
    place.write(place.buffer, encode_rules(rules), encode_rules(rules))
    commit_cursor(place, 0, rules)
    place.trim(1)

    assert reader.rules(place.topic, [0]) == {}


def test_a_long_stretch_of_the_audit_is_read_in_parts_and_whole(
    spark: "SparkSession", place: Place, reader: "KafkaReader", monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconcile.readers import ranges

    monkeypatch.setattr(ranges, "AUDIT_TASK_RECORDS", 2)
    shard = Shard(place.topic, "0")
    outcomes = [
        [AuditRow(10 * number + one, "a", 5, 6, Outcome.DELIVERED) for one in range(2)] for number in range(5)
    ]
    place.write(f"{place.namespace}.audit", *(body for part in outcomes for body in encode_audit(shard, 1, 7, part)))
    place.write(f"{place.namespace}.audit", *encode_audit(shard, 1, 7, outcomes[0]), partition=1)

    audit = reader.audit(spark, {0: Range(1, 5), 1: Range(0, 1)})

    assert audit.done.rdd.getNumPartitions() == 3
    found = sorted((row["audit_partition"], row["audit_offset"], row["offset"]) for row in rows(audit.done))
    assert found == [(0, part, 10 * part + one) for part in range(1, 5) for one in range(2)] + [(1, 0, 0), (1, 0, 1)]


def test_how_far_has_been_read_is_what_a_group_without_members_has_committed(
    place: Place, reader: "KafkaReader"
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    from mq.audited import decode_metadata
    from mq.contract import Audited

    reader.commit({place.topic: {0: 3, 1: 0}}, {}, 1_767_225_600_000)
    reader.commit({place.topic: {0: 5}}, {}, 1_767_225_600_001)
    reader.commit({}, {0: 7}, 1_767_225_600_002)

    consumer = Consumer({"bootstrap.servers": place.servers, "group.id": f"{place.namespace}-reconcile"})
    audit = TopicPartition(f"{place.namespace}.audit", 0)
    found = consumer.committed([*(TopicPartition(place.buffer, number) for number in (0, 1)), audit])
    consumer.close()
    read = [decode_metadata(each.offset, str(each.metadata)) for each in found]  # as workers do
    assert read == [Audited(5, 1_767_225_600_001), Audited(0, 1_767_225_600_000), Audited(7, 1_767_225_600_002)]


def test_what_stands_in_a_target_topic_is_known_by_its_id(
    spark: "SparkSession", place: Place, reader: "KafkaReader"
) -> None:
    producer = place.producer()
    for headers in ({"delayline-id": "orders.0.1.5", "delayline-due": "5"}, {}, {"delayline-id": "a"}):
        producer.produce(place.topic, b"x", partition=1, headers=list(headers.items()))
    producer.flush()

    found = rows(reader.delivered(spark, [place.topic], 0))

    assert [(row["partition"], row["offset"], row["id"], row["due_ms"]) for row in found] == [
        (1, 0, "orders.0.1.5", 5),
        (1, 2, "a", None),
    ]
    assert rows(reader.delivered(spark, [place.topic], found[1]["delivered_ms"] + 1)) == []


def test_a_target_topic_states_since_when_it_has_kept_everything(
    spark: "SparkSession", place: Place, reader: "KafkaReader"
) -> None:
    producer = place.producer()
    for partition in (0, 1, 1, 1):
        producer.produce(place.topic, b"x", partition=partition, headers=[("delayline-id", "a")])
        producer.flush()
    assert reader.kept_since_ms(place.topic) == {}

    place.trim(2, place.topic, 1)
    left = {row["partition"]: row["delivered_ms"] for row in rows(reader.delivered(spark, [place.topic], 0))}
    assert reader.kept_since_ms(place.topic) == {1: left[1]}
    place.trim(3, place.topic, 1)
    before_ms = CLOCK.now_ms()
    assert before_ms <= reader.kept_since_ms(place.topic)[1] <= CLOCK.now_ms()


def test_a_buffer_states_since_when_its_first_record_of_a_part_waits(place: Place, reader: "KafkaReader") -> None:
    producer = place.producer()
    appended_ms: list[int] = []
    for _ in range(3):
        producer.produce(
            place.buffer, b"x", partition=1, on_delivery=lambda _, made: appended_ms.append(made.timestamp()[1])
        )
        producer.flush()
    place.trim(1, place.buffer, 1)
    assert reader.waits_since_ms(place.topic, 1, Range(0, 3)) == appended_ms[1]
    assert reader.waits_since_ms(place.topic, 1, Range(2, 3)) == appended_ms[2]
    assert reader.waits_since_ms(place.topic, 1, Range(3, 3)) is None
    assert reader.waits_since_ms("never-made", 0, Range(0, 9)) is None


def test_a_compacted_topic_cannot_prove_what_was_delivered(place: Place, reader: "KafkaReader") -> None:
    name = f"{place.topic}-latest"
    place.make(name, {"cleanup.policy": "compact"})
    with pytest.raises(CannotJudge, match="compacted"):
        reader.kept_since_ms(name)


def test_a_topic_that_is_gone_cannot_be_compared(place: Place, reader: "KafkaReader") -> None:
    with pytest.raises(CannotJudge, match="does not exist"):
        reader.kept_since_ms("never-made")


def test_a_target_topic_names_the_partitions_that_an_open_transaction_hides(
    place: Place, reader: "KafkaReader", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconcile.readers.kafka.SETTLED_S", 0.2)
    producer = place.producer(**{"transactional.id": place.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(place.topic, b"x", partition=1)
    producer.flush()
    assert reader.hidden({place.topic}) == {place.topic: [1]}
    producer.abort_transaction()
    monkeypatch.setattr("reconcile.readers.kafka.SETTLED_S", 30.0)
    assert reader.hidden({place.topic}) == {}


def test_a_cluster_is_known_by_its_own_id_and_properties_of_the_service_are_used(
    kafka: "KafkaAt", place: Place, reader: "KafkaReader"
) -> None:
    from reconcile.readers.kafka import KafkaReader

    secured = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    secured |= {"sasl.username": "alice", "sasl.password": "alice-secret"}
    other = KafkaReader(place.settings(bootstrap_servers=kafka.sasl_servers, properties=secured), CLOCK)

    assert reader.cluster() == other.cluster()
    assert (reader.cluster().kind, reader.cluster().namespace) == ("kafka", place.namespace)
    assert other.held().audit == {0: Range(0, 0), 1: Range(0, 0)}
    other.close()
    with pytest.raises(ConfigError, match="brotli"):
        KafkaReader(place.settings(properties={"compression.type": "brotli"}), CLOCK)


def test_without_the_audit_topic_there_is_no_answer(place: Place) -> None:
    from reconcile.readers.kafka import KafkaReader

    other = KafkaReader(place.settings(namespace="nobody"), CLOCK)
    with pytest.raises(NoAnswer, match=r"nobody\.audit"):
        other.held()
    other.close()
