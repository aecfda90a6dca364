"""Directives: from what a producer wrote to when its message is due.

One pure function, `read_directives`, over the whole table: the HTTP API asks it before a message enters the log, and
ingest asks it again about the record that it finds there. It works in three steps:

    1. every header is checked by itself (`delayline.schedule.directives`): text, then its grammar
    2. what stands together is checked (`_check_companions`), and the times must agree (`_agreed_time`)
    3. what is understood but not built yet is refused, never ignored (`_NOT_BUILT`)

Two times agree when they are of one kind and equal: a delay never agrees with a moment, because the sender cannot
know the append time that would make them meet, and the frontend and the log must come to one verdict.
Page: docs/directives.md.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, cast

import msgspec

from delayline.errors import MalformedDirective
from delayline.records.headers import ATTEMPT, ECHOED, RESERVED
from delayline.records.message import Header, MessageId
from delayline.schedule.directives import REPEATING, checks_of, signed_integer
from delayline.schedule.recurrence import first
from delayline.schedule.retry import attempt_of, plan_retry
from delayline.schedule.rules import HORIZON_MAX_MS, Rules
from delayline.schedule.terms import Retry, Series, Terms
from delayline.times import SECONDS_BELOW_MS, format_duration


class Reason(StrEnum):
    """Why a directive is refused. The values are the problem types of the HTTP API (`/problems/<value>`)."""

    INVALID = "invalid-schedule"  # a value that does not parse, or a combination that makes no sense
    CONTRADICTORY = "contradictory-schedule"  # two different due times
    BEYOND_HORIZON = "beyond-horizon"  # due later than delay.horizon_max
    NOT_SUPPORTED = "not-supported"  # understood, not built yet: refused, never ignored


class Schedule(msgspec.Struct, frozen=True):
    """Deliver at `due_ms` (epoch ms UTC); in the past means at once. `terms` are None for most messages."""

    due_ms: int
    terms: Terms | None = None

    @property
    def repeats(self) -> bool:
        return self.terms is not None and self.terms.series is not None

    @property
    def times(self) -> int | None:
        """How often it is delivered; None: without end."""
        series = None if self.terms is None else self.terms.series
        return 1 if series is None else series.times_left

    @property
    def retries(self) -> Retry | None:
        return None if self.terms is None else self.terms.retry


class Immediate(msgspec.Struct, frozen=True):
    """No delay was asked for: the record belongs in the target topic straight away."""


class Op(msgspec.Struct, frozen=True):
    """An operation on a pending message, by its message id or its own id: cancel it, or, where `due_ms` is given,
    deliver it then instead."""

    ref: MessageId | str
    due_ms: int | None = None


class Invalid(msgspec.Struct, frozen=True):
    """A directive that is refused. `directive` is the header it is about; `detail` one sentence for the sender."""

    reason: Reason
    directive: str
    detail: str


Verdict = Schedule | Immediate | Op | Invalid


class _Time(NamedTuple):
    """A time as it was written: a delay, or a moment in epoch ms; not yet the same thing."""

    is_delay: bool
    ms: int


class _Refused(Exception):
    """Ends the reading of a set of directives."""

    def __init__(self, directive: bytes, detail: str, reason: Reason = Reason.INVALID) -> None:
        super().__init__(detail)
        self.verdict = Invalid(reason, directive.decode(), detail)


_NOT_BUILT: Mapping[bytes, str] = {
    b"scheduler-target-topic": "a message is delivered to the topic it was sent to",
    b"scheduler-target-key": "a message keeps the key it was sent with",
}

Values = Mapping[bytes, object]
"""The value of each directive, by header name; a time in ms, an integer, or text."""


def read_directives(
    headers: Sequence[Header], accepted_at_ms: int, rules: Rules, horizon_max_ms: int = HORIZON_MAX_MS
) -> Verdict:
    """The one pure function behind Kafka headers, RocketMQ user properties and the HTTP schedule object.

    `horizon_max_ms` is how far ahead a frontend lets a message be due: its policy at that moment, and no part of the
    rules, so that a message that one process has accepted is never judged again by another's.

    Headers that are no directives are passed over, so all of a record's may be given. Without a word about time the
    rules' default delay holds; `delay-ms: 0` is a word. Never raises for what a client could have written.

    Hot: once per buffered record. One plain `delay-ms` or `deliver-at` is answered here, at a fraction of a
    microsecond, exactly as the long way would; anything odd about it goes the long way.
    """
    if len(headers) == 1:
        name, value = headers[0]
        if value is not None and value.isdigit() and len(value) < 16:
            ms = int(value)
            if name == b"delay-ms":
                if 0 < ms <= horizon_max_ms:
                    return Schedule(accepted_at_ms + ms)
            elif name == b"deliver-at" and SECONDS_BELOW_MS <= ms <= accepted_at_ms + horizon_max_ms:
                return Schedule(ms)
    elif not headers and rules.default_delay_ms:
        return Schedule(accepted_at_ms + rules.default_delay_ms)
    try:
        return _read(headers, accepted_at_ms, rules, horizon_max_ms)
    except _Refused as refused:
        return refused.verdict


def _read(headers: Sequence[Header], accepted_at_ms: int, rules: Rules, horizon_max_ms: int) -> Verdict:
    values = _values(headers, rules)
    time = _agreed_time(values, rules)
    _check_companions(values, time)
    if b"delay-op" in values:
        due_ms = None if time is None else _within_horizon(values, time, accepted_at_ms, horizon_max_ms)
        return Op(cast(MessageId | str, values[b"delay-ref"]), due_ms)
    if b"delay-retry" in values:
        return _retry(cast(str, values[b"delay-retry"]), headers, accepted_at_ms, rules)
    series = _series(values)
    if series is not None and time is None:
        time = _first(series, accepted_at_ms)
    if time is None and rules.default_delay_ms:
        time = _Time(True, rules.default_delay_ms)
    if time is None or (time == _NO_DELAY and series is None):
        _check_built(values)
        if alone := values.keys() & _TERMS:
            raise _Refused(min(alone), "means nothing without a delay")
        return Immediate()
    due_ms = _within_horizon(values, time, accepted_at_ms, horizon_max_ms)
    terms = _terms(values, due_ms, series)
    _check_built(values)
    return Schedule(due_ms, terms)


def _check_built(values: Values) -> None:
    for name, detail in _NOT_BUILT.items():
        if name in values:
            raise _Refused(name, detail, Reason.NOT_SUPPORTED)


def _values(headers: Sequence[Header], rules: Rules) -> Values:
    checks = checks_of(rules.aliases)
    values: dict[bytes, object] = {}
    for name, value in headers:
        if name in RESERVED:
            raise _Refused(name, "a header of Delayline's own, which clients may not send")
        if name in ECHOED or name not in checks:
            continue
        if name in values:
            raise _Refused(name, "given twice")
        try:
            values[name] = checks[name](_text(value))
        except MalformedDirective as error:
            raise _Refused(name, str(error)) from error
    return values


def _text(value: bytes | None) -> str:
    if not value:
        raise MalformedDirective("empty" if value is not None else "null")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedDirective("not UTF-8") from None


# --- the time

_NO_DELAY = _Time(True, 0)


def _agreed_time(values: Values, rules: Rules) -> _Time | None:
    """The one time that all directives mean; None where there is none. The first family has the first word."""
    first: tuple[bytes, _Time] | None = None
    for name, read in _TIMES:
        if (time := read(values, rules)) is None:
            continue
        if first is None:
            first = name, time
        elif time != first[1]:
            raise _Refused(name, f"means another time than `{first[0].decode()}`", Reason.CONTRADICTORY)
    return first[1] if first else None


def _delay(name: bytes) -> Callable[[Values, Rules], _Time | None]:
    return lambda values, _: _Time(True, max(_number(values, name), 0)) if name in values else None


def _moment(name: bytes, unit_ms: int = 1) -> Callable[[Values, Rules], _Time | None]:
    return lambda values, _: _Time(False, _number(values, name) * unit_ms) if name in values else None


def _number(values: Values, name: bytes) -> int:
    value = values[name]
    assert isinstance(value, int), "the check of a time gives a number"
    return value


def _level(values: Values, rules: Rules) -> _Time | None:
    return _of_level(_number(values, b"delay-level"), rules) if b"delay-level" in values else None


def _of_level(level: int, rules: Rules) -> _Time:
    """RocketMQ's Message.getDelayTimeLevel: zero and below is no delay, beyond the table is its last level."""
    return _Time(True, rules.levels_ms[min(level, len(rules.levels_ms)) - 1]) if level > 0 else _NO_DELAY


def _rocketmq(values: Values, rules: Rules) -> _Time | None:
    """RocketMQ's own precedence (HookUtils, TimerMessageStore): a level above zero wins, then TIMER_DELAY_SEC,
    TIMER_DELAY_MS, TIMER_DELIVER_MS; what does not win is never looked at. Nothing above zero: no delay."""
    level = _property(values, b"DELAY")
    if level is not None and level > 0:
        return _of_level(level, rules)
    for name, is_delay, unit_ms in _TIMERS:
        if (number := _property(values, name)) is not None:
            return _Time(is_delay, number * unit_ms) if number > 0 else _NO_DELAY
    return None if level is None else _NO_DELAY


_TIMERS = ((b"TIMER_DELAY_SEC", True, 1000), (b"TIMER_DELAY_MS", True, 1), (b"TIMER_DELIVER_MS", False, 1))


def _property(values: Values, name: bytes) -> int | None:
    if name not in values:
        return None
    try:
        return signed_integer(str(values[name]))
    except MalformedDirective as error:
        raise _Refused(name, str(error)) from error


_TIMES: Sequence[tuple[bytes, Callable[[Values, Rules], _Time | None]]] = (
    (b"delay-ms", _delay(b"delay-ms")),
    (b"delay", _delay(b"delay")),
    (b"deliver-at", _moment(b"deliver-at")),
    (b"delay-level", _level),
    (b"DELAY", _rocketmq),
    (b"x-delay", _delay(b"x-delay")),  # negative on a message that the plugin has delayed already
    (b"scheduler-epoch", _moment(b"scheduler-epoch", 1000)),
)


def _within_horizon(values: Values, time: _Time, accepted_at_ms: int, horizon_max_ms: int) -> int:
    due_ms = accepted_at_ms + time.ms if time.is_delay else time.ms
    if due_ms - accepted_at_ms > horizon_max_ms:
        name = next(name for name in (*_TIME_NAMES, b"delay-cron", b"delay-every") if name in values)
        detail = f"due later than {format_duration(horizon_max_ms)} from now"
        raise _Refused(name, detail, Reason.BEYOND_HORIZON)
    return due_ms


DELAYS = frozenset(
    {b"delay-ms", b"delay", b"delay-level", b"x-delay", b"DELAY", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS"}
)
"""Directives that, alone, give the same for every append time: the time from then on."""

_TIME_NAMES = (*(name for name, _ in _TIMES), *(name for name, _, _ in _TIMERS))

# --- what may stand together

_NEEDS: Mapping[bytes, frozenset[bytes]] = {
    b"delay-on-conflict": frozenset({b"delay-id"}),
    b"delay-time-zone": frozenset({b"delay-cron"}),
    b"delay-times": frozenset({b"delay-cron", b"delay-every"}),
    b"delay-backoff": frozenset({b"delay-every"}),
    b"delay-missed": frozenset({b"delay-cron", b"delay-every"}),
    b"delay-op": frozenset({b"delay-ref"}),
    b"delay-ref": frozenset({b"delay-op"}),
}
"""A directive on the left means nothing without one of those on the right."""


def _check_companions(values: Values, time: _Time | None) -> None:
    for name, others in _NEEDS.items():
        if name in values and others.isdisjoint(values):
            needed = " or ".join(sorted(f"`{other.decode()}`" for other in others))
            raise _Refused(name, f"means nothing without {needed}")
    if b"delay-cron" in values and (time is not None or b"delay-every" in values):
        raise _Refused(b"delay-cron", "a cron expression gives the times; no other may be given")
    if b"delay-retry" in values and len(values) > 1:
        raise _Refused(b"delay-retry", "a retry has its own times; no other directive may be given")
    if b"delay-ttl" in values and b"delay-expire-at" in values:
        raise _Refused(b"delay-ttl", "given beside `delay-expire-at`; one of them is enough")
    if b"delay-op" in values:
        _check_op(values, time)


def _check_op(values: Values, time: _Time | None) -> None:
    is_reschedule = values[b"delay-op"] == "reschedule"
    if is_reschedule != (time is not None):
        raise _Refused(b"delay-op", "reschedule needs a new time" if is_reschedule else "cancel takes no time")
    if others := values.keys() - _OP_NAMES:
        raise _Refused(min(others), "cannot be changed by an operation")


_OP_NAMES = frozenset({b"delay-op", b"delay-ref", *_TIME_NAMES})

# --- what a message asks for beside its time

_TERMS = frozenset({b"delay-id", b"delay-expire-at", b"delay-ttl"})


def _terms(values: Values, due_ms: int, series: Series | None) -> Terms | None:
    expire_at_ms = cast(int | None, values.get(b"delay-expire-at"))
    if expire_at_ms is not None and expire_at_ms <= due_ms:
        raise _Refused(b"delay-expire-at", "not after the due time")
    if series is None and _TERMS.isdisjoint(values):
        return None
    return Terms(
        own_id=cast(str | None, values.get(b"delay-id")),
        replaces=values.get(b"delay-on-conflict") == "replace",
        expire_at_ms=expire_at_ms,
        ttl_ms=cast(int | None, values.get(b"delay-ttl")),
        series=series,
    )


def _retry(group: str, headers: Sequence[Header], accepted_at_ms: int, rules: Rules) -> Schedule:
    """The operator chose the levels: a frontend's horizon does not bound them."""
    try:
        wait_ms, retry = plan_retry(group, attempt_of(headers), rules)
    except MalformedDirective as error:
        raise _Refused(ATTEMPT, str(error)) from error
    return Schedule(accepted_at_ms + wait_ms, Terms(retry=retry))


def _series(values: Values) -> Series | None:
    if REPEATING.isdisjoint(values):
        return None
    return Series(
        cron=cast(str | None, values.get(b"delay-cron")),
        zone=cast(str, values.get(b"delay-time-zone", "UTC")),
        every_ms=cast(int | None, values.get(b"delay-every")),
        backoff=cast(float | None, values.get(b"delay-backoff")),
        times_left=cast(int | None, values.get(b"delay-times")),
        missed=cast(str, values.get(b"delay-missed", "latest")),
    )


def _first(series: Series, accepted_at_ms: int) -> _Time:
    """When a series that names no time begins."""
    if series.cron is None:
        assert series.every_ms is not None, "a series repeats by cron or by a gap"
        return _Time(True, series.every_ms)
    first_ms = first(series.cron, series.zone, accepted_at_ms)
    if first_ms is None:
        raise _Refused(b"delay-cron", "does not fire in the next 50 years")
    return _Time(False, first_ms)
