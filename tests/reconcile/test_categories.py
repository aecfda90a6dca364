"""What is found in each situation, from rows to windows: all cases in one go."""

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.reconcile.cases import CASES, RULES, in_words, links, moved, rows, with_origins
from tests.reconcile.cases_of_times import TIMES
from tests.reconcile.situations import LATE_AFTER_MS, T

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from reconcile.logic.testimony import Found

NAMED_BY_THEIR_CELL = {
    "missing",
    "missing_beside_others",
    "missing_operation",
    "rolled_to_another_time_beside_what_is_missing",
    "row_in_another_window",
    "untold",
    "untold_although_it_is_due_later",
}
"""Of these, what is missing is read from the XORs alone."""


UNTIMELY = {"early", "late", "wrongly_expired", "behind_deadline"}
"""These records and their rows agree: they are only not right."""

FOUND_BY_ITS_ROW = {
    *("replaced_by_nobody", "replaced_by_nobody_whose_name_is_none", "replaced_by_what_is_not_read_yet"),
    *("duplicate_of_itself", "replaced_by_itself", "duplicates_of_each_other"),
    *("duplicate_of_nobody", "duplicate_of_an_operation", "duplicate_without_a_name"),
}
"""Of these each record has its row: what is looked up is the message that it names."""


class Judged(NamedTuple):
    """By case; of windows, the rows."""

    found: "list[Found]"
    windows: list[Any]
    named: set[str]
    cells: dict[str, int]


@pytest.fixture(scope="module")
def judged(spark: "SparkSession") -> Judged:
    """Everything accepted is read by one run, everything done by the next."""
    from reconcile.frames.local_frame import small
    from reconcile.frames.schemas import ACCEPTED, DONE
    from reconcile.frames.tables import rows_of
    from reconcile.logic import places, suspects
    from reconcile.logic.windows import Tally, Window
    from reconcile.spark import cells, lookup, timing
    from reconcile.spark.pairing import MOVED

    def frame(schema: "StructType", some: list[Any]) -> "DataFrame":
        return small(spark, [[getattr(one, name, None) for name in schema.fieldNames()] for one in some], schema)

    accepted = frame(ACCEPTED, [one for case in CASES for one in with_origins(case)])
    carrying = frame(cells.LINKS, [link for case in CASES for link in links(case)])
    done = frame(DONE, [row for case in CASES for row in rows(case)])
    first = cells.cells(accepted, carrying, frame(DONE, []), LATE_AFTER_MS)
    second = cells.cells(frame(ACCEPTED, []), None, done, LATE_AFTER_MS)
    _check(first, cells.CELLS)
    parts = first.unionByName(second).localCheckpoint()
    windows: dict[tuple[str, int], Window] = {}
    for topic, window_ms, recorded, count, late_max_ms, buckets, _ in rows_of(cells.counted(parts).toArrow()):
        window = windows.setdefault((topic, window_ms), Window(topic, window_ms, Tally(), 7))
        window.tally.add(recorded, count, late_max_ms, buckets)
    suspect = [suspects.Suspect(*row) for row in rows_of(cells.suspects(parts).toArrow())]
    untold = [suspects.Suspect(*row) for row in rows_of(cells.suspects(parts, bool(RULES.gaps)).toArrow())]
    staged = {"accepted": accepted, "links": carrying, "done": done}
    (batch,) = suspects.batches(untold)
    behind = lookup.behind(spark, batch, lambda _, kind: staged[kind], LATE_AFTER_MS)
    names = [one for one in map(places.named_by, behind.given_way) if one]
    known = lookup.accepted_among(spark, names, accepted)
    late = [row for row in behind.untimely if places.is_late(row, LATE_AFTER_MS)]
    past = lookup.moved_into_the_past(late, lambda hours: lambda _, kind: staged[kind], RULES)
    found = [*suspects.judged_behind(behind, RULES, past), *places.for_none_accepted(behind.given_way, known, RULES)]
    mortal = [cell for cell in suspect if cell.is_mortal]
    ends = lookup.with_deadlines(spark, mortal, lambda _, kind: staged[kind])
    found += [one for row, expires_ms in ends if (one := places.against_deadline(row, expires_ms))]
    moves = frame(MOVED, [move for case in CASES for move in moved(case)])
    spots = [*timing.elsewhere(carrying, moves)]
    spots += timing.unkept([cell for cell in suspect if cell.is_unkept], lambda _, kind: staged[kind])
    spots += timing.unlike([cell for cell in suspect if cell.carries_deadlines], lambda _, kind: staged[kind])
    found += timing.judged(spots, lambda hours: lambda _, kind: staged[kind], moves)
    for one in found:
        if one.settled:
            windows[one.topic, one.window_ms].add(one)
    for cell in suspect:
        windows[cell.topic, cell.window_ms].dirty_cells += cell.is_dirty
    named = {one.topic for one in suspects.named(suspect)}
    cells_of: dict[str, int] = {}
    for window in windows.values():
        cells_of[window.topic] = cells_of.get(window.topic, 0) + window.row["cells"]
    return Judged(found, [window.row for window in windows.values()], named, cells_of)


def _check(frame: "DataFrame", schema: Any) -> None:
    assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in schema]


def test_each_situation_is_called_what_it_is(judged: Judged) -> None:
    assert in_words(judged.found) == {case.name: list(case.found) for case in CASES}


def test_what_alone_is_missing_in_its_cell_is_named_without_a_look_up(judged: Judged) -> None:
    assert judged.named == NAMED_BY_THEIR_CELL


def test_what_is_found_nowhere_leaves_no_dirty_cell(judged: Judged) -> None:
    untimely = {case.name for case in CASES if {line.split()[0] for line in case.found} <= UNTIMELY}
    dirty = {row["topic"] for row in judged.windows if row["dirty_cells"]}
    timed = {case.name for case in TIMES if not any("missing" in line for line in case.found)}
    assert dirty == {case.name for case in CASES} - untimely - FOUND_BY_ITS_ROW - timed


def test_offsets_that_are_to_share_a_cell_do(judged: Judged) -> None:
    assert [judged.cells[name] for name in ("missing_beside_others", "two_missing_in_a_cell")] == [1, 1]


def test_each_window_adds_up(judged: Judged) -> None:
    off = {
        (row["topic"], row["window_ms"]): (row["accepted"] - row["others"] + row["surplus"], accounted(row))
        for row in judged.windows
        if row["accepted"] - row["others"] + row["surplus"] != accounted(row)
    }
    assert off == {}


def accounted(row: dict[str, Any]) -> int:
    ends = ("delivered", "cancelled", "superseded", "expired", "dead", "duplicate")
    return sum(row[name] for name in (*ends, "unanswered", "unanswered_unauditable"))


def test_lateness_is_counted_by_its_bits(judged: Judged) -> None:
    row = next(row for row in judged.windows if row["topic"] == "lateness")
    counted = {bits: count for bits, count in enumerate(row["lateness"]) if count}
    assert counted == {0: 1, 1: 1, 2: 2, 3: 1, 10: 1, 11: 1, 24: 1, 25: 2}
    assert row["late_max_ms"] == 2**40
    assert len(row["lateness"]) == 26


def test_a_finding_has_the_record_s_place_and_its_rows_in_the_audit(judged: Judged) -> None:
    found = next(one for one in judged.found if one.topic == "cancelled_then_delivered")
    assert found._asdict() == {
        "topic": "cancelled_then_delivered",
        "window_ms": T,
        "category": "delivered_after_cancel",
        "id": f"cancelled_then_delivered.0.1.{T}",
        "shard": 0,
        "offset": 1,
        "due_ms": T,
        "accepted_ms": T - 5000,
        "done_ms": T + 12,
        "lateness_ms": 12,
        "surplus": 1,
        "detail": f"cancelled at {T - 900}, audit 0/500; delivered at {T + 12}, audit 0/500",
        "settled": True,
    }


def test_the_detail_shows_whether_a_missing_message_goes_on(judged: Judged) -> None:
    details = {row.topic: row.detail for row in judged.found if row.category == "missing"}
    assert details["missing_that_goes_on"] == "no outcome; re-appended at offset 2"
    assert details["lost_successor"] == f"superseded (rescheduled) at {T + 12}, audit 0/500; not re-appended"
    assert details["missing"] == "no outcome"
