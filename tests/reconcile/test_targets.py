"""What is found where the target topics themselves are asked: one table, judged in one go. Each case is a topic."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = 1_767_225_600_000
LATE_AFTER_MS = 60_000


class Record(NamedTuple):
    """What the buffer holds: shard 0, one record of message `id`."""

    offset: int = 1
    id: str = "1"
    due_ms: int = T
    kind: str = "message"
    digest: int | None = 7000
    expires_ms: int | None = None


class Row(NamedTuple):
    """A row of the audit."""

    outcome: str = "delivered"
    offset: int = 1
    id: str | None = "1"
    reason: str | None = None
    due_ms: int | None = T
    done_ms: int = T + 12


class Copy(NamedTuple):
    """What stands in the topic."""

    offset: int
    id: str = "1"
    delivered_ms: int = T + 15
    due_ms: int | None = T
    digest: int | None = 7000
    partition: int = 0


class Case(NamedTuple):
    name: str
    records: Sequence[Record]
    rows: Sequence[Row]
    copies: Sequence[Copy]
    found: Sequence[str] = ()


MORTAL = Record(expires_ms=T + 500)
CASES = [
    Case("delivered", [Record()], [Row()], [Copy(7)]),
    Case("nothing_but_an_operation", [Record(kind="operation")], [Row("applied", id=None, due_ms=None)], []),
    Case("cancelled", [Record()], [Row("cancelled")], []),
    Case("expired", [Record()], [Row("expired")], []),
    Case("goes_on_elsewhere", [Record()], [Row("superseded")], []),
    Case("rescheduled", [Record(), Record(2)], [Row("superseded"), Row(offset=2)], [Copy(7)]),
    Case("retried_by_a_group", [Record()], [Row(reason="retry")], []),
    Case("the_audit_lags_the_topic", [Record()], [], [Copy(7)]),
    Case("read_twice_by_two_tasks", [Record()], [Row()], [Copy(7), Copy(7)]),
    Case("twice", [Record()], [Row()], [Copy(7), Copy(9)], ["duplicated 1 at 0/1"]),
    Case("twice_without_audit", [Record()], [], [Copy(7), Copy(9)], ["duplicated 1 at 0/1"]),
    Case("audited_but_not_there", [Record()], [Row()], [], ["missing 1 at 0/1"]),
    Case("audited_but_not_there_trimmed_buffer", [], [Row()], [], ["missing 1 at 0/1"]),
    Case("nothing_of_it_anywhere", [Record()], [], [], ["missing 1 at 0/1"]),
    Case("after_a_cancel", [Record()], [Row("cancelled")], [Copy(7)], ["delivered_after_cancel 1 at 0/1"]),
    Case("although_expired", [Record()], [Row("expired")], [Copy(7)], ["two_outcomes 1 at 0/1"]),
    Case("although_dead", [Record()], [Row("dead")], [Copy(7)], ["two_outcomes 1 at 0/1"]),
    Case(
        "nobody_accepted_it", [Record()], [Row()], [Copy(7), Copy(8, "t.3.44.99~2")], ["orphan t.3.44.99~2 at 3/44"]
    ),
    Case("an_id_of_nothing", [], [], [Copy(8, "forged")], ["orphan forged at -1/-1"]),
    Case("nobody_accepted_it_and_it_is_early", [], [], [Copy(8, "x", T - 9)], ["orphan x at -1/-1"]),
    Case("early", [Record()], [Row()], [Copy(7, delivered_ms=T - 1)], ["early 1 at 0/1"]),
    Case("late", [Record()], [Row()], [Copy(7, delivered_ms=T + LATE_AFTER_MS + 1)], ["late 1 at 0/1"]),
    Case("just_in_time", [Record()], [Row()], [Copy(7, delivered_ms=T + LATE_AFTER_MS)]),
    Case("no_due_time_in_the_copy", [Record()], [Row()], [Copy(7, due_ms=None)], ["altered 1 at 0/1"]),
    Case("another_content", [Record()], [Row()], [Copy(7, digest=7001)], ["altered 1 at 0/1"]),
    Case("another_content_without_audit", [Record()], [], [Copy(7, digest=7001)], ["altered 1 at 0/1"]),
    Case("not_as_deliveries_are", [Record()], [Row()], [Copy(7, digest=-1)], ["altered 1 at 0/1"]),
    Case(
        "the_second_is_altered",
        [Record()],
        [Row()],
        [Copy(7), Copy(9, digest=1)],
        ["altered 1 at 0/1", "duplicated 1 at 0/1"],
    ),
    Case("content_of_which_nobody_knows", [Record(digest=None)], [Row()], [Copy(7)]),
    Case("content_of_a_buffer_that_is_gone", [], [Row()], [Copy(7)]),
    Case("content_of_an_older_archive", [Record()], [Row()], [Copy(7, digest=None)]),
    Case(
        "content_after_a_move",
        [Record(), Record(2, digest=None)],
        [Row("superseded"), Row(offset=2)],
        [Copy(7, digest=9)],
        ["altered 1 at 0/2"],
    ),
    Case(
        "another_due_time",
        [Record()],
        [Row()],
        [Copy(7, due_ms=T - 1000, delivered_ms=T - 500)],
        ["altered 1 at 0/1", "early 1 at 0/1"],
    ),
    Case(
        "a_later_due_time_hides_nothing",
        [Record()],
        [Row()],
        [Copy(7, due_ms=T + 90_000, delivered_ms=T + 90_001)],
        ["altered 1 at 0/1", "late 1 at 0/1"],
    ),
    Case("another_partition", [Record()], [Row()], [Copy(7, partition=3)], ["misplaced 1 at 0/1"]),
    Case("another_partition_trimmed_buffer", [], [Row()], [Copy(7, partition=3)], ["misplaced 1 at 0/1"]),
    Case("a_repeat_that_caught_up", [Record(id="1~1")], [Row(id="1~1")], [Copy(7, "1~1", T + 90_005, T + 90_000)]),
    Case(
        "a_repeat_before_its_time",
        [Record(id="1~1")],
        [Row(id="1~1")],
        [Copy(7, "1~1", T, T - 5)],
        ["altered 1~1 at 0/1"],
    ),
    Case("as_far_behind_its_deadline_as_a_commit_takes", [MORTAL], [Row()], [Copy(7, delivered_ms=T + 10_500)]),
    Case("behind_its_deadline", [MORTAL], [Row()], [Copy(7, delivered_ms=T + 10_501)], ["behind_deadline 1 at 0/1"]),
    Case(
        "a_deadline_of_what_was_moved",
        [MORTAL],
        [Row("superseded")],
        [Copy(7, due_ms=T + 20_000, delivered_ms=T + 20_000)],
        [],
    ),
    Case(
        "twice_and_late",
        [Record()],
        [Row()],
        [Copy(7, delivered_ms=T + LATE_AFTER_MS + 1), Copy(9, delivered_ms=T + LATE_AFTER_MS + 2)],
        ["duplicated 1 at 0/1", "late 1 at 0/1"],
    ),
    Case(
        "occurrences", [Record(id="1~1"), Record(2, "1~2")], [Row(id="1~1")], [Copy(7, "1~1")], ["missing 1~2 at 0/2"]
    ),
]


@pytest.fixture(scope="module")
def found(spark: "SparkSession") -> dict[str, list[str]]:
    from reconcile.frames.schemas import ACCEPTED, DELIVERED, DONE
    from reconcile.spark.targets import verdicts

    accepted = [
        (
            case.name,
            0,
            offset,
            kind,
            id_ if kind == "message" else None,
            due_ms,
            T - 5000,
            T - 5000,
            *[None] * 5,
            expires_ms,
            None,
            digest,
        )
        for case in CASES
        for offset, id_, due_ms, kind, digest, expires_ms in case.records
    ]
    done = [
        (case.name, 0, offset, id_, due_ms, T - 5000, done_ms, outcome, None, reason, 1, 0, 5)
        for case in CASES
        for outcome, offset, id_, reason, due_ms, done_ms in case.rows
    ]
    copies = [
        (case.name, partition, offset, id_, due_ms, delivered_ms, digest)
        for case in CASES
        for offset, id_, delivered_ms, due_ms, digest, partition in case.copies
    ]
    frames = (
        spark.createDataFrame(accepted, ACCEPTED),
        spark.createDataFrame(done, DONE),
        spark.createDataFrame(copies, DELIVERED),
    )
    named: dict[str, list[str]] = {case.name: [] for case in CASES}
    for row in verdicts(*frames, run=3, late_after_ms=LATE_AFTER_MS).collect():
        named[row.topic].append(f"{row.category} {row.id} at {row.shard}/{row.offset}")
    return {name: sorted(some) for name, some in named.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_situation_is_called_by_its_name(case: Case, found: dict[str, list[str]]) -> None:
    assert found[case.name] == list(case.found)
