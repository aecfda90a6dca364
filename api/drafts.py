"""From what a client wrote to a record that can be appended.

The schedule object becomes directive headers, and `delayline.schedule` judges them: the same function that reads the
record again when it is ingested, so that the door cannot mean anything else by a directive than the log does.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from api.problems import (
    INVALID_BODY,
    INVALID_SCHEDULE,
    LIMIT_EXCEEDED,
    NOT_SUPPORTED,
    TOPIC_NOT_ENABLED,
    Refusal,
    refusal_of_schedule,
    refused,
)
from api.schemas import HeaderIn, MessageIn, ScheduleIn
from delayline.headers import ECHOED, RESERVED
from delayline.message import Header
from delayline.record import encode_body
from delayline.rules import Rules
from delayline.schedule import Immediate, Invalid, Op, Schedule, Verdict, directive_names, read_directives

KEY_BYTES_MAX = 4096
"""Keys are names. The hash that chooses the partition runs in Python: 0.3 ms for this much."""

HEADERS_MAX = 256
"""Per message. Tracing and routing need a dozen; ingest walks every one of them."""

_LEVEL = b"delay-level"
_DELAY_MS = b"delay-ms"
_FIELDS = ((b"delay", "delay"), (_DELAY_MS, "delay_ms"), (b"deliver-at", "deliver_at"), (_LEVEL, "level"))
_FIELD_OF = {name.decode(): field for name, field in _FIELDS}

_STRING = msgspec.json.Decoder(str)
_QUOTE = b'"'


class Draft(NamedTuple):
    """A message ready to be appended; without directives it goes straight to its topic."""

    key: bytes | None
    partition: int | None
    body: bytes
    directives: Sequence[Header]


class Judge:
    """What a schedule object means under the rules of this installation."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def directives(self, schedule: ScheduleIn, now_ms: int) -> tuple[Sequence[Header], Schedule | Immediate]:
        """The headers that enter the log, and what they would mean now. Raises Refusal.

        A level is judged as it is written, then replaced by the delay that it stands for: the log does not depend
        on the level table of a configuration.
        """
        written = _written(schedule)
        if not written:
            raise refused(INVALID_SCHEDULE, "/schedule", "missing-field", "a schedule needs a time, such as `delay`")
        verdict = self._judged(written, now_ms)
        return self._resolved(written, schedule), verdict

    def due_ms(self, directives: Sequence[Header], accepted_at_ms: int) -> int:
        """The due time of a message that was accepted at that moment. Raises Refusal where the queue's clock is so
        far from ours that it judges otherwise: the message then ends in the dead-letter topic."""
        match self._judged(directives, accepted_at_ms):
            case Schedule(due_ms):
                return due_ms
            case Immediate():
                return accepted_at_ms

    def _judged(self, directives: Sequence[Header], accepted_at_ms: int) -> Schedule | Immediate:
        verdict: Verdict = read_directives(directives, accepted_at_ms, self._rules)
        match verdict:
            case Invalid():
                raise refusal_of_schedule(verdict, f"/schedule/{_FIELD_OF.get(verdict.directive, '')}".rstrip("/"))
            case Op(name):
                raise refused(NOT_SUPPORTED, "/schedule", "not-supported", f"operation {name} is not built yet")
            case _:
                return verdict

    def _resolved(self, written: list[Header], schedule: ScheduleIn) -> Sequence[Header]:
        if schedule.level is None:
            return written
        others = [header for header in written if header[0] != _LEVEL]
        if schedule.delay_ms is not None:  # judged to mean the same moment
            return others
        return [*others, (_DELAY_MS, b"%d" % self._level_ms(schedule.level))]

    def _level_ms(self, level: int) -> int:
        levels_ms = self._rules.levels_ms
        return levels_ms[min(level, len(levels_ms)) - 1] if level > 0 else 0


def _written(schedule: ScheduleIn) -> list[Header]:
    given = ((name, getattr(schedule, field)) for name, field in _FIELDS)
    return [(name, str(value).encode()) for name, value in given if value is not None]


class Drafter:
    """Checks messages and encodes them. Hot: once per message (bench/http.py)."""

    def __init__(self, judge: Judge, rules: Rules, is_delay_enabled: Callable[[str], bool]) -> None:
        self._judge = judge
        self._is_delay_enabled = is_delay_enabled
        self._refused_names = directive_names(rules.aliases) | RESERVED

    def draft(self, topic: str, message: MessageIn, now_ms: int) -> Draft:
        """Raises Refusal."""
        key = _bytes_of(message.key, message.key_base64, "/key")
        if key is not None and len(key) > KEY_BYTES_MAX:
            raise refused(LIMIT_EXCEEDED, "/key", "too-long", f"a key has at most {KEY_BYTES_MAX} bytes")
        value = _bytes_of(message.value, message.value_base64, "/value")
        headers = self._headers(message.headers) if message.headers else []
        directives = self._directives(topic, message.schedule, now_ms) if message.schedule is not None else ()
        return Draft(key, message.partition, encode_body(key, value, [*headers, *directives]), directives)

    def _directives(self, topic: str, schedule: ScheduleIn, now_ms: int) -> Sequence[Header]:
        directives, verdict = self._judge.directives(schedule, now_ms)
        if isinstance(verdict, Immediate):
            return ()
        if not self._is_delay_enabled(topic):
            raise Refusal(TOPIC_NOT_ENABLED, f"delay.topics does not name {topic!r}")
        return directives

    def _headers(self, given: Sequence[HeaderIn]) -> list[Header]:
        if len(given) > HEADERS_MAX:
            raise refused(LIMIT_EXCEEDED, "/headers", "too-many", f"a message has at most {HEADERS_MAX} headers")
        headers = []
        for index, header in enumerate(given):
            name = header.name.encode()
            if name in self._refused_names:
                raise _reserved(index, header.name)
            if name not in ECHOED:
                headers.append((name, _header_value(index, header)))
        return headers


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
    text = b"null" if given is UNSET else bytes(given)
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
