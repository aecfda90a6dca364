"""The ledger's rows from an embedded queue that its owner has open."""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import LOW_WATER, AuditRow, Outcome, encode_audit, encode_low_water, encode_skipped
from delayline.buffer.record import encode_control, encode_decision, encode_reappend, encode_rules, encode_value
from delayline.clock import ManualClock
from delayline.encryption.data_key import find_data_key, make_data_key
from delayline.records.message import Key, Shard
from delayline.records.record import encode_body, pack, split_directives
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.audited import decode_positions
from mq.contract import Append, Audited, ShardBatch
from mq.embedded.queue import EmbeddedQueue
from reconcile.errors import CannotJudge, NoAnswer
from reconcile.logic.plan import Range, Read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reconcile.readers.embedded import EmbeddedReader

KEY = b64encode(bytes(range(32))).decode()
NOW_MS = 1_767_225_600_000
BUFFER, AUDIT = "delayline.buffer.orders", "delayline.audit"
SHARD = Shard("orders", "0")
MARK = {"v": 1, "kind": "low_water", "topic": "orders", "shard": "0", "epoch": 3, "at": 4, "next": 5, "low": 6}
COLUMNS = {"off": [1], "id": ["a"], "due": [2], "acc": [3], "out": ["delivered"], "suc": [None], "rsn": [None]}
ROWS = {"v": 1, "kind": "outcomes", "topic": "orders", "shard": "0", "epoch": 3, "at": 4, **COLUMNS}
NOT_JSON = "it is not the JSON of an audit record"
MALFORMED: Sequence[tuple[bytes | None, str]] = [
    (None, "there is no value"),
    (b"{", NOT_JSON),
    (b"\xff\xfe", NOT_JSON),
    (b"[]", NOT_JSON),
    *(
        (json.dumps(document).encode(), why)
        for document, why in (
            ({**MARK, "v": 2}, "it is of another version"),
            ({**MARK, "kind": "other"}, "it is of an unknown kind"),
            ({**MARK, "topic": None}, "topic or time is missing"),
            ({**MARK, "epoch": -1}, "its epoch is missing, or none"),
            ({**MARK, "shard": "broker-a:0"}, "its shard is no partition of Kafka"),
            ({**MARK, "shard": "007"}, "its shard is no partition of Kafka"),
            ({**MARK, "next": None}, "a mark lacks its numbers"),
            ({**MARK, "next": "many"}, NOT_JSON),
            ({**ROWS, "due": [2, 3]}, "its columns are not of one length"),
            ({**ROWS, "suc": None}, "its columns are not of one length"),
            ({**ROWS, **{name: [] for name in COLUMNS}}, "its columns are not of one length"),
            ({**ROWS, "acc": [None]}, "a row lacks its offset, its times or its outcome"),
            ({**ROWS, "out": ["vanished"]}, "an outcome is unknown"),
        )
    ),
]
"""Values of audit records, and the reason reported of each."""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[EmbeddedQueue]:
    opened = EmbeddedQueue.open(
        tmp_path / "queue", namespace="delayline", clock=ManualClock(NOW_MS), partitions=2, disk_free_min_bytes=0
    )
    opened.ensure_topic("orders")
    opened.ensure_buffer("orders", DEFAULT_RULES)
    yield opened
    opened.close()


@pytest.fixture
def reader(tmp_path: Path) -> "EmbeddedReader":
    from reconcile.readers.embedded import EmbeddedReader

    return EmbeddedReader(tmp_path, "delayline", ManualClock(NOW_MS + 5))


def append(queue: EmbeddedQueue, topic: str, *bodies: bytes, partition: str = "0") -> None:
    queue.append([Append(topic, partition, body) for body in bodies]).result()


def trim(queue: EmbeddedQueue, low_offset: int) -> None:
    """Once it is written: what is asked for later is written later."""
    queue.trim(SHARD, low_offset)
    append(queue, "orders", message())


def message(**directives: str) -> bytes:
    return encode_body(
        b"k", b"hello", [(name.replace("_", "-").encode(), text.encode()) for name, text in directives.items()]
    )


def commit_cursor(queue: EmbeddedQueue, low_offset: int, rules: Rules) -> None:
    source, sink = queue.open_worker("w")
    handover = queue.takeover(SHARD)
    cursor = Cursor(topic_id=handover.topic_id, owner_epoch=1, writer="w")
    sink.commit([ShardBatch(SHARD, cursor)])
    sink.commit([ShardBatch(SHARD, replace(cursor, next_offset=low_offset, low_offset=low_offset, rules=rules))])
    source.close()
    sink.close()


def rows(frame: "DataFrame") -> list[dict[str, Any]]:
    from reconcile.readers.work import translated_errors

    with translated_errors():
        return [row.asDict() for row in frame.collect()]


def test_what_a_queue_in_use_holds_is_returned_by_topic_and_partition(
    queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    append(queue, BUFFER, message(delay="1s"), message(delay="2s"), partition="1")

    held = reader.held()

    assert (held.at_ms, held.audit) == (NOW_MS + 5, {0: Range(0, 0), 1: Range(0, 0)})
    assert held.buffers.keys() == {"orders"}
    assert held.buffers["orders"].shards == {0: Range(0, 0), 1: Range(0, 2)}
    assert held.buffers["orders"].topic_id == queue.topic(BUFFER).topic_id.hex()
    assert (reader.cluster().kind, reader.cluster().namespace) == ("embedded", "delayline")
    assert reader.cluster() == reader.cluster()


def test_a_buffer_states_since_when_its_first_record_of_a_part_waits(
    tmp_path: Path, queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    append(queue, BUFFER, message(delay="1s"), message(delay="2s"))
    commit_cursor(queue, 1, DEFAULT_RULES)
    trim(queue, 1)
    assert reader.waits_since_ms("orders", 0, Range(0, 2)) == NOW_MS
    assert reader.waits_since_ms("orders", 0, Range(2, 2)) is None
    assert reader.waits_since_ms("never-made", 0, Range(0, 9)) is None


def test_a_topic_that_was_made_again_has_another_id(
    tmp_path: Path, queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    before = reader.held(), reader.cluster()
    queue.close()
    (tmp_path / "queue").rename(tmp_path / "old")
    (tmp_path / "queue.mark").unlink()
    again = EmbeddedQueue.open(
        tmp_path / "queue", namespace="delayline", clock=ManualClock(NOW_MS), partitions=2, disk_free_min_bytes=0
    )
    again.ensure_topic("orders")
    again.ensure_buffer("orders", DEFAULT_RULES)

    after = reader.held(), reader.cluster()
    again.close()

    assert before[0].audit_topic_id != after[0].audit_topic_id
    assert before[0].buffers["orders"].topic_id != after[0].buffers["orders"].topic_id
    assert before[1].id != after[1].id


def test_each_kind_of_record_is_a_row_as_its_outcome_row_will_call_it(
    spark: "SparkSession", queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    levels = Rules(number=1, levels_ms=(7000,))
    kept = encode_value(None, pack(split_directives(message(delay="1s"), {b"delay"}), NOW_MS - 900))
    bodies = [
        message(delay="1s"),
        encode_rules(levels),
        message(delay_level="1", delay_ttl="2s"),
        message(delay_every="5s", delay_times="3"),
        encode_reappend(kept, Key(NOW_MS + 100, 0), "orders.0.0.77", NOW_MS + 60_000),
        message(delay_op="cancel", delay_ref="orders.0.0.77"),
        message(delay_op="reschedule", delay_ref="mine", delay="9s"),
        encode_control("pause"),
        encode_decision([Key(NOW_MS + 7000, 2)]),
        b"junk",
    ]
    append(queue, BUFFER, *bodies)

    found = rows(reader.accepted(spark, [Read("orders", 0, 0, 10)]))

    assert {(row["topic"], row["shard"], row["appended_ms"]) for row in found} == {("orders", 0, NOW_MS)}
    assert [row["rules"] for row in found if row["rules"]] == [levels.encoded.decode()]
    assert [(row["asks"], row["ref"], row["moves_to_ms"]) for row in found if row["asks"]] == [
        ("cancelled", "orders.0.0.77", None),
        ("rescheduled", "=mine", NOW_MS + 9000),
    ]
    assert [row["expires_ms"] for row in found if row["expires_ms"]] == [NOW_MS + 7000 + 2000]
    columns = ("offset", "kind", "id", "due_ms", "accepted_ms", "replaces_due_ms", "replaces_offset")
    after = NOW_MS + 5000
    assert [tuple(row[column] for column in columns) for row in found] == [
        (0, "message", f"orders.0.0.{NOW_MS + 1000}", NOW_MS + 1000, NOW_MS, None, None),
        (1, "rules", None, None, NOW_MS, None, None),
        (2, "message", f"orders.0.2.{NOW_MS + 7000}", NOW_MS + 7000, NOW_MS, None, None),
        (3, "message", f"orders.0.3.{after}~1", after, NOW_MS, None, None),
        (4, "message", "orders.0.0.77", NOW_MS + 60_000, NOW_MS - 900, NOW_MS + 100, 0),
        (5, "operation", None, None, NOW_MS, None, None),
        (6, "operation", None, None, NOW_MS, None, None),
        (7, "control", None, None, NOW_MS, None, None),
        (8, "decision", None, None, NOW_MS, None, None),
        (9, "message", f"orders.0.9.{NOW_MS}", NOW_MS, NOW_MS, None, None),
    ]


def test_a_read_begins_with_the_rules_it_is_given_and_gets_those_that_a_cursor_knows(
    spark: "SparkSession", queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    rules = Rules(number=4, levels_ms=(9000,))
    append(queue, BUFFER, *[message(delay_level="1")] * 3)
    commit_cursor(queue, low_offset=2, rules=rules)
    trim(queue, 2)

    known = reader.rules("orders", [0, 1])
    (row,) = rows(reader.accepted(spark, [Read("orders", 0, 2, 3, known[0])]))

    assert known == {0: rules.encoded.decode()}
    assert row["due_ms"] == NOW_MS + 9000


def test_nobody_knows_the_rules_of_records_before_a_change_that_the_cursor_has_passed(
    queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    rules = Rules(number=4, levels_ms=(9000,))
    append(queue, BUFFER, message(delay_level="1"), message(delay_level="1"), encode_rules(rules), message())
    commit_cursor(queue, low_offset=4, rules=rules)
    trim(queue, 1)

    assert reader.rules("orders", [0]) == {}


def test_what_was_trimmed_or_is_not_there_yet_is_refused(
    spark: "SparkSession", queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    append(queue, BUFFER, *[message(delay="1s")] * 4)
    planned = reader.accepted(spark, [Read("orders", 0, 1, 4)])
    trim(queue, 2)

    with pytest.raises(CannotJudge, match="begins at 2 now, 1 was to be read"):
        reader.accepted(spark, [Read("orders", 0, 1, 4)])
    with pytest.raises(CannotJudge, match="ends at 4, and was to be read up to 5"):
        reader.accepted(spark, [Read("orders", 0, 2, 5)])
    with pytest.raises(CannotJudge, match=r"\[1, 4\) is not within \[2, 4\)"):
        rows(planned)


def test_a_record_of_a_format_that_is_not_known_stops_the_read_and_is_named(
    spark: "SparkSession", queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    append(queue, BUFFER, message(), encode_body(None, b"", [(b"delayline-decision", b"2")]), message())

    with pytest.raises(CannotJudge, match="orders, shard 0, offset 1: a decision record of version '2'"):
        rows(reader.accepted(spark, [Read("orders", 0, 0, 3)]))


def test_audit_records_are_outcomes_and_marks_and_what_cannot_be_read_is_kept_aside(
    spark: "SparkSession", queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    outcomes = [
        AuditRow(0, "a", 5, 6, Outcome.DELIVERED),
        AuditRow(1, None, None, 7, Outcome.APPLIED, None, "paused"),
    ]
    outcomes.append(AuditRow(2, "b~1", 8, 9, Outcome.SUPERSEDED, "b~2", "roll"))
    append(queue, AUDIT, *encode_audit(SHARD, 3, NOW_MS, outcomes), encode_low_water(SHARD, 3, NOW_MS, 7, 8, 9))
    append(queue, AUDIT, *[encode_body(None, value) for value, _ in MALFORMED], partition="1")
    mark = json.dumps({**MARK, "something": "new"}).encode()
    append(queue, AUDIT, encode_body(None, mark), encode_skipped(SHARD, 3, NOW_MS, 4, 6), partition="1")

    end = len(MALFORMED) + 2
    records, done = map(rows, reader.audit(spark, {0: Range(0, 2), 1: Range(0, end)}))
    of = {kind: [row for row in records if row["kind"] == kind] for kind in {row["kind"] for row in records}}

    common = {"topic": "orders", "shard": 0, "done_ms": NOW_MS, "epoch": 3, "audit_partition": 0, "audit_offset": 0}
    columns = ("offset", "id", "due_ms", "accepted_ms", "outcome", "successor", "reason")
    assert done == [common | dict(zip(columns, outcome, strict=True)) for outcome in outcomes]
    assert [(row["audit_offset"], row["rows"], row["at_ms"]) for row in of["outcomes"]] == [(0, 3, NOW_MS)]
    assert [(row["next"], row["low_ms"], row["pending"], row["audit_offset"]) for row in of[LOW_WATER]] == [
        (7, 8, 9, 1),
        (5, 6, None, len(MALFORMED)),
    ]
    assert [(row["first"], row["next"], row["audit_offset"]) for row in of["skipped"]] == [(4, 6, end - 1)]
    assert [(row["audit_offset"], row["why"]) for row in of["malformed"]] == [
        (offset, why) for offset, (_, why) in enumerate(MALFORMED)
    ]
    (broken,) = [row for row in of["malformed"] if row["why"] == "a mark lacks its numbers"]
    numbers = [broken[name] for name in ("next", "low_ms", "pending")]
    assert numbers == [-1, -1, -1]
    readable = [row for row in records if row["kind"] != "malformed" or row is broken]
    assert {(row["topic"], row["shard"]) for row in readable} == {("orders", 0)}
    known = [row for row in of["malformed"] if row["topic"] is not None]
    assert {row["topic"] for row in known} <= {"orders", "7"}
    assert broken in known
    assert broken["rows"] == 0
    unread = [row["why"] for row in of["malformed"] if row["rows"] is None]  # they may have rows of an outcome
    assert "it is not the JSON of an audit record" in unread
    assert "a mark lacks its numbers" not in unread
    text = [row for row in of["malformed"] if row["topic"] == "orders" and row["why"] == NOT_JSON]
    assert [row["rows"] for row in text] == [0]  # a mark with text for a number


def test_what_was_delivered_is_known_by_its_id_from_a_moment_on(
    spark: "SparkSession", queue: EmbeddedQueue, reader: "EmbeddedReader"
) -> None:
    ours = [(b"delayline-id", b"orders.0.1.5"), (b"delayline-due", b"5")]
    append(
        queue, "orders", encode_body(None, b"x", ours), message(), encode_body(None, b"x", [(b"delayline-id", b"a")])
    )

    found = reader.delivered(spark, ["orders"], NOW_MS)
    after = reader.delivered(spark, ["orders"], NOW_MS + 1)

    assert [(row["offset"], row["id"], row["due_ms"], row["delivered_ms"]) for row in rows(found)] == [
        (0, "orders.0.1.5", 5, NOW_MS),
        (2, "a", None, NOW_MS),
    ]
    assert rows(after) == []
    with pytest.raises(CannotJudge, match="nowhere does not exist"):
        reader.kept_since_ms("nowhere")
    with pytest.raises(CannotJudge, match="no topic 'nowhere'"):
        reader.delivered(spark, ["nowhere"], NOW_MS)


def test_how_far_has_been_read_stands_in_a_file_beside_the_queue(tmp_path: Path, reader: "EmbeddedReader") -> None:
    reader.commit({"orders": {0: 7}}, {0: 1}, NOW_MS)
    reader.commit({"orders": {0: 9, 1: 0}}, {0: 2}, NOW_MS + 1)

    read = decode_positions((tmp_path / "reconcile.json").read_bytes())  # as workers do
    assert read.by_shard == {
        Shard("orders", "0"): Audited(9, NOW_MS + 1),
        Shard("orders", "1"): Audited(0, NOW_MS + 1),
    }
    assert [file.name for file in tmp_path.iterdir()] == ["reconcile.json"]


def test_without_a_queue_there_is_no_answer(reader: "EmbeddedReader") -> None:
    with pytest.raises(NoAnswer, match="there is no queue in"):
        reader.held()


def test_an_encrypted_queue_is_read_by_executors_and_no_process_shows_its_key(
    tmp_path: Path, spark: "SparkSession"
) -> None:
    from reconcile.readers.embedded import EmbeddedReader

    clock = ManualClock(NOW_MS)
    made = make_data_key(tmp_path, KEY)
    opened = EmbeddedQueue.open(
        tmp_path / "queue", namespace="delayline", clock=clock, partitions=2, disk_free_min_bytes=0, data_key=made
    )
    opened.ensure_buffer("orders", DEFAULT_RULES)
    append(opened, BUFFER, message(delay="1s"))
    reader = EmbeddedReader(tmp_path, "delayline", clock, find_data_key(tmp_path, KEY))
    accepted = rows(reader.accepted(spark, [Read("orders", 0, 0, 1)]))
    opened.close()
    assert [row["offset"] for row in accepted] == [0]
    shown = b"".join(_commands_and_variables())
    assert b"java" in shown
    assert not any(secret in shown for secret in (KEY.encode(), made.secret, made.secret.hex().encode()))
    with pytest.raises(NoAnswer, match="encrypted"):
        EmbeddedReader(tmp_path, "delayline", clock).held()


def _commands_and_variables() -> Iterator[bytes]:
    """Of all processes."""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                yield (process / name).read_bytes()
