"""Cron expressions in time zones, gaps, and what is left out."""

import shutil
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import files
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayline.errors import MalformedDirective
from delayline.schedule.recurrence import (
    catch_up,
    check_cron,
    check_time_zone,
    deliveries,
    first,
    following,
    parse_period_ms,
    stepped,
    ticks,
)
from delayline.schedule.rules import HORIZON_MAX_MS
from delayline.schedule.terms import Series
from delayline.times import format_moment, parse_moment_ms
from tests.tiers import examples

DAY_MS = 86_400_000
NOW_MS = parse_moment_ms("2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *", "0 9 * * 1-5", "*/5 0-23/2 1,15 JAN-mar MON", "30 0 9 * * 0", "0 9 * * 7", "0 9 1 * 1",
        "0 0 29 2 *", "5/10 * * * *",
    ],
)  # fmt: skip
def test_five_fields_or_six_with_seconds_first_are_a_cron_expression(text: str) -> None:
    check_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "* * * * * * *", "@daily",
        "0 0 L * *", "0 0 15W * *", "0 0 * * 5L", "0 0 * * 1#2", "0 0 ? * *", "60 * * * *",
        "0 24 * * *", "0 0 0 * *", "0 0 * 13 *", "0 0 * * 8", "0 0 * * MOO", "*/0 * * * *",
        "5-1 * * * *", " * * * * *", "* * * * * ", "*\t* * * *", "0 0 31 4 *", "0 0 30 2 *", "0,,1 * * * *",
        ",".join(["0"] * 300) + " * * * *",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(MalformedDirective):
        check_cron(text)


@pytest.mark.parametrize("text", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Asia/Calcutta"])
def test_a_zone_of_the_iana_database_is_a_time_zone(text: str) -> None:
    check_time_zone(text)


@pytest.mark.parametrize("text", ["", "Europe", "europe/berlin", "+02:00", "../etc/passwd", "Mars/Olympus"])
def test_anything_else_is_no_time_zone(text: str) -> None:
    with pytest.raises(MalformedDirective):
        check_time_zone(text)


def test_a_gap_is_a_second_at_least() -> None:
    assert parse_period_ms("PT1S") == 1000
    for text in ("999ms", "0s", "soon"):
        with pytest.raises(MalformedDirective):
            parse_period_ms(text)


# --- gaps and overlaps: expected instants are worked out by hand from the zones' published changes


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        # CET +1, CEST +2; forward 2026-03-29 02:00 -> 03:00, back 2026-10-25 03:00 -> 02:00, both at 01:00Z
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T00:00Z", "2026-03-28T01:30Z 2026-03-29T01:00Z 2026-03-30T00:30Z"),
        ("Europe/Berlin", "0 2,3 * * *", "2026-03-28T02:00Z", "2026-03-29T01:00Z 2026-03-30T00:00Z"),
        ("Europe/Berlin", "*/20 * * * *", "2026-03-29T00:30Z", "2026-03-29T00:40Z 2026-03-29T01:00Z"),
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00Z", "2026-10-25T00:30Z 2026-10-26T01:30Z"),
        ("Europe/Berlin", "*/20 * * * *", "2026-10-25T00:20Z", "2026-10-25T00:40Z 2026-10-25T02:00Z"),
        ("Europe/Berlin", "*/20 * * * *", "2026-10-25T01:10Z", "2026-10-25T02:00Z"),
        ("Europe/Berlin", "30 59 2 * * *", "2026-10-25T00:00Z", "2026-10-25T00:59:30Z 2026-10-26T01:59:30Z"),
        # EST -5, EDT -4; forward 2026-03-08 02:00 -> 03:00 at 07:00Z, back 2026-11-01 02:00 -> 01:00 at 06:00Z
        ("America/New_York", "30 2 * * *", "2026-03-08T00:00Z", "2026-03-08T07:00Z 2026-03-09T06:30Z"),
        ("America/New_York", "30 1 * * *", "2026-11-01T00:00Z", "2026-11-01T05:30Z 2026-11-02T06:30Z"),
        # +10:30 and +11, half an hour; back 2026-04-05 02:00 -> 01:30 at 15:00Z, forward 2026-10-04 02:00 -> 02:30
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00Z", "2026-10-03T15:30Z 2026-10-04T15:15Z"),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00:00Z", "2026-04-04T14:45Z 2026-04-05T15:15Z"),
        ("Australia/Lord_Howe", "*/15 * * * *", "2026-04-04T14:45Z", "2026-04-04T15:30Z"),
        # +2, +3; a day without its midnight, 2026-03-29 00:00 -> 01:00, and one with two, 2026-10-25 00:00 -> 23:00
        ("Asia/Beirut", "0 0 * * *", "2026-03-28T00:00Z", "2026-03-28T22:00Z 2026-03-29T21:00Z"),
        ("Asia/Beirut", "30 23 * * *", "2026-10-24T00:00Z", "2026-10-24T20:30Z 2026-10-25T21:30Z"),
        ("Asia/Beirut", "0 0 25 10 *", "2026-10-24T00:00Z", "2026-10-24T22:00Z"),
        # 0 and +2, two hours; forward 2026-03-29 01:00 -> 03:00, back 2026-10-25 03:00 -> 01:00, both at 01:00Z
        ("Antarctica/Troll", "0,30 1-2 * * *", "2026-03-29T00:00Z", "2026-03-29T01:00Z 2026-03-29T23:00Z"),
        ("Antarctica/Troll", "0 1-2 * * *", "2026-10-24T23:00Z", "2026-10-25T00:00Z 2026-10-26T01:00Z"),
        # +1, and 0 in Ramadan: back 2026-02-15 03:00 -> 02:00, forward 2026-03-22 02:00 -> 03:00, both at 02:00Z
        ("Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00Z", "2026-02-15T01:30Z 2026-02-16T02:30Z"),
        ("Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00Z", "2026-03-22T02:00Z 2026-03-23T01:30Z"),
        # -10 and +14: Friday 2011-12-30 was left out, at 10:00Z
        ("Pacific/Apia", "0 9 * * *", "2011-12-29T12:00Z", "2011-12-29T19:00Z 2011-12-30T10:00Z 2011-12-30T19:00Z"),
        ("Pacific/Apia", "0 9 * * FRI", "2011-12-24T00:00Z", "2011-12-30T10:00Z 2012-01-05T19:00Z"),
        ("Pacific/Apia", "*/30 * 30 12 *", "2011-12-01T00:00Z", "2011-12-30T10:00Z 2012-12-29T10:00Z"),
        ("UTC", "30 2 * * *", "2026-03-28T12:00Z", "2026-03-29T02:30Z 2026-03-30T02:30Z"),
    ],
)  # fmt: skip
def test_a_wall_time_fires_when_the_clock_first_shows_it_or_a_later_one(
    zone: str, cron: str, after: str, expected: str
) -> None:
    instants = [moment(text) for text in expected.split()]
    begins = first(cron, zone, moment(after))
    assert begins is not None
    series = Series(cron=cron, zone=zone)
    assert [*islice(ticks(series, begins), len(instants))] == instants
    for tick_ms, next_ms in pairwise(instants):
        assert catch_up(series, tick_ms, next_ms - 1) == (tick_ms, next_ms)


def moment(text: str) -> int:
    return parse_moment_ms(text if text.count(":") == 2 else text.replace("Z", ":00Z"))


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 0 13 * 5", "2026-01-02 2026-01-09 2026-01-13"),  # day or weekday, where both are restricted
        ("0 0 */2 * 5", "2026-01-09 2026-01-23"),  # a star with a step restricts nothing: both must match
        ("0 0 * * 0", "2026-01-04 2026-01-11"),
        ("0 0 * * 7", "2026-01-04 2026-01-11"),
        ("0 0 29 2 *", "2028-02-29 2032-02-29"),
        ("0 0 31 * *", "2026-01-31 2026-03-31 2026-05-31"),
    ],
)
def test_days_are_those_of_cron(cron: str, expected: str) -> None:
    days = expected.split()
    begins = first(cron, "UTC", NOW_MS)
    assert begins is not None
    found = islice(ticks(Series(cron=cron), begins), len(days))
    assert [format_moment(tick_ms) for tick_ms in found] == [f"{day}T00:00:00.000Z" for day in days]


def test_the_first_tick_is_behind_the_moment_of_acceptance() -> None:
    assert first("* * * * * *", "UTC", NOW_MS) == NOW_MS + 1000
    assert first("* * * * * *", "UTC", NOW_MS - 1) == NOW_MS
    assert first("* * * * * *", "UTC", NOW_MS + 999) == NOW_MS + 1000


@pytest.mark.parametrize("accepted_at_ms", [10**17, 2**63 - 1])
def test_behind_the_end_of_the_calendar_nothing_fires(accepted_at_ms: int) -> None:
    assert first("* * * * *", "Europe/Berlin", accepted_at_ms) is None
    assert catch_up(Series(cron="* * * * *"), accepted_at_ms - 1, accepted_at_ms) == (accepted_at_ms - 1, None)


def test_a_calendar_begins_with_1970() -> None:
    assert first("0 0 * * *", "UTC", -(2**63)) == 0


def test_zones_are_those_of_the_package_whatever_the_machine_has(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    shutil.copyfile(str(files("tzdata") / "zoneinfo" / "Asia" / "Tokyo"), tmp_path / "Europe" / "Rome")
    try:
        zoneinfo.reset_tzpath([tmp_path])
        assert datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Rome")).utcoffset() == timedelta(hours=9)
        assert first("0 9 * * *", "Europe/Rome", NOW_MS) == NOW_MS + 8 * 3_600_000
    finally:
        zoneinfo.reset_tzpath()
        ZoneInfo.clear_cache()


# --- against a clock that is watched second by second


class Watched(NamedTuple):
    """A cron expression, what its fields allow, and a stretch of time to watch."""

    cron: str
    seconds: set[int]
    minutes: set[int]
    hours: set[int]
    days: set[int]
    weekdays: set[int]
    either: bool
    zone: str
    begin_s: int
    end_s: int

    def matches(self, wall: datetime) -> bool:
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        on_time = wall.second in self.seconds and wall.minute in self.minutes and wall.hour in self.hours
        return on_time and (day or weekday if self.either else day and weekday)


CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00Z", "2026-10-25T01:00Z"),
    "America/New_York": ("2026-03-08T07:00Z", "2026-11-01T06:00Z"),
    "Australia/Lord_Howe": ("2026-04-04T15:00Z", "2026-10-03T15:30Z"),
    "Asia/Beirut": ("2026-03-28T22:00Z", "2026-10-24T21:00Z"),
    "Antarctica/Troll": ("2026-03-29T01:00Z", "2026-10-25T01:00Z"),
    "America/Sao_Paulo": ("2018-02-18T02:00Z", "2018-11-04T03:00Z"),
    "Pacific/Apia": ("2011-12-30T10:00Z", "2012-03-31T14:00Z"),
    "Asia/Pyongyang": ("2015-08-14T15:00Z", "2018-05-04T15:00Z"),
}


@st.composite
def field(draw: st.DrawFn, low: int, high: int) -> tuple[str, set[int]]:
    everything = range(low, high + 1)
    kind = draw(st.sampled_from(["star", "step", "range", "list"]))
    if kind == "star":
        return "*", set(everything)
    if kind == "step":
        step = draw(st.integers(2, 20))
        return f"*/{step}", set(everything[::step])
    if kind == "range":
        begin, end = sorted(draw(st.tuples(st.integers(low, high), st.integers(low, high))))
        return f"{begin}-{end}", set(range(begin, end + 1))
    chosen = draw(st.sets(st.integers(low, high), min_size=1, max_size=5))
    return ",".join(map(str, chosen)), chosen


@st.composite
def watched(draw: st.DrawFn) -> Watched:
    """Around a change of a clock; with seconds an hour or two of it, else two days."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    change_s = moment(draw(st.sampled_from(CHANGES[zone]))) // 1000
    by_second = draw(st.booleans())
    second = draw(field(0, 59)) if by_second else ("0", {0})
    minute, hour, day, weekday = draw(st.tuples(field(0, 59), field(0, 23), field(1, 31), field(0, 6)))
    day, weekday = draw(st.sampled_from([(("*", set(range(1, 32))), ("*", set(range(7)))), (day, weekday)]))
    fields = [second, minute, hour, day, ("*", set()), weekday]
    cron = " ".join(text for text, _ in fields[not by_second :])
    either = not day[0].startswith("*") and not weekday[0].startswith("*")
    around_s = 2 * 3600 if by_second else 30 * 3600
    allowed = (second[1], minute[1], hour[1], day[1], weekday[1])
    return Watched(cron, *allowed, either, zone, change_s - around_s, change_s + around_s)


def fired(case: Watched) -> Iterator[int]:
    """The instants of the stretch, in ms: the clock is watched, and never believed when it goes back."""
    zone = ZoneInfo(case.zone)
    step = timedelta(seconds=1 if len(case.cron.split()) == 6 else 60)
    reached = datetime.fromtimestamp(case.begin_s, zone).replace(tzinfo=None)
    for at_s in range(case.begin_s, case.end_s, step.seconds):
        shown = datetime.fromtimestamp(at_s, zone).replace(tzinfo=None)
        passed = (reached + step * n for n in range(1, 1 + max((shown - reached) // step, 0)))
        if any(case.matches(wall) for wall in passed):
            yield at_s * 1000
        reached = max(reached, shown)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(watched(), st.data())
def test_every_expression_fires_as_a_clock_that_is_watched(case: Watched, data: st.DataObject) -> None:
    expected = [*fired(case)]
    series = Series(cron=case.cron, zone=case.zone)
    found: list[int | None] = []
    tick_ms = following(series, case.begin_s * 1000)
    while tick_ms is not None and tick_ms < case.end_s * 1000:
        found.append(tick_ms)
        tick_ms = following(series, tick_ms)
    assert found == expected
    if expected:
        now_ms = data.draw(st.integers(expected[0], case.end_s * 1000 - 1))
        passed = [one for one in expected if one <= now_ms]
        next_ms = next((one for one in expected if one > now_ms), tick_ms)
        assert catch_up(series, expected[0], now_ms) == (passed[-1], next_ms)


# --- gaps


def test_a_fixed_gap_keeps_its_grid_however_long_nobody_looked() -> None:
    series = Series(every_ms=1000)
    assert following(series, NOW_MS) == NOW_MS + 1000
    late_ms = NOW_MS + 365 * DAY_MS + 1
    assert catch_up(series, NOW_MS, late_ms) == (late_ms - 1, late_ms + 999)
    assert catch_up(series, NOW_MS, NOW_MS) == (NOW_MS, NOW_MS + 1000)
    assert catch_up(series, NOW_MS, NOW_MS + 1000) == (NOW_MS + 1000, NOW_MS + 2000)


def test_a_cron_that_fires_every_second_catches_up_with_a_century_in_one_step() -> None:
    late_ms = NOW_MS + HORIZON_MAX_MS + 1
    series = Series(cron="* * * * * *", zone="Europe/Berlin")
    assert catch_up(series, NOW_MS, late_ms) == (late_ms - 1, late_ms + 999)


def test_the_last_tick_is_never_before_the_one_at_hand() -> None:
    """A tick that was moved stands on no grid."""
    moved_ms = NOW_MS + 5000
    assert catch_up(Series(cron="0 0 * * *"), moved_ms, moved_ms + 1) == (moved_ms, NOW_MS + DAY_MS)


def test_growing_gaps_are_exact_and_rounded_up_to_a_millisecond() -> None:
    found = [*ticks(Series(every_ms=1001, backoff=1.5, times_left=5), NOW_MS)]
    assert [later - earlier for earlier, later in pairwise(found)] == [1001, 1502, 2253, 3380]
    assert stepped(Series(every_ms=10_000, backoff=1.0009), NOW_MS, NOW_MS + 10_000).every_ms == 10_009


def test_the_smallest_growth_is_growth() -> None:
    assert stepped(Series(every_ms=1000, backoff=1.0001), NOW_MS, NOW_MS + 1000).every_ms == 1001


def test_a_gap_never_grows_beyond_the_horizon() -> None:
    series = Series(every_ms=HORIZON_MAX_MS - 1, backoff=9999.0)
    assert stepped(series, 0, HORIZON_MAX_MS - 1).every_ms == HORIZON_MAX_MS


@given(
    st.integers(1000, 10**6),
    st.integers(10_001, 99_999_999).map(lambda factor: factor / 10_000),
    st.integers(0, 10**8),
)
def test_catching_up_with_growing_gaps_ends_where_walking_does(every_ms: int, backoff: float, late_ms: int) -> None:
    series = Series(every_ms=every_ms, backoff=backoff)
    walked = ticks(series, NOW_MS)
    last_ms, next_ms = next(walked), next(walked)
    while next_ms <= NOW_MS + late_ms:
        last_ms, next_ms = next_ms, next(walked)
    assert catch_up(series, NOW_MS, NOW_MS + late_ms) == (last_ms, next_ms)


def test_a_series_ends_with_its_last_delivery() -> None:
    assert [*ticks(Series(every_ms=1000, times_left=3), NOW_MS)] == [NOW_MS, NOW_MS + 1000, NOW_MS + 2000]
    assert [*ticks(Series(cron="0 0 * * *", times_left=1), NOW_MS)] == [NOW_MS]


@pytest.mark.parametrize(
    ("missed", "begins"),
    [("all", [-2500, -1500, -500]), ("latest", [-500, 500, 1500]), ("none", [500, 1500, 2500])],
)
def test_what_has_passed_is_made_up_for_as_the_series_asks(missed: str, begins: list[int]) -> None:
    series = Series(every_ms=1000, missed=missed)
    assert [*islice(deliveries(series, NOW_MS - 2500, NOW_MS), 3)] == [NOW_MS + ms for ms in begins]


@pytest.mark.parametrize("missed", ["all", "latest", "none"])
def test_a_tick_that_no_other_has_followed_is_not_behind(missed: str) -> None:
    series = Series(every_ms=1000, missed=missed)
    assert next(deliveries(series, NOW_MS - 999, NOW_MS)) == NOW_MS - 999


@pytest.mark.parametrize(("missed", "begins"), [("latest", [-1000, 1000, 5000]), ("none", [1000, 5000, 13_000])])
def test_gaps_have_grown_with_the_ticks_that_were_left_out(missed: str, begins: list[int]) -> None:
    series = Series(every_ms=1000, backoff=2.0, missed=missed)
    assert [*islice(deliveries(series, NOW_MS - 2000, NOW_MS), 3)] == [NOW_MS + ms for ms in begins]


def test_only_growing_gaps_change_a_series() -> None:
    series = Series(every_ms=1000, times_left=3)
    assert stepped(series, NOW_MS, NOW_MS + 1000) is series
