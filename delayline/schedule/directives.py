"""The directives by name, and what each one's value must be: a function per header, from text to what it means.

Each reads a value's text and raises MalformedDirective, whose sentence names what is wrong and what would be
right. `delayline.schedule.verdict` checks directives that are sent together. Page: docs/directives.md.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import chain

from delayline.errors import MalformedDirective, MalformedMessageId
from delayline.records.message import MessageId
from delayline.schedule.recurrence import check_cron, check_time_zone, parse_period_ms
from delayline.times import MOMENT_MAX_MS, TEXT_CHARS_MAX, parse_duration_ms, parse_moment_ms

OWN_ID_BYTES_MAX = 256
KEPT_MAX = 2**53
"""Of figures that stay with a message, in formats that have 64 bits or JSON for them. Due times have the horizon."""

GROUP_CHARS_MAX = 178
"""A consumer group's retry topic is `<ns>.retry.<group>`, a namespace has at most 64 characters, and a topic's name
at most 249."""

_INTEGER = re.compile(rf"[0-9]{{1,{TEXT_CHARS_MAX}}}")
_SIGNED_INTEGER = re.compile(rf"-?{_INTEGER.pattern}")
_FACTOR = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})?")
_GROUP = re.compile(r"[a-zA-Z0-9._-]{1,178}")


def _integer(text: str, pattern: re.Pattern[str] = _INTEGER) -> int:
    if not pattern.fullmatch(text):
        raise MalformedDirective(f"expected an integer in decimal digits{_why_no_integer(text)}")
    return int(text)


def _why_no_integer(text: str) -> str:
    if re.fullmatch(r"-[0-9]+", text):
        return ": it cannot be negative"
    if re.fullmatch(r"-?[0-9]*[.,][0-9]+", text):
        return ": it has no fraction"
    if text.isdecimal() and len(text) > TEXT_CHARS_MAX:
        return f": longer than {TEXT_CHARS_MAX} digits"
    return ": it has no unit" if re.fullmatch(r"[0-9]+ *[a-zA-Z]+", text) else ""


def signed_integer(text: str) -> int:
    return _integer(text, _SIGNED_INTEGER)


def _positive_duration(text: str) -> int:
    duration_ms = parse_duration_ms(text)
    if duration_ms == 0:
        raise MalformedDirective("expected a duration above zero")
    return duration_ms


def _count(text: str) -> int:
    if (count := _integer(text)) < 1:
        raise MalformedDirective("expected at least 1")
    return count


def _kept(read: Callable[[str], int], most: int = KEPT_MAX) -> Callable[[str], int]:
    def check(text: str) -> int:
        if (figure := read(text)) > most:
            raise MalformedDirective("too large" if most == KEPT_MAX else "expected a moment before the year 10000")
        return figure

    return check


def _factor(text: str) -> float:
    if not _FACTOR.fullmatch(text) or float(text) <= 1:
        raise MalformedDirective("expected a factor above 1, such as 2 or 1.5")
    return float(text)


def _one_of(*choices: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in choices:
            raise MalformedDirective(f"expected {' or '.join(choices)}")
        return text

    return check


def _at_most(bytes_max: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if len(text.encode()) > bytes_max:
            raise MalformedDirective(f"longer than {bytes_max} bytes")
        return text

    return check


def _own_id(text: str) -> str:
    """What looks like a message id could not be distinguished from one in `delay-ref`."""
    _at_most(OWN_ID_BYTES_MAX)(text)
    if _message_id(text) is not None:
        raise MalformedDirective("looks like a message id")
    return text


def _ref(text: str) -> MessageId | str:
    return _message_id(text) or _own_id(text)


def _message_id(text: str) -> MessageId | None:
    try:
        return MessageId.parse(text)
    except MalformedMessageId:
        return None


def _group(text: str) -> str:
    if not _GROUP.fullmatch(text):
        raise MalformedDirective(f"expected a consumer group: 1 to {GROUP_CHARS_MAX} of a-z A-Z 0-9 . _ -")
    return text


_CHECKS: Mapping[bytes, Callable[[str], object]] = {
    b"delay-ms": _integer,
    b"delay": parse_duration_ms,
    b"deliver-at": parse_moment_ms,
    b"delay-level": signed_integer,
    b"delay-id": _own_id,
    b"delay-on-conflict": _one_of("keep", "replace"),
    b"delay-expire-at": _kept(parse_moment_ms, MOMENT_MAX_MS),
    b"delay-ttl": _kept(_positive_duration),
    b"delay-cron": check_cron,
    b"delay-time-zone": check_time_zone,
    b"delay-every": _kept(parse_period_ms),
    b"delay-times": _kept(_count),
    b"delay-backoff": _factor,
    b"delay-missed": _one_of("all", "latest", "none"),
    b"delay-op": _one_of("cancel", "reschedule"),
    b"delay-ref": _ref,
    b"delay-retry": _group,
}

REPEATING = frozenset({b"delay-cron", b"delay-every"})
"""A message with one of them is delivered again and again."""

_ALIAS_CHECKS: Mapping[str, Mapping[bytes, Callable[[str], object]]] = {
    "rocketmq": dict.fromkeys((b"DELAY", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TIMER_DELIVER_MS"), str),
    "rabbitmq": {b"x-delay": signed_integer},
    "etf1": {b"scheduler-epoch": _integer, b"scheduler-target-topic": str, b"scheduler-target-key": str},
}


@lru_cache
def checks_of(aliases: tuple[str, ...]) -> Mapping[bytes, Callable[[str], object]]:
    """What is asked of each directive's value, with those of the given alias families."""
    return dict(chain(_CHECKS.items(), *(_ALIAS_CHECKS[family].items() for family in aliases)))


def directive_names(aliases: tuple[str, ...]) -> frozenset[bytes]:
    """The header names that `read_directives` looks at, with those of the given alias families."""
    return frozenset(checks_of(aliases))
