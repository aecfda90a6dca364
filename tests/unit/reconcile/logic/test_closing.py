"""Which windows a run judges."""

from collections.abc import Sequence

import pytest

from reconcile.logic.closing import SETTLED_ALWAYS, SETTLED_NEVER, Closing, Due, View, close, hours_of, to_judge
from reconcile.logic.ledger import HOUR_MS, WINDOW_MS
from reconcile.logic.manifest import Marks
from reconcile.logic.plan import Mark, Range

NOW = 1_000 * WINDOW_MS
STALLED_AFTER = HOUR_MS


def mark(next: int, low_ms: int, pending: int | None = 1, audit_offset: int = 7) -> Mark:
    return Mark(NOW, next, low_ms, pending, audit_offset)


def view(end: int, last: Mark | None, start: int = 0, before: Mark | None = None) -> View:
    return View(Range(start, end), start, Marks(last, before))


def long_ago(shard: int, part: Range) -> int | None:
    return 0


@pytest.mark.parametrize(
    ("shard", "complete"),
    [
        (view(0, None), True),  # nothing was ever there
        (view(7, None, start=7), True),  # nothing has come since the first run
        (view(1, None), False),
        (view(5, mark(5, 0, pending=0)), True),
        (view(6, mark(5, 0, pending=0)), False),  # one more has come
        (view(5, mark(5, 0, pending=2)), False),
        (view(5, mark(5, 0, pending=None)), False),  # a writer that does not record it
    ],
)
def test_a_shard_is_complete_when_all_that_it_took_has_ended(shard: View, complete: bool) -> None:
    assert shard.is_complete is complete


@pytest.mark.parametrize(
    ("views", "until"),
    [
        ([view(5, mark(5, 40 * WINDOW_MS + 17))], 40 * WINDOW_MS),
        ([view(5, mark(5, 40 * WINDOW_MS)), view(5, mark(5, 30 * WINDOW_MS))], 30 * WINDOW_MS),
        ([view(5, mark(5, 40 * WINDOW_MS)), view(0, None)], 40 * WINDOW_MS),  # an empty one holds up nobody
        ([view(5, mark(5, 40 * WINDOW_MS)), view(1, None)], 0),  # one that reports nothing does
        ([view(5, mark(5, 3, pending=0))], NOW),
        ([view(5, mark(5, NOW + HOUR_MS))], NOW),  # never beyond what has been looked at
        ([], NOW),
    ],
)
def test_a_topic_is_closed_as_far_as_its_slowest_shard_reports(views: Sequence[View], until: int) -> None:
    closing = close(dict(enumerate(views)), 0, NOW, STALLED_AFTER, long_ago)
    assert (closing.until_ms, closing.now_ms) == (until, until)


def test_closing_never_goes_back() -> None:
    closing = close({0: view(5, mark(5, 30 * WINDOW_MS))}, 50 * WINDOW_MS, NOW, STALLED_AFTER, long_ago)
    assert closing == Closing(50 * WINDOW_MS, 30 * WINDOW_MS, is_stalled=True)


@pytest.mark.parametrize(
    ("last", "stalled"),
    [
        (mark(5, NOW - STALLED_AFTER), False),
        (mark(5, NOW - STALLED_AFTER - 1), True),
        (mark(5, 0, pending=0), False),  # complete: it has nothing more to report
        (None, True),
    ],
)
def test_a_topic_is_stalled_when_a_shard_has_reported_nothing_for_too_long(last: Mark | None, stalled: bool) -> None:
    assert close({0: view(5, last)}, 0, NOW, STALLED_AFTER, long_ago).is_stalled is stalled


@pytest.mark.parametrize(
    ("shard", "waits_since_ms", "stalled"),
    [
        (view(3, None), NOW - STALLED_AFTER, False),  # a new one: its first mark is still to come
        (view(3, None), NOW - STALLED_AFTER - 1, True),
        (view(6, mark(5, 0, pending=0)), NOW - 5_000, False),  # idle since long ago, and one has just come
        (view(6, mark(5, 0, pending=0)), NOW - STALLED_AFTER - 1, True),
        (view(6, mark(5, 0, pending=1)), NOW - 5_000, True),  # one waits that it has spoken of
        (view(6, mark(5, 0, pending=None)), NOW - 5_000, True),
        (view(6, mark(5, 0, pending=0)), None, False),  # what came is a transaction's marker
    ],
)
def test_a_shard_is_silent_only_from_the_first_record_on_that_no_mark_speaks_of(
    shard: View, waits_since_ms: int | None, stalled: bool
) -> None:
    asked: list[tuple[int, Range]] = []

    def waits_since(number: int, part: Range) -> int | None:
        asked.append((number, part))
        return waits_since_ms

    assert close({4: shard}, 0, NOW, STALLED_AFTER, waits_since).is_stalled is stalled
    assert asked in ([], [(4, shard.beyond_marks)])


def test_no_shard_of_a_topic_that_was_closed_lately_is_asked_since_when_it_waits() -> None:
    def waits_since(number: int, part: Range) -> int | None:
        raise AssertionError("a question to the queue")

    assert not close({0: view(3, None)}, NOW - STALLED_AFTER, NOW, STALLED_AFTER, waits_since).is_stalled


@pytest.mark.parametrize(
    ("shard", "below"),
    [
        (view(9, mark(9, 1), before=mark(8, 1, audit_offset=42)), 42),
        (view(9, mark(9, 1)), SETTLED_NEVER),
        (view(9, mark(9, 1, pending=0)), SETTLED_ALWAYS),
    ],
)
def test_rows_are_settled_before_the_last_mark_but_one(shard: View, below: int) -> None:
    assert shard.settled_before == below


def closing(until: int, now: int | None = None) -> Closing:
    return Closing(until * WINDOW_MS, (until if now is None else now) * WINDOW_MS, is_stalled=False)


def windows(*numbers: int) -> list[int]:
    return [number * WINDOW_MS for number in numbers]


@pytest.mark.parametrize(
    ("closed", "touched", "rejudge", "again", "later"),
    [
        (closing(20), windows(), windows(), windows(), windows()),
        (closing(20), windows(3, 9, 10, 12), windows(), windows(3, 9), windows()),  # from 10 on they close now
        (closing(20), windows(3), windows(3, 5), windows(3, 5), windows()),
        (
            closing(10, now=5),
            windows(4, 5, 7),
            windows(),
            windows(4),
            windows(5, 7),
        ),  # what waits there is not missing
    ],
)
def test_what_is_judged_again(
    closed: Closing, touched: list[int], rejudge: list[int], again: list[int], later: list[int]
) -> None:
    due = to_judge(closed, 10 * WINDOW_MS, touched, rejudge)
    assert due == Due(10 * WINDOW_MS, closed.until_ms, again, later)


def test_only_the_hours_with_something_to_judge_are_opened() -> None:
    hour = HOUR_MS // WINDOW_MS
    due = {
        "orders": Due(5 * HOUR_MS + WINDOW_MS, 6 * HOUR_MS, windows(2 * hour + 3), windows(hour)),
        "mail": Due(9 * HOUR_MS, 9 * HOUR_MS, [], []),
    }
    assert hours_of(due, range(12)) == [2, 5]
