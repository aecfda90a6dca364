"""What comes after a delivery of a message that repeats. Pure.

A series is *behind* when, at the moment one of its ticks could be delivered, the following one has passed as well.
Then its policy counts: `all` delivers every tick, one after another; `latest` the last one that has passed; `none`
goes on with the first one still to come.
"""

from typing import NamedTuple

from msgspec.structs import replace

from delayline.schedule.recurrence import catch_up, following, stepped
from delayline.schedule.terms import Series, Terms


class Firing(NamedTuple):
    """What to do with a record of a series that is due: deliver it for the tick `tick_ms`, or, where that is None,
    leave it out; and go on at `next_due_ms` with `next_terms`, or end."""

    tick_ms: int | None
    next_due_ms: int | None = None
    next_terms: Terms | None = None


def fire(terms: Terms, due_ms: int, now_ms: int) -> Firing:
    """A record with these terms (and a series) is taken at `now_ms`, at or after `due_ms`."""
    series = terms.series
    assert series is not None, "the caller asks about a series"
    tick_ms, next_ms = due_ms, following(series, due_ms)
    is_behind = next_ms is not None and next_ms <= now_ms
    # rule missed: one delivery would make up for all missed ticks, or each tick would be made up for.
    if is_behind and series.missed != "all":
        # rule missed-last: the first missed tick would be delivered instead of the last.
        tick_ms, next_ms = catch_up(series, due_ms, now_ms)
        # rule missed-none: a missed tick would be made up for although none is to be.
        if series.missed == "none":
            return _go_on(terms, next_ms, _stepped(series, tick_ms, next_ms))
    # rule times: a series would be delivered too often.
    left = None if series.times_left is None else series.times_left - 1
    if left == 0:
        return Firing(tick_ms)
    after = _after(replace(series, times_left=left), tick_ms, next_ms)
    return _go_on(terms, next_ms, after)._replace(tick_ms=tick_ms)


def skip(terms: Terms, due_ms: int) -> Firing:
    """The record is not delivered, and takes no delivery from those that are left."""
    series = terms.series
    if series is None:
        return Firing(None)
    next_ms = following(series, due_ms)
    # rule number-skipped: two occurrences would have the same id.
    return _go_on(terms, next_ms, _after(series, due_ms, next_ms))


def _after(series: Series, tick_ms: int, next_ms: int | None) -> Series:
    """The series as it stands behind this delivery."""
    # rule number: two occurrences would have the same id, and receivers would drop the second.
    return replace(_stepped(series, tick_ms, next_ms), occurrence=series.occurrence + 1)


def _stepped(series: Series, tick_ms: int, next_ms: int | None) -> Series:
    """The series as it stands at the tick behind this one."""
    # rule gap: the gaps of a retry would not grow.
    return series if next_ms is None else stepped(series, tick_ms, next_ms)


def _go_on(terms: Terms, next_ms: int | None, series: Series) -> Firing:
    """A deadline that is a moment ends the series, too."""
    # rule series-end: a series would go on behind its deadline.
    if next_ms is None or (terms.expire_at_ms is not None and next_ms > terms.expire_at_ms):
        return Firing(None)
    return Firing(None, next_ms, replace(terms, series=series))
