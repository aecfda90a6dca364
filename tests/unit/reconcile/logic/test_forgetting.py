"""Of which hours the rows are dropped, and the verdict where one is not found there."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconcile.logic.advance import Judgement, Task
from reconcile.logic.closing import Closing, Due
from reconcile.logic.forgetting import REPORTS_AT_ONCE, after_forgetting, reports_from, reports_of, to_forget
from reconcile.logic.ledger import HOUR_MS, WINDOW_MS, Category
from reconcile.logic.manifest import Merge
from reconcile.logic.places import for_none_accepted, judged, places
from reconcile.logic.whereabouts import ACCEPTED, CELLS, FORGOTTEN, Merged
from reconcile.logic.windows import Tally, Window
from tests.reconcile.cases import CASES, RULES, links, rows

NOW, OLD = 1_000, 100
"""Hours; what is kept is kept for 500."""

KEEP_MS = 500 * HOUR_MS


def task(**fields: Any) -> Task:
    closings = {"orders": Closing(NOW * HOUR_MS, NOW * HOUR_MS, False)}
    known = {"run": 9, "at_ms": NOW * HOUR_MS, "shards": {}, "views": {}, "closings": closings, "due": {}}
    return Task(**{**known, "audit_gaps": [], "rows": {OLD: [(2, 4)]}, "windows": {}, **fields})


def waiting(**fields: list[int]) -> dict[str, Due]:
    return {"orders": Due(0, 0, **{"again": [], "later": [], **fields})}


def read_at(hour: int) -> Callable[[int], int]:
    return lambda run: hour * HOUR_MS


WINDOW = OLD * HOUR_MS + WINDOW_MS
NOTHING = Judgement({}, {}, {}, [])
DROPPED: dict[str, Any] = {"merged": {OLD: [Merge(7, 1)]}, "forgotten": {OLD: [7]}}


@pytest.mark.parametrize(
    ("name", "given", "judgement", "read_hour", "is_dropped"),
    [
        ("old, closed and settled", task(), NOTHING, OLD, True),
        ("just old enough", task(rows={NOW - 501: [(2, 2)]}), NOTHING, NOW - 500, True),
        ("not old", task(rows={NOW - 500: [(2, 2)]}), NOTHING, OLD, False),
        ("due long ago, read of late", task(), NOTHING, NOW - 499, False),
        ("not closed", task(closings={"orders": Closing(OLD * HOUR_MS, OLD * HOUR_MS, True)}), NOTHING, OLD, False),
        ("open again", task(closings={"orders": Closing(NOW * HOUR_MS, OLD * HOUR_MS, False)}), NOTHING, OLD, False),
        ("judged by this run", task(), Judgement({}, {}, {}, [OLD]), OLD, False),
        ("unsettled", task(), Judgement({}, {}, {"orders": [WINDOW]}, []), OLD, False),
        ("waits for its marks", task(due=waiting(later=[WINDOW])), NOTHING, OLD, False),
        (
            "nothing but what was kept",
            task(rows={}, **DROPPED),
            NOTHING,
            OLD,
            False,
        ),
        ("with rows again", task(**DROPPED), NOTHING, OLD, True),
    ],
)
def test_rows_are_dropped_of_hours_that_are_old_closed_and_settled(
    name: str, given: Task, judgement: Judgement, read_hour: int, is_dropped: bool
) -> None:
    dropped = list(to_forget(given, judgement, KEEP_MS, read_at(read_hour)))
    assert bool(dropped) == is_dropped, name


def test_the_latest_run_with_rows_decides_how_old_they_are() -> None:
    asked: list[int] = []

    def read_at_ms(run: int) -> int:
        asked.append(run)
        return 0

    (one,) = to_forget(task(merged={OLD: [Merge(8, 1)]}), NOTHING, KEEP_MS, read_at_ms)
    assert asked == [8]
    assert one == Merged(OLD, 1, [2, 3, 4], [Merge(8, 1)])


def test_cells_are_found_behind_it_and_what_was_there_is_left_over() -> None:
    where = task(forgotten={OLD: [3]}).where
    (one,) = to_forget(task(), NOTHING, KEEP_MS, read_at(OLD))
    after = after_forgetting(where, [one], 9)
    assert after.folders(FORGOTTEN, [OLD]) == [f"merged/run={run}/forgotten/hour={OLD}" for run in (3, 9)]
    assert after.folders(CELLS, [OLD]) == [f"merged/run=9/cells/hour={OLD}"]
    assert one.sources(ACCEPTED) == [f"stage/run={run}/accepted/hour={OLD}" for run in (2, 3, 4)]
    assert after.hours == [OLD]


def test_where_no_record_is_found_everything_is_unauditable_and_the_ledger_adds_up() -> None:
    """Of all situations, without their records: as if these had been dropped with clean rows of theirs."""
    seen = set[str]()
    for case in CASES:
        outcomes = rows(case)
        every = list(places([], links(case), outcomes))
        rules = replace(RULES, forgotten=[place.moment_ms // HOUR_MS for place in every])
        window = Window("orders", 0, Tally(), 1)
        for place in every:
            for one in judged(place, rules):
                seen.add(one.category)
                window.add(one)
        ends = sum(row.of == 0 for row in outcomes)
        answered = window.found["surplus"] - window.found["unanswered"] - window.found["unanswered_unauditable"]
        assert answered == ends, case.name
    assert seen == {Category.UNAUDITABLE}


def test_a_message_that_ended_for_one_that_may_have_been_dropped_is_unauditable() -> None:
    (case,) = (case for case in CASES if case.name == "duplicate_of_nobody")
    given_way = [row for row in rows(case) if row.gives_way]
    (one,) = for_none_accepted(given_way, set(), RULES)
    hour = int((given_way[0].successor or "").rpartition(".")[2]) // HOUR_MS
    (doubted,) = for_none_accepted(given_way, set(), replace(RULES, forgotten=[hour]))
    assert (one.category, doubted.category) == (Category.WRONG_SUCCESSOR, Category.UNAUDITABLE)


@pytest.mark.parametrize(
    ("run", "old", "first"),
    [(9, 0, 3), (9, 5, 6), (9, 20, 8), (2, 20, 3), (500, 400, 3 + REPORTS_AT_ONCE)],
    ids=["none is old", "the first three are", "all are: the last one stays", "none but that", "very many are"],
)
def test_reports_of_old_runs_go_but_for_the_last_one_and_not_all_at_once(run: int, old: int, first: int) -> None:
    given = task(run=run, reports_from=3)
    assert reports_from(given, KEEP_MS, lambda number: (OLD if number <= old else NOW) * HOUR_MS) == first
    assert reports_of([4]) == ["runs/4", "plan-4.json", "reads-4.json"]
