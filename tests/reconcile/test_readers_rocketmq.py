"""The ledger's rows from a RocketMQ cluster: exactly what is in the planned offsets, or an error."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, encode_audit, encode_low_water
from delayline.buffer.record import encode_rules
from delayline.records.message import Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from mq.rocketmq.journal import Kept, encode
from mq.rocketmq.planned import PlannedReads
from reconcile.errors import CannotJudge, NoAnswer
from reconcile.logic.plan import Range, Read
from rocketmq.client.admin import Administration
from rocketmq.wire.bodies import Queue
from tests.brokers.rocketmq import BROKER
from tests.integration.rocketmq.waiting import soon
from tests.reconcile.on_kafka import rows
from tests.reconcile.on_rocketmq import CLOCK, DUE_MS, Place, part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.readers.rocketmq import RocketmqReader
    from tests.brokers.rocketmq import RocketMqAt


@pytest.fixture
def place(rocketmq: "RocketMqAt") -> Iterator[Place]:
    with closing(Place(rocketmq)) as made:
        yield made


@pytest.fixture
def reads(place: Place) -> PlannedReads:
    """The reader's."""
    return PlannedReads(place.settings(), CLOCK)


@pytest.fixture
def reader(place: Place, reads: PlannedReads) -> "Iterator[RocketmqReader]":
    from reconcile.readers.rocketmq import RocketmqReader

    with closing(RocketmqReader(place.settings(), CLOCK, reads)) as opened:
        yield opened


def trim(reads: PlannedReads, topic: str, offset: int) -> None:
    """As if the broker had deleted what is before: nothing but age makes it do so."""
    reads.cluster.trim(reads.cluster.queue(topic, part(0)), offset)


def test_buffers_audit_and_targets_are_read_by_offset_as_they_are_there(
    spark: "SparkSession", place: Place, reader: "RocketmqReader"
) -> None:
    appended_ms = place.send(3)
    place.send(1, number=1)
    shard = Shard(place.topic, part(1))
    outcomes = [*encode_audit(shard, 1, 7, [AuditRow(0, "a", 5, 6, Outcome.DELIVERED)])]
    strange = encode_low_water(Shard(place.topic, "broker-z:0"), 1, 8, 1, 8, 0)
    place.write(place.names.audit, *outcomes, encode_low_water(shard, 1, 8, 1, 8, 0), strange, number=3)
    headers = [(b"delayline-id", b"x.1"), (b"delayline-due", b"5")]
    place.write(place.topic, encode_body(None, b"own"), encode_body(b"k", b"from here", headers), number=1)

    held = reader.held()
    accepted = rows(reader.accepted(spark, [Read(place.topic, 0, 1, 3), Read(place.topic, 1, 0, 0)]))
    audit = reader.audit(spark, {3: Range(0, 3), 0: Range(0, 0)})
    (delivered,) = rows(reader.delivered(spark, [place.topic], 0))

    assert (held.brokers, held.buffers[place.topic].shards) == ([BROKER], {0: Range(0, 3), 1: Range(0, 1)})
    assert held.audit == {0: Range(0, 0), 1: Range(0, 0), 2: Range(0, 0), 3: Range(0, 3)}
    assert [(row["offset"], row["shard"], row["id"], row["appended_ms"]) for row in accepted] == [
        (offset, 0, f"{place.topic}.{part(0)}.{offset}.{DUE_MS}", appended_ms[offset]) for offset in (1, 2)
    ]
    assert [(row["shard"], row["audit_partition"], row["audit_offset"]) for row in rows(audit.done)] == [(1, 3, 0)]
    kinds = [(row["kind"], row["shard"], row["topic"]) for row in rows(audit.records)]
    assert kinds == [("outcomes", 1, place.topic), ("low_water", 1, place.topic), ("malformed", None, place.topic)]
    where = [delivered[name] for name in ("partition", "offset", "id", "due_ms")]
    assert where == [1, 1, "x.1", 5]
    assert rows(reader.delivered(spark, [place.topic], delivered["delivered_ms"] + 1)) == []


@pytest.mark.thorough
def test_what_is_deleted_after_the_plan_is_an_error_of_the_read(
    spark: "SparkSession", place: Place, reads: PlannedReads, reader: "RocketmqReader"
) -> None:
    place.send(6)
    reader.held()
    trim(reads, place.buffer, 4)
    with pytest.raises(CannotJudge, match="begins at 4 now, 2 was to be read"):
        reader.accepted(spark, [Read(place.topic, 0, 2, 6)])
    with pytest.raises(CannotJudge, match="ends at 6, and was to be read up to 7"):
        reader.accepted(spark, [Read(place.topic, 0, 4, 7)])
    assert reader.held().buffers[place.topic].shards[0] == Range(4, 6)


@pytest.mark.thorough
def test_each_record_has_the_rules_of_its_place(
    spark: "SparkSession", place: Place, reader: "RocketmqReader"
) -> None:
    rules = Rules(number=1, levels_ms=(7000,))
    level = [(b"delay-level", b"1")]
    place.send(2, level)
    place.write(place.buffer, encode_rules(rules))
    place.send(1, level)
    reader.held()
    found = rows(reader.accepted(spark, [Read(place.topic, 0, 0, 4)]))
    delays = [row["due_ms"] and row["due_ms"] - row["appended_ms"] for row in found]
    assert delays == [1000, 1000, None, 7000]


@pytest.mark.thorough
def test_the_rules_where_what_is_held_begins_are_those_of_the_journals_cursor(
    place: Place, reads: PlannedReads, reader: "RocketmqReader"
) -> None:
    rules = Rules(number=4, levels_ms=(9000,))
    place.send(2)
    place.write(place.buffer, encode_rules(rules))
    reader.held()
    whole = reader.rules(place.topic, [0, 1])
    trim(reads, place.buffer, 1)
    unknown = reader.rules(place.topic, [0])
    for low_offset in (2, 3):
        cursor = Cursor(topic_id=b"." * 16, next_offset=3, low_offset=low_offset, owner_epoch=1, rules=rules)
        keep(place, cursor)
        if low_offset == 2:
            known = reader.rules(place.topic, [0])
    assert (whole, unknown, known) == ({}, {}, {0: rules.encoded.decode()})
    assert reader.rules(place.topic, [0]) == {}, "behind a change that the cursor has passed nobody knows them"


def keep(place: Place, cursor: Cursor) -> None:
    """As the shard's owner writes it down."""
    journal = Queue(place.settings().wire_names.journal(place.topic), BROKER, 0)
    sent = place.client.broker.send_batch(journal, [encode(Kept(1, "w~1@", cursor.encode()))])
    soon(lambda: place.client.broker.max_offset(journal) > sent.answer.queue_offset)


@pytest.mark.thorough
def test_a_long_stretch_of_the_audit_is_read_in_parts_and_whole(
    spark: "SparkSession", place: Place, reader: "RocketmqReader", monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconcile.readers import ranges

    monkeypatch.setattr(ranges, "AUDIT_TASK_RECORDS", 2)
    shard = Shard(place.topic, part(0))
    batches = [[AuditRow(number, "a", 5, 6, Outcome.DELIVERED)] for number in range(5)]
    place.write(place.names.audit, *(body for some in batches for body in encode_audit(shard, 1, 7, some)))
    reader.held()
    audit = reader.audit(spark, {0: Range(1, 5)})
    assert audit.done.rdd.getNumPartitions() == 2
    assert sorted(row["offset"] for row in rows(audit.done)) == [1, 2, 3, 4]


@pytest.mark.thorough
def test_since_when_a_topic_has_kept_everything_and_since_when_a_buffer_waits(
    place: Place, reads: PlannedReads, reader: "RocketmqReader"
) -> None:
    times = place.write(place.topic, *(encode_body(None, b"x") for _ in range(3)))
    waits = place.send(2)
    reader.held()
    assert reader.kept_since_ms(place.topic) == {}
    assert reader.waits_since_ms(place.topic, 0, Range(1, 2)) == waits[1]
    assert reader.waits_since_ms(place.topic, 1, Range(0, 0)) is None
    assert reader.waits_since_ms("never-made", 0, Range(0, 9)) is None
    trim(reads, place.topic, 1)
    assert reader.kept_since_ms(place.topic) == {0: times[1]}
    trim(reads, place.topic, 3)
    before_ms = CLOCK.now_ms()
    assert before_ms <= reader.kept_since_ms(place.topic)[0] <= CLOCK.now_ms()


@pytest.mark.thorough
def test_a_compacted_topic_is_refused(
    place: Place, reader: "RocketmqReader", monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.held()
    assert place.client.admin.topic_attributes(place.topic, BROKER).get("cleanup.policy") is None
    monkeypatch.setattr(Administration, "topic_attributes", lambda *_: {"cleanup.policy": "COMPACTION"})
    with pytest.raises(CannotJudge, match="compacted"):
        reader.kept_since_ms(place.topic)


@pytest.mark.thorough
def test_a_broker_that_is_away_is_no_loss_but_no_answer(place: Place, reader: "RocketmqReader") -> None:
    reader.number_by(["broker-0", BROKER])
    with pytest.raises(NoAnswer, match="broker-0, from which earlier runs have read, is not registered"):
        reader.held()


@pytest.mark.thorough
def test_an_installation_is_known_by_its_audit_topic_and_without_it_there_is_no_answer(
    place: Place, reader: "RocketmqReader"
) -> None:
    from reconcile.readers.rocketmq import RocketmqReader

    assert reader.cluster().id == place.queue.identity()
    with (
        closing(RocketmqReader(place.settings(namespace="nobody"), CLOCK)) as other,
        pytest.raises(NoAnswer, match=r"nobody\.audit"),
    ):
        other.held()
