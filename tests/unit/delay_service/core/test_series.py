"""What comes after a delivery: the worker's way through a series, tick by tick."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.series import fire
from delayline.schedule.recurrence import deliveries
from delayline.schedule.terms import Series, Terms

NOW_MS = 1_767_225_600_000
EVERY = Series(every_ms=1000, times_left=3)


def delivered(series: Series, due_ms: int, now_ms: int, count: int) -> list[int]:
    """The ticks that a worker delivers that comes to the series at `now_ms`, and is punctual from then on."""
    found: list[int] = []
    next_ms: int | None = due_ms
    terms: Terms | None = Terms(series=series)
    while next_ms is not None and terms is not None and len(found) < count:
        firing = fire(terms, next_ms, max(now_ms, next_ms))
        found += [] if firing.tick_ms is None else [firing.tick_ms]
        next_ms, terms = firing.next_due_ms, firing.next_terms
    return found


@pytest.mark.parametrize(
    ("missed", "ticks_ms"),
    [("all", [0, 1000, 2000]), ("latest", [2000, 3000, 4000]), ("none", [3000, 4000, 5000])],
)
def test_a_series_that_is_behind_is_made_up_for_as_it_asks(missed: str, ticks_ms: list[int]) -> None:
    series = Series(every_ms=1000, times_left=3, missed=missed)
    assert delivered(series, NOW_MS, NOW_MS + 2999, 9) == [NOW_MS + ms for ms in ticks_ms]


def test_deliveries_are_numbered_and_counted() -> None:
    firing = fire(Terms(series=EVERY), NOW_MS, NOW_MS)
    assert firing.tick_ms == NOW_MS
    assert firing.next_terms == Terms(series=Series(every_ms=1000, times_left=2, occurrence=2))


def test_what_is_left_out_takes_no_delivery_and_no_number() -> None:
    series = Series(every_ms=1000, times_left=3, missed="none")
    firing = fire(Terms(series=series), NOW_MS, NOW_MS + 5500)
    assert (firing.tick_ms, firing.next_due_ms) == (None, NOW_MS + 6000)
    assert firing.next_terms == Terms(series=series)


def test_a_deadline_ends_a_series_with_the_last_tick_before_it() -> None:
    terms = Terms(series=EVERY, expire_at_ms=NOW_MS + 999)
    assert fire(terms, NOW_MS, NOW_MS).next_due_ms is None


_SERIES = st.builds(
    Series,
    every_ms=st.integers(1000, 5000),
    backoff=st.sampled_from([None, 1.5, 2.0]),
    times_left=st.none() | st.integers(1, 20),
    missed=st.sampled_from(["all", "latest", "none"]),
) | st.builds(
    Series,
    cron=st.sampled_from(["* * * * * *", "*/7 * * * * *", "* * * * *"]),
    times_left=st.none() | st.integers(1, 20),
    missed=st.sampled_from(["all", "latest", "none"]),
)


@given(_SERIES, st.integers(0, 100_000))
def test_a_preview_shows_what_the_worker_delivers(series: Series, late_ms: int) -> None:
    assert [*islice(deliveries(series, NOW_MS, NOW_MS + late_ms), 8)] == delivered(
        series, NOW_MS, NOW_MS + late_ms, 8
    )
