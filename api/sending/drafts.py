"""From what a client wrote to a record that can be appended.

The schedule object becomes directive headers, and `delayline.schedule.verdict` judges them: the same function that
reads the record again when it is ingested, so that the API cannot mean anything else by a directive than the log
does.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from api.bodies.requests import HeaderIn, MessageIn, ScheduleIn, TimeIn
from api.http.problems import (
    INVALID_BODY,
    INVALID_SCHEDULE,
    LIMIT_EXCEEDED,
    NOT_SUPPORTED,
    TOPIC_NOT_ENABLED,
    Refusal,
    refusal_of_schedule,
    refused,
)
from delayline.errors import Bug
from delayline.records.headers import ATTEMPT, ECHOED, IDEMPOTENCY, RESERVED, SENT
from delayline.records.message import Header
from delayline.records.record import encode_bytes, encode_headers
from delayline.schedule.directives import REPEATING, directive_names
from delayline.schedule.lookalikes import Lookalike, lookalike
from delayline.schedule.rules import Rules
from delayline.schedule.terms import Idempotency
from delayline.schedule.unheeded import UnheededNames, Why
from delayline.schedule.verdict import Immediate, Invalid, Op, Schedule, Verdict, read_directives
from delayline.times import TEXT_CHARS_MAX

KEY_BYTES_MAX = 4096
"""Keys are names. The hash that chooses the partition runs in Python: 0.3 ms for this much."""

HEADERS_MAX = 256
"""Per message. Tracing and routing need a dozen; ingest walks every one of them."""

DELAYS_REMEMBERED = 1024
"""Producers use a handful of delays, and reading one anew takes twenty times as long as finding it."""

_DELAY_MS = b"delay-ms"
_DELIVER_AT = b"deliver-at"
_ON_CONFLICT = b"delay-on-conflict"
_TIMES = {"delay": b"delay", "delay_ms": _DELAY_MS, "level": b"delay-level", "deliver_at": _DELIVER_AT}
_OTHERS = {
    "cron": b"delay-cron",
    "time_zone": b"delay-time-zone",
    "every": b"delay-every",
    "times": b"delay-times",
    "backoff": b"delay-backoff",
    "missed": b"delay-missed",
    "expire_at": b"delay-expire-at",
    "ttl": b"delay-ttl",
    "own_id": b"delay-id",
    "on_conflict": _ON_CONFLICT,
    "retry": b"delay-retry",
}
"""Fields of a schedule and the directives of the same meaning."""

_FIELD_OF = {name.decode(): field for field, name in (_TIMES | _OTHERS).items()}
_others_of = attrgetter(*_OTHERS)
_NO_OTHERS = (None,) * len(_OTHERS)
_NO_DELAY: Header = (_DELAY_MS, b"0")

_NOT_CHECKED = "the idempotency-key of a message without a delay cannot be checked: it goes straight to its topic"

_STRING = msgspec.json.Decoder(str)
_QUOTE = b'"'


class Draft(NamedTuple):
    """A message ready to be appended; without directives it goes straight to its topic."""

    key: bytes | None
    partition: int | str | None
    body: bytes
    directives: Sequence[Header] = ()
    own_id: str | None = None
    idempotency: Idempotency | None = None
    repeats: bool = False
    """Whether it is delivered again and again."""

    @property
    def is_conditional(self) -> bool:
        """Whether it wants a name for itself, which its owner decides."""
        return self.own_id is not None or self.idempotency is not None

    @property
    def replaces(self) -> bool:
        """Whether it ends the message that has its own id."""
        return (_ON_CONFLICT, b"replace") in self.directives

    @property
    def place_key(self) -> bytes | None:
        """What chooses the partition. Without a key it is the own id, or the idempotency key: names are unique in
        their shard, and so they are in the topic."""
        if self.key is not None:
            return self.key
        name = self.own_id if self.own_id is not None or self.idempotency is None else self.idempotency.key
        return None if name is None else name.encode()


class ScheduleValidator:
    """What a schedule object means under the rules of this installation."""

    def __init__(self, rules: Rules, horizon_max_ms: int) -> None:
        self._rules = rules
        self.aliases = rules.aliases
        self._horizon_max_ms = horizon_max_ms
        self._remembered = lru_cache(DELAYS_REMEMBERED)(self._delay)

    def directives(
        self, schedule: ScheduleIn, now_ms: int, default: Callable[[], Sequence[Header]] = tuple
    ) -> Sequence[Header]:
        """The headers that enter the log; none where no delay was asked for. `default` is used where the schedule has
        no time. Raises Refusal."""
        others = _others_of(schedule)
        if others == _NO_OTHERS:
            time = self.time(schedule, now_ms)
            return () if time is None else (time,)
        named = zip(_OTHERS.values(), others, strict=True)
        headers: list[Header] = [(name, str(value).encode()) for name, value in named if value is not None]
        if any(getattr(schedule, field) is not None for field in _TIMES):
            headers.insert(0, self.time(schedule, now_ms) or _NO_DELAY)
        elif schedule.cron is None and schedule.every is None:
            headers[:0] = default()
        verdict = _schedule_of(read_directives(headers, now_ms, self._rules, self._horizon_max_ms))
        return () if isinstance(verdict, Immediate) else headers

    def time(self, schedule: TimeIn, now_ms: int) -> Header | None:
        """The one header with the time; None where no delay was asked for. Raises Refusal.

        However a delay is written, the log gets `delay-ms`: its meaning depends neither on the level table of a
        configuration nor on the grammar of durations. A moment stays as it is written.
        """
        if schedule.deliver_at is not None:
            written = _written(schedule.delay, schedule.delay_ms, schedule.level, schedule.deliver_at)
            _schedule_of(read_directives(written, now_ms, self._rules, self._horizon_max_ms))
            return _DELIVER_AT, str(schedule.deliver_at).encode()
        delay = schedule.delay
        is_short = delay is None or len(delay) <= TEXT_CHARS_MAX  # else the memory would hold as much as clients like
        return (self._remembered if is_short else self._delay)(delay, schedule.delay_ms, schedule.level)

    def schedule(self, directives: Sequence[Header], accepted_at_ms: int) -> Schedule:
        """What ingest will make of a message with these directives that is accepted at that moment."""
        verdict = _schedule_of(read_directives(directives, accepted_at_ms, self._rules))
        return Schedule(accepted_at_ms) if isinstance(verdict, Immediate) else verdict

    def _delay(self, delay: str | None, delay_ms: int | None, level: int | None) -> Header | None:
        """A delay means the same at any moment; judged at moment 0, its due time is the delay itself. Raises
        Refusal."""
        if (delay, delay_ms, level) == (None, None, None):
            raise refused(INVALID_SCHEDULE, "/schedule", "missing-field", "a schedule needs a time, such as `delay`")
        written = _written(delay, delay_ms, level)
        verdict = _schedule_of(read_directives(written, 0, self._rules, self._horizon_max_ms))
        return None if isinstance(verdict, Immediate) else (_DELAY_MS, b"%d" % verdict.due_ms)


def _written(*times: str | int | None) -> list[Header]:
    """The fields of a schedule, as directives."""
    return [
        (name, str(time).encode()) for name, time in zip(_TIMES.values(), times, strict=False) if time is not None
    ]


def _is_timeless(schedule: ScheduleIn) -> bool:
    """Whether it means the same at any moment: nothing but a delay."""
    return schedule.deliver_at is None and _others_of(schedule) == _NO_OTHERS


_QUOTED = re.compile(r"`([a-z-]+)`")


def _as_field(directive: re.Match[str]) -> str:
    """A directive, named as the field of the same meaning."""
    return f"`{_FIELD_OF.get(directive[1], directive[1])}`"


def _schedule_of(verdict: Verdict) -> Schedule | Immediate:
    """Raises Refusal for the other verdicts."""
    match verdict:
        case Invalid(_, directive):
            field = _FIELD_OF.get(directive)
            if field is None:
                raise refusal_of_schedule(verdict, "/headers")
            detail = f"`{field}`: {_QUOTED.sub(_as_field, verdict.detail)}"
            raise refusal_of_schedule(replace(verdict, detail=detail), f"/schedule/{field}")
        case Op():
            raise Bug("a schedule has no field for an operation")
        case _:
            return verdict


class _Headers(NamedTuple):
    """What a message's headers and its schedule become: encoded, and what of it a draft contains. `unheeded` are
    names that are counted for each message that has them."""

    topic: str
    given: Sequence[HeaderIn] | None
    schedule: ScheduleIn | None
    headers: Sequence[Header]
    encoded: bytes
    directives: Sequence[Header]
    own_id: str | None
    repeats: bool
    unheeded: Sequence[tuple[str, Why]]

    def are_of(self, topic: str, message: MessageIn) -> bool:
        """Whether this message would get the same, at the same moment."""
        return self.schedule == message.schedule and self.given == message.headers and self.topic == topic

    @property
    def is_timeless(self) -> bool:
        """Whether it would get the same at any moment."""
        return self.schedule is None or _is_timeless(self.schedule)


class Drafter:
    """Checks messages and encodes them. For the event loop's thread. Hot: once per message (bench/http.py).

    Messages of a batch mostly have one schedule, and often the same headers. The drafter compares them with those of
    the message before, which takes 0.2 us; it makes them anew where they differ, which takes 10. It keeps one
    message's headers, so no more than a body may have."""

    def __init__(
        self,
        validator: ScheduleValidator,
        rules_for: Callable[[str], Rules],
        is_delay_enabled: Callable[[str], bool],
        unheeded: UnheededNames,
        *,
        refuse_unknown: bool = False,
    ) -> None:
        self._validator = validator
        self._rules_for = rules_for
        self._is_delay_enabled = is_delay_enabled
        self._unheeded = unheeded
        self._refuse_unknown = refuse_unknown
        self._refused_names = directive_names(validator.aliases) | RESERVED | {SENT}
        self._last: _Headers | None = None
        self._last_at_ms = 0

    def draft(self, topic: str, message: MessageIn, now_ms: int, idempotency: Idempotency | None = None) -> Draft:
        """Raises Refusal."""
        key = _bytes_of(message.key, message.key_base64, "/key")
        if key is not None and len(key) > KEY_BYTES_MAX:
            raise refused(LIMIT_EXCEEDED, "/key", "too-long", f"a key has at most {KEY_BYTES_MAX} bytes")
        value = _bytes_of(message.value, message.value_base64, "/value")
        headers = self._headers_of(topic, message, now_ms)
        encoded = headers.encoded if idempotency is None else _with_key(headers, idempotency)
        return Draft(
            key,
            message.partition,
            encode_bytes(key) + encode_bytes(value) + encoded,
            headers.directives,
            headers.own_id,
            idempotency,
            headers.repeats,
        )

    def _headers_of(self, topic: str, message: MessageIn, now_ms: int) -> _Headers:
        last = self._last
        if last is None or not last.are_of(topic, message) or not (now_ms == self._last_at_ms or last.is_timeless):
            last = self._last = self._made(topic, message, now_ms)
        else:
            for name, why in last.unheeded:
                self._unheeded.note(topic, name, why)
        self._last_at_ms = now_ms
        return last

    def _made(self, topic: str, message: MessageIn, now_ms: int) -> _Headers:
        """Raises Refusal."""
        schedule = message.schedule
        headers, unheeded = self._headers(topic, message.headers or ())
        directives = self._directives(topic, message, now_ms)
        headers += directives
        return _Headers(
            topic,
            message.headers,
            schedule,
            headers,
            encode_headers(headers),
            directives,
            None if schedule is None else schedule.own_id,
            not REPEATING.isdisjoint([name for name, _ in directives]),
            unheeded,
        )

    def _directives(self, topic: str, message: MessageIn, now_ms: int) -> Sequence[Header]:
        schedule = message.schedule
        if schedule is None:
            return self._default(topic)
        is_retry = schedule.retry is not None
        default = partial(_attempts, message.headers or ()) if is_retry else partial(self._default, topic)
        directives = self._validator.directives(schedule, now_ms, default)
        if directives and not self._is_delay_enabled(topic):
            raise Refusal(TOPIC_NOT_ENABLED, f"delay.topics does not name {topic!r}")
        return directives

    def _default(self, topic: str) -> Sequence[Header]:
        """A default delay enters the log like any other: it holds even before the log's own rules do."""
        delay_ms = self._rules_for(topic).default_delay_ms
        return [(_DELAY_MS, b"%d" % delay_ms)] if delay_ms and self._is_delay_enabled(topic) else ()

    def _headers(self, topic: str, given: Sequence[HeaderIn]) -> tuple[list[Header], list[tuple[str, Why]]]:
        """The headers, and the names among them that are counted."""
        if len(given) > HEADERS_MAX:
            raise refused(LIMIT_EXCEEDED, "/headers", "too-many", f"a message has at most {HEADERS_MAX} headers")
        headers: list[Header] = []
        unheeded: list[tuple[str, Why]] = []
        for index, header in enumerate(given):
            name = header.name.encode()
            if name in self._refused_names:
                raise _reserved(index, header.name)
            if (found := lookalike(name, self._validator.aliases)) is not None:
                unheeded.append((found.name, self._check_lookalike(topic, index, found)))
            if name not in ECHOED:
                headers.append((name, _header_value(index, header)))
        return headers, unheeded

    def _check_lookalike(self, topic: str, index: int, found: Lookalike) -> Why:
        """A name that is no directive and was most likely meant as one. Raises Refusal, or counts it."""
        takes_delays = self._is_delay_enabled(topic)
        if self._refuse_unknown or (takes_delays and found.nearest is not None):
            detail = f"{found.sentence}. `schedule` is the way to delay a message"
            raise refused(INVALID_BODY, f"/headers/{index}/name", found.likeness, detail)
        why = Why.NAME if takes_delays else Why.TOPIC
        self._unheeded.note(topic, found.name, why)
        return why


def _with_key(headers: _Headers, idempotency: Idempotency) -> bytes:
    """Encoded, with the idempotency key. Raises Refusal."""
    if not headers.directives:
        raise Refusal(NOT_SUPPORTED, _NOT_CHECKED)
    value = f"{idempotency.digest} {idempotency.key}".encode()
    return encode_headers([*headers.headers, (IDEMPOTENCY, value)])


def _attempts(given: Sequence[HeaderIn]) -> list[Header]:
    """What a retry reads of the headers that a consumer echoes."""
    named = [(index, header) for index, header in enumerate(given) if header.name == ATTEMPT.decode()]
    return [(ATTEMPT, _header_value(index, header)) for index, header in named]


def _reserved(index: int, name: str) -> Refusal:
    detail = f"`{name}` is a directive or a header of Delayline's own; `schedule` is the way to delay a message"
    return refused(INVALID_BODY, f"/headers/{index}/name", "reserved", detail)


def _header_value(index: int, header: HeaderIn) -> bytes | None:
    if header.value is None:
        return header.value_base64
    if header.value_base64 is not None:
        raise _both(f"/headers/{index}/value")
    return header.value.encode()


def _bytes_of(given: Raw | UnsetType, base64: bytes | None, pointer: str) -> bytes | None:
    """The bytes that a key or value stands for. A string without escapes is its own encoding."""
    if given is UNSET:
        return base64
    text = bytes(given)
    if text == b"null":
        return base64
    if base64 is not None:
        raise _both(pointer)
    if text[:1] != _QUOTE:
        return _compact(text, pointer)
    return text[1:-1] if b"\\" not in text else _STRING.decode(text).encode()


def _compact(text: bytes, pointer: str) -> bytes:
    try:
        return msgspec.json.format(text, indent=-1)
    except RecursionError as error:
        raise refused(INVALID_BODY, pointer, "too-deep", "nested too deeply") from error


def _both(pointer: str) -> Refusal:
    name = pointer.rpartition("/")[2]
    return refused(INVALID_BODY, pointer, "contradiction", f"give `{name}` or `{name}_base64`, not both")
