"""Durations and moments as text: one grammar for directives, settings, the HTTP API and the command line.

    duration   `90s`, `1h30m`, `1.5d`: numbers with ms s m h d w, added up; a day is 86,400 s
               `PT1H30M`, `P2W`: ISO 8601 without years and months, whose length depends on a calendar
    moment     epoch milliseconds in decimal, or RFC 3339 with an offset

Everything is computed in integers and exact fractions. What is finer than a millisecond is rounded up, once, at the
end: a message may be late by less than a millisecond, never early.
"""

import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from delayline.errors import MalformedDirective

TEXT_CHARS_MAX = 64
"""No duration or moment that means anything is longer; it also bounds the work that a sender can ask for."""

SECONDS_BELOW_MS = 10**11
"""Epoch milliseconds below this (March 1973) are seconds by mistake: read as seconds they reach the year 5138."""

MOMENT_MAX_MS = 253_402_300_799_999
"""The last moment of the year 9999, and so of RFC 3339: nothing is due later, whatever a directive asks for."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d|w))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_ISO_NUMBER = r"([0-9]+(?:[.,][0-9]+)?)"
_ISO_DURATION = re.compile(
    "P(?=[0-9T])(?:N W)?(?:N D)?(?:T(?=[0-9])(?:N H)?(?:N M)?(?:N S)?)?".replace("N ", _ISO_NUMBER), re.ASCII
)
_ISO_UNITS_MS = (_UNITS_MS["w"], _UNITS_MS["d"], _UNITS_MS["h"], _UNITS_MS["m"], _UNITS_MS["s"])
_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DIGITS = re.compile(r"[0-9]+")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration_ms(text: str) -> int:
    """Milliseconds, the sum of all parts rounded up. Raises MalformedDirective."""
    _check_length(text)
    if _DURATION.fullmatch(text):
        return _ceil(sum(_exact(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))
    if found := _ISO_DURATION.fullmatch(text):
        return _ceil(_iso_duration(found.groups()))
    why = _why_no_duration(text)
    raise MalformedDirective("expected a duration such as 90s, 1h30m or PT1H" + (f": {why}" if why else ""))


_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)?")
_WITH_UNIT = re.compile(r"[0-9]\s*([^\W\d_]+)")
_YEARS = re.compile(r"y|yrs?|years?|mo|mon|months?", re.IGNORECASE)
_ISO_YEARS = re.compile(r"P(?:[0-9.,]+[WD])*[0-9.,]+[YM]", re.IGNORECASE)


def _why_no_duration(text: str) -> str:
    """What is wrong with it, where that is one of the likely mistakes."""
    if text.startswith("-"):
        return "it cannot be negative"
    if _NUMBER.fullmatch(text):
        return "the unit is missing, one of ms s m h d w"
    units = _WITH_UNIT.findall(text)
    if _ISO_YEARS.match(text) or any(_YEARS.fullmatch(unit) for unit in units):
        return "years and months have no fixed length, write it in days"
    wrong = [] if text[:1] in "Pp" else [unit for unit in units if unit not in _UNITS_MS]
    if wrong:
        return f"`{wrong[0]}` is no unit, the units are ms s m h d w"
    return "write it without blanks" if any(map(str.isspace, text)) else ""


def _exact(number: str) -> Fraction | int:
    return Fraction(number) if "." in number else int(number)


def _iso_duration(numbers: tuple[str | None, ...]) -> Fraction | int:
    given = [(number.replace(",", "."), unit) for number, unit in zip(numbers, _ISO_UNITS_MS, strict=True) if number]
    if any("." in number for number, _ in given[:-1]):
        raise MalformedDirective("only the last part of an ISO 8601 duration may have a fraction")
    return sum(_exact(number) * unit for number, unit in given)


def parse_moment_ms(text: str) -> int:
    """Epoch milliseconds UTC, fractions of a millisecond rounded up. Raises MalformedDirective."""
    _check_length(text)
    if _DIGITS.fullmatch(text):
        return _epoch_ms(int(text))
    if found := _RFC_3339.fullmatch(text):
        return _rfc_3339_ms(found)
    expected = "expected epoch milliseconds or RFC 3339 with an offset, such as 2026-01-01T00:00:30Z"
    why = _why_no_moment(text)
    raise MalformedDirective(expected + (f": {why}" if why else ""))


def _why_no_moment(text: str) -> str:
    if text.startswith("-"):
        return "nothing is due before 1970"
    if _NUMBER.fullmatch(text):
        return "milliseconds are a whole number"
    return "the offset is missing, Z or one such as +01:00" if _RFC_3339.fullmatch(f"{text}Z") else ""


def _epoch_ms(moment_ms: int) -> int:
    if moment_ms < SECONDS_BELOW_MS:
        raise MalformedDirective("looks like seconds; epoch milliseconds are expected")
    return moment_ms


def _rfc_3339_ms(found: re.Match[str]) -> int:
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, sign, offset_hour, offset_minute = found.groups()[6:]
    offset_min = int(offset_hour or 0) * 60 + int(offset_minute or 0)
    if hour > 23 or minute > 59 or second > 60 or int(offset_hour or 0) > 23 or int(offset_minute or 0) > 59:
        raise MalformedDirective("a time of day or an offset that does not exist")
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise MalformedDirective("a date that does not exist") from None
    minutes = (days * 24 + hour) * 60 + minute + (offset_min if sign == "-" else -offset_min)
    if second == 60:
        _check_leap_second(minutes)
    moment_ms = minutes * 60_000 + second * 1000 + _ceil(Fraction(f"0.{fraction or 0}") * 1000)
    if moment_ms < 0:
        raise MalformedDirective("a moment before 1970")
    return moment_ms


def _check_leap_second(minutes: int) -> None:
    """Second 60 exists only at the end of a month in UTC (RFC 3339, 5.7); as in POSIX it is the next day's first."""
    day, minute_of_day = divmod(minutes + 1, 1440)
    ordinal = day + _EPOCH_DAY
    if minute_of_day or not 1 <= ordinal <= date.max.toordinal() or date.fromordinal(ordinal).day != 1:
        raise MalformedDirective("a leap second where there can be none")


def _check_length(text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise MalformedDirective(f"longer than {TEXT_CHARS_MAX} characters")


def _ceil(exact: Fraction | int) -> int:
    return -(-exact.numerator // exact.denominator)


def format_moment(moment_ms: int) -> str:
    """RFC 3339 UTC with milliseconds. Moments outside the years 1 to 9999, which RFC 3339 cannot express, stay a
    decimal number of epoch milliseconds."""
    try:
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
    except OverflowError:
        return str(moment_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_duration(duration_ms: int) -> str:
    """The shortest text in d h m s ms that `parse_duration_ms` reads back; `0s` for nothing."""
    assert duration_ms >= 0, "a duration is never negative"
    parts: list[str] = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, duration_ms = divmod(duration_ms, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
