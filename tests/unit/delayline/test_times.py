"""Durations and moments as text."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.errors import MalformedDirective
from delayline.times import (
    SECONDS_BELOW_MS,
    TEXT_CHARS_MAX,
    format_duration,
    format_moment,
    parse_duration_ms,
    parse_moment_ms,
)

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
NUMBERS = st.from_regex(r"[0-9]{1,5}(\.[0-9]{1,5})?", fullmatch=True, alphabet="0123456789.")


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("0s", 0),
        ("007ms", 7),
        ("1.5d", 129_600_000),
        ("1m1m", 120_000),  # parts add up, in any order
        ("1s1h", 3_601_000),
        ("PT1H", 3_600_000),
        ("P1W2DT3H4M5.5S", 788_645_500),
        ("PT0,5S", 500),
        ("P2W", 1_209_600_000),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "", " 90s", "90s ", "90s\n", "1h 30m", "90", "s", "-1s", "+1s", "1.s", ".5s", "1,5s", "1S", "1M", "1y",
        "1e3s",
        "P", "PT", "P1DT", "PT1", "P1Y", "P1M", "P1Y2D", "pt1h", "PT1M1H", "P1.5DT1H", "-PT1H", "PT1H ", "١s", "PT١S",
        "1h30", "9" * TEXT_CHARS_MAX + "s",
    ],
)  # fmt: skip
def test_anything_but_a_duration_is_refused(text: str) -> None:
    with pytest.raises(MalformedDirective):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["0.1ms", "0.0001s", "PT0.0000001S", "0.3ms0.3ms"])
def test_a_fraction_of_a_millisecond_is_rounded_up_once_at_the_end(text: str) -> None:
    assert parse_duration_ms(text) == 1


@given(st.lists(st.tuples(NUMBERS, st.sampled_from(sorted(UNITS_MS))), min_size=1, max_size=4))
def test_a_sum_is_exact_whatever_its_parts(parts: list[tuple[str, str]]) -> None:
    text = "".join(number + unit for number, unit in parts)
    assert parse_duration_ms(text) == ceil(sum(Fraction(number) * UNITS_MS[unit] for number, unit in parts))


@given(st.integers(0, 10**15))
def test_a_formatted_duration_reads_back_as_itself(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration(duration_ms)) == duration_ms


@given(st.one_of(st.text(max_size=2 * TEXT_CHARS_MAX), st.text("0123456789.,-+:smhdwPTZz", max_size=30)))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(MalformedDirective):
        assert parse_duration_ms(text) >= 0


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1767225630000", 1_767_225_630_000),
        ("2026-01-01T00:00:30Z", 1_767_225_630_000),
        ("2026-01-01t00:00:30z", 1_767_225_630_000),
        ("2026-01-01T05:30:30+05:30", 1_767_225_630_000),
        ("2025-12-31T23:00:30.000-01:00", 1_767_225_630_000),
        ("2026-01-01T00:00:30-00:00", 1_767_225_630_000),
        ("2026-01-01T00:00:29.9991Z", 1_767_225_630_000),  # finer than a millisecond: up, never early
        ("2026-01-01T00:00:29.9990000Z", 1_767_225_629_999),
        ("1970-01-01T00:00:00Z", 0),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2017-01-01T01:59:60.5+02:00", 1_483_228_800_500),
        ("0100000000000", SECONDS_BELOW_MS),
    ],
)
def test_a_moment_is_read_to_the_millisecond(text: str, moment_ms: int) -> None:
    assert parse_moment_ms(text) == moment_ms


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "1767225630", "99999999999", "-1767225630000", "+1767225630000", "1767225630000 ", "1.7e12",
        "2026-01-01", "2026-01-01T00:00:30", "2026-01-01 00:00:30Z", "2026-01-01T00:00Z", "2026-01-01T00:00:30,5Z",
        "2026-01-01T00:00:30.Z", "2026-1-1T00:00:30Z", "2026-01-01T00:00:30+0100", "2026-01-01T00:00:30+24:00",
        "2026-01-01T00:00:30+01:60", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:60Z",
        "2016-12-30T23:59:60Z", "2016-12-31T23:59:60+01:00", "9999-12-31T23:59:60Z", "0001-01-01T00:59:60+02:00",
        "1969-12-31T23:59:59Z", "1970-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z", "٢٠٢٦-01-01T00:00:00Z",
        "2026-01-01T00:00:30Z\n", "1" * (TEXT_CHARS_MAX + 1),
    ],
)  # fmt: skip
def test_anything_but_a_moment_is_refused(text: str) -> None:
    with pytest.raises(MalformedDirective):
        parse_moment_ms(text)


def test_a_number_that_looks_like_seconds_is_refused_with_that_hint() -> None:
    with pytest.raises(MalformedDirective, match="looks like seconds"):
        parse_moment_ms("1767225630")


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9998, 12, 31)),
    st.integers(-1439, 1439),
)
def test_rfc_3339_agrees_with_the_standard_library(naive: datetime, offset_min: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=offset_min)))
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    assert parse_moment_ms(moment.isoformat()) == -(-since_epoch // timedelta(milliseconds=1))


@given(st.integers(SECONDS_BELOW_MS, 10**18))
def test_a_formatted_moment_reads_back_as_itself(moment_ms: int) -> None:
    assert parse_moment_ms(format_moment(moment_ms)) == moment_ms


def test_a_moment_is_written_in_utc_with_milliseconds() -> None:
    assert format_moment(1_767_225_605_000) == "2026-01-01T00:00:05.000Z"


@pytest.mark.parametrize("moment_ms", [10**15, 10**30, -(10**15)])
def test_a_moment_that_rfc_3339_cannot_express_stays_a_number(moment_ms: int) -> None:
    assert format_moment(moment_ms) == str(moment_ms)


@given(st.one_of(st.text(max_size=2 * TEXT_CHARS_MAX), st.text("0123456789.,-+:smhdwPTZz", max_size=30)))
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    with suppress(MalformedDirective):
        assert parse_moment_ms(text) >= 0
