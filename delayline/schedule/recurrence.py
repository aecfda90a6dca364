"""When a message that repeats is due: cron expressions in a time zone, and fixed or growing gaps.

A cron expression is matched against the clock on the wall of its zone, and each wall time that matches fires once:

    gap       wall times that the clock leaves out fire at the first instant after the gap, together once, and
              not again with a match at that very instant
    overlap   wall times that the clock shows twice fire the first time only

Both follow from one rule, whatever the expression: a wall time fires at the first instant at which the clock shows it
or a later one. Instants therefore only grow with wall times, and every search is one step of the cron library on wall
time (`CronSim`, which knows no zone here: its own treatment of gaps and overlaps depends on the expression) between
`_reached` and `_instant_s`.

Zones come from the pinned `tzdata` package, never from the machine: the same times everywhere. Times are epoch
milliseconds UTC; cron fires at whole seconds.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from copy import copy
from datetime import datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from delayline.errors import MalformedDirective
from delayline.schedule.rules import HORIZON_MAX_MS
from delayline.schedule.terms import Series
from delayline.times import MOMENT_MAX_MS, format_duration, parse_duration_ms

CRON_CHARS_MAX = 256
PERIOD_MIN_MS = 1000
"""Cron cannot fire more often either. A shorter gap is a flood: a slip of the pen, or a job for a loop."""

_CRONS_REMEMBERED = 512
"""A parsed expression has up to 20 kB; parsing one costs as much as a step of it."""

_ITEM = r"(?:\*|(?:[0-9]{1,2}|[A-Za-z]{3})(?:-(?:[0-9]{1,2}|[A-Za-z]{3}))?)(?:/[0-9]{1,2})?"
_CRON = re.compile(rf"(?:{_ITEM}(?:,{_ITEM})*)(?: +{_ITEM}(?:,{_ITEM})*){{4,5}}")
"""The shape alone: it keeps out L W # ? and @names, which the cron library would partly take."""

_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_ANY_WALL = datetime(2026, 1, 1)
_CALENDAR_ENDS_S = 250_000_000_000
"""In the year 9892. Python's calendar ends with 9999, and the cron library looks 50 years ahead."""


def check_cron(text: str) -> str:
    """The text: five fields, or six with seconds first; 0 and 7 are Sunday. Raises MalformedDirective."""
    if len(text) > CRON_CHARS_MAX:
        raise MalformedDirective(f"longer than {CRON_CHARS_MAX} characters")
    if not _CRON.fullmatch(text):
        raise MalformedDirective(
            "expected a cron expression of 5 fields, or 6 with seconds first, without L W # ? @names"
        )
    try:
        fires = _matching(text, _ANY_WALL) is not None
    except CronSimError as error:
        raise MalformedDirective(f"not a cron expression: {error}") from error
    if not fires:
        raise MalformedDirective("a cron expression that never fires")
    return text


def check_time_zone(text: str) -> str:
    """The text: a zone or link of the IANA database, as it is spelt there. Raises MalformedDirective."""
    _zone(text)
    return text


def parse_period_ms(text: str) -> int:
    """A fixed gap. Raises MalformedDirective."""
    if (period_ms := parse_duration_ms(text)) < PERIOD_MIN_MS:
        raise MalformedDirective(f"expected at least {format_duration(PERIOD_MIN_MS)} between deliveries")
    return period_ms


# --- series


def first(cron: str, zone: str, accepted_at_ms: int) -> int | None:
    """The first tick after acceptance; None: there is none within 50 years. Raises MalformedDirective for what
    `check_cron` and `check_time_zone` refuse."""
    return _cron_after(cron, _zone(zone), accepted_at_ms)


def following(series: Series, tick_ms: int) -> int | None:
    """The tick after this one; None: there is none. How many deliveries are left is not looked at."""
    if series.every_ms is not None:
        return _sayable(tick_ms + series.every_ms)
    return first(_cron(series), series.zone, tick_ms)


def catch_up(series: Series, tick_ms: int, now_ms: int) -> tuple[int, int | None]:
    """The last tick that has passed, `tick_ms` itself or later, and the first one to come (None: there is none).

    `tick_ms` is a tick that has passed. Takes the same time however many lie between; with a backoff up to 130,000
    steps (60 ms), for gaps that grow by a ten-thousandth.
    """
    assert tick_ms <= now_ms, "what has not passed cannot be behind"
    if series.every_ms is None:
        cron, zone = _cron(series), _zone(series.zone)
        return max(tick_ms, _cron_until(cron, zone, now_ms) or tick_ms), _cron_after(cron, zone, now_ms)
    if series.backoff is None:
        last_ms = now_ms - (now_ms - tick_ms) % series.every_ms
        return last_ms, _sayable(last_ms + series.every_ms)
    gap_ms = series.every_ms
    while tick_ms + gap_ms <= now_ms:
        tick_ms += gap_ms
        gap_ms = _grown_ms(gap_ms, series.backoff)
    return tick_ms, _sayable(tick_ms + gap_ms)


def _sayable(tick_ms: int) -> int | None:
    """No tick is later than the last moment that there is: the series ends before."""
    return tick_ms if tick_ms <= MOMENT_MAX_MS else None


def stepped(series: Series, tick_ms: int, next_ms: int) -> Series:
    """The series as it stands at the tick that follows `tick_ms`: with a backoff the gap behind it is longer."""
    if series.backoff is None:
        return series
    return replace(series, every_ms=_grown_ms(next_ms - tick_ms, series.backoff))


def ticks(series: Series, first_ms: int) -> Iterator[int]:
    """All ticks of a series that begins then, at most `times_left`. Without end for most series."""
    tick_ms: int | None = first_ms
    while tick_ms is not None and series.times_left != 0:
        yield tick_ms
        next_ms = following(series, tick_ms)
        if next_ms is not None:
            series = stepped(series, tick_ms, next_ms)
        if series.times_left is not None:
            series = replace(series, times_left=series.times_left - 1)
        tick_ms = next_ms


def deliveries(series: Series, first_ms: int, now_ms: int) -> Iterator[int]:
    """The ticks that are delivered where the series begins at `first_ms` and nothing is late from `now_ms` on. Those
    that have passed are made up for as `missed` requires."""
    if first_ms > now_ms or series.missed == "all":
        return ticks(series, first_ms)
    last_ms, next_ms = catch_up(series, first_ms, now_ms)
    if next_ms is None or last_ms == first_ms:
        return ticks(series, first_ms)
    if series.backoff is not None:
        series = replace(series, every_ms=next_ms - last_ms)
    return ticks(series, last_ms) if series.missed == "latest" else ticks(stepped(series, last_ms, next_ms), next_ms)


def _cron(series: Series) -> str:
    assert series.cron is not None, "a series repeats by cron or by a gap"
    return series.cron


def _grown_ms(gap_ms: int, backoff: float) -> int:
    """Exact in the factor's four decimals, rounded up: it grows in any case."""
    return min(-(-gap_ms * round(backoff * 10_000) // 10_000), HORIZON_MAX_MS)


# --- instants of a cron expression


def _cron_after(cron: str, zone: ZoneInfo, after_ms: int) -> int | None:
    """The first tick behind that moment."""
    after_s = max(after_ms // 1000, -1)
    if after_s > _CALENDAR_ENDS_S:
        return None
    wall = _matching(cron, _reached(zone, after_s))
    return None if wall is None else _instant_s(zone, wall) * 1000


def _cron_until(cron: str, zone: ZoneInfo, until_ms: int) -> int | None:
    """The last tick at or before that moment."""
    until_s = min(until_ms // 1000, _CALENDAR_ENDS_S)
    wall = _matching(cron, _reached(zone, until_s) + _SECOND, backwards=True)
    return None if wall is None else _instant_s(zone, wall) * 1000


def _matching(cron: str, wall: datetime, backwards: bool = False) -> datetime | None:
    """The nearest wall time behind, or before, that one which the expression matches; None within 50 years."""
    steps = copy(_parsed(cron))
    steps.dt = wall
    steps.tick_direction = -1 if backwards else 1
    return next(steps, None)


@lru_cache(_CRONS_REMEMBERED)
def _parsed(cron: str) -> CronSim:
    return CronSim(cron, _ANY_WALL)


# --- the clock on the wall


def _reached(zone: ZoneInfo, at_s: int) -> datetime:
    """The latest wall time that the clock has shown up to that second. In the second pass of an overlap this is the
    last one of the first pass."""
    shown = datetime.fromtimestamp(at_s, zone)
    if shown.fold:
        first_pass_s = _instant_s(zone, shown.replace(tzinfo=None, fold=0))
        shown = datetime.fromtimestamp(_change_s(zone, first_pass_s, at_s) - 1, zone)
    return shown.replace(tzinfo=None)


def _instant_s(zone: ZoneInfo, wall: datetime) -> int:
    """The first second at which the clock shows that wall time or a later one.

    PEP 495: `fold=0` has the offset before a change and `fold=1` the one behind it; elsewhere they are the same.
    """
    as_utc_s = (wall - _EPOCH) // _SECOND
    before_s, behind_s = _offset_s(wall.replace(tzinfo=zone)), _offset_s(wall.replace(tzinfo=zone, fold=1))
    if before_s >= behind_s:
        return as_utc_s - before_s
    return _change_s(zone, as_utc_s - behind_s, as_utc_s - before_s)  # in a gap: one is before the change, one behind


def _change_s(zone: ZoneInfo, low_s: int, high_s: int) -> int:
    """The first second in (low_s, high_s] at which the offset is not that of `low_s` any more."""
    offset_s = _offset_s(datetime.fromtimestamp(low_s, zone))
    seconds = range(low_s, high_s)
    return low_s + bisect_left(seconds, True, key=lambda s: _offset_s(datetime.fromtimestamp(s, zone)) != offset_s)


def _offset_s(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None, "a moment of a zone has an offset"
    return offset // _SECOND


@cache
def _zone(name: str) -> ZoneInfo:
    """Raises MalformedDirective. Only names of the list are remembered, so that there are some 600 at most."""
    if name not in _zones():
        raise MalformedDirective("expected an IANA time zone such as Europe/Berlin")
    with (files("tzdata") / "zoneinfo" / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def _zones() -> frozenset[str]:
    return frozenset((files("tzdata") / "zones").read_text().split())
