"""The quick way through buffer records: plain messages, by the remembered shapes of their headers.

The records of one producer have header sections of one layout: the same names in the same order, values of the same
lengths. A *shape* is such a layout, as a compiled `struct.Struct` over the section. Its *fixed parts* are everything
that gives the section its structure: header count, names, and all lengths, byte for byte as they were seen; between
them lie the values. A section of the same length whose fixed parts are equal has the same layout, for certain: a walk
through it would read the same count, the same names and the same lengths, one after the other. So one call in C does
for the walk, and gives the value of the directive on the way.

What fits no shape, or asks for more than one delay, goes the way of `delayline.buffer.record.read`, which remains the
only authority: every verdict that is remembered here was its.
"""

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from delayline.buffer.record import OURS, BufferRecord, Message, names_of, read
from delayline.errors import MalformedRecord
from delayline.records.record import (
    SEALING_HEADERS,
    accepted_header,
    behind_key_and_value,
    encode_varint,
    read_varint,
    split_directives,
)
from delayline.schedule.rules import HORIZON_MAX_MS, Rules
from delayline.schedule.verdict import DELAYS, Immediate, Schedule, Verdict, read_directives

SHAPES_MAX = 512
SHAPES_OF_A_SIZE_MAX = 4
"""They are tried one after the other."""

MISSES_OF_A_SIZE_MAX = 64
"""Where so many records have met none of the shapes of their size, none is tried: there are too many."""

MISSES_MAX = 1 << 17
"""After so many records that found no room for their shape, all are learned anew. A shape costs as much to learn
as it saves on some ten records."""

SECTION_BYTES_MAX = 4096
VALUES_MAX = 4096
"""Of one directive, whose delay is remembered. Together these bound what a reader keeps to some megabytes."""

PlainRecords = Sequence[tuple[int, int, bytes]]
"""`(offset, accepted_at_ms, body)` of each."""

PlainEntries = list[tuple[int, int, bytes]]
"""`(due_ms, offset, index value)` of each."""

_PLAIN = b"\x00"
_ONE_BYTE = [1 + (first >> 1) if first < 0x80 and not first & 1 else int(first == 1) for first in range(256)]
"""How much a nullable byte string takes with its length, by that length's first byte; 0 where it does not show it.
Null (01) takes that byte alone."""


class _Shape(NamedTuple):
    """A layout. The directive is in [cut_at, cut_end), counted from where the section begins, as kept_at is; its
    value is part `part`. Without a directive the cut is empty, and `delays` knows a fixed part. Where the general way
    has to be gone, `directive` is None and `delays` empty."""

    unpack_from: Callable[[bytes, int], tuple[bytes, ...]]
    fixed_of: Callable[[tuple[bytes, ...]], Any]
    fixed: Any
    part: int
    header_count: bytes
    kept_at: int
    cut_at: int
    cut_end: int
    directive: bytes | None
    delays: dict[bytes, int]


class Reader:
    """For one set of rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._names = names_of(rules.aliases)
        self.shapes: dict[int, list[_Shape]] = {}  # by the section's length; empty: too many
        self.delays: dict[bytes, dict[bytes, int]] = {}  # by directive and value
        self.general = 0
        """How many records have gone the general way."""
        self._start_empty()

    def _start_empty(self) -> None:
        self.shapes.clear()
        self.delays.clear()
        self._missed: dict[int, int] = {}  # by the section's length
        self._misses = 0
        self.room = SHAPES_MAX

    def read(self, records: PlainRecords, start: int, entries: PlainEntries) -> tuple[int, BufferRecord | None]:
        """Add the messages among `records[start:]` that ask for no more than a time to `entries`, up to the first
        record of another meaning: where that stands, and the meaning; None at the end. Raises UnknownFormat.

        Hot: once per buffered record (see bench/floors.py for its cost, a third of which is to make the value)."""
        one_byte, shapes, add, before = _ONE_BYTE, self.shapes.get, entries.append, start - len(entries)
        last_ms, accepted = 0, accepted_header(0)
        for offset, accepted_at_ms, body in islice(records, start, None):
            try:
                at = one_byte[body[0]]
                length = body[at]
                if step := one_byte[length]:  # never where `at` is 0
                    at += step
                elif at and length & 0x81 == 0x80 and (second := body[at + 1]) < 0x80:
                    at += 2 + (length >> 1 & 0x3F | second << 6)
                else:
                    at = behind_key_and_value(body)
            except (IndexError, MalformedRecord):
                at = len(body)
            delay_ms = None
            for shape in shapes(len(body) - at, ()):
                unpack, fixed_of, fixed, part, header_count, kept_at, cut_at, cut_end, directive, delays = shape
                parts = unpack(body, at)
                if fixed_of(parts) == fixed:
                    delay_ms = delays.get(parts[part])
                    if delay_ms is None and directive is not None:
                        delay_ms = self._delay_ms(directive, parts[part], accepted_at_ms, delays)
                    break
            else:
                self._learn(body, at)
            if delay_ms is None:
                self.general += 1
                meaning = read(body, accepted_at_ms, self._rules)
                if type(meaning) is not Message or meaning.replaces is not None or meaning.terms is not None:
                    return before + len(entries), meaning
                add((meaning.due_ms, offset, meaning.value))
                continue
            if accepted_at_ms != last_ms:
                last_ms, accepted = accepted_at_ms, accepted_header(accepted_at_ms)
            kept = body[at + cut_end :]
            if cut_at != kept_at:
                kept = body[at + kept_at : at + cut_at] + kept
            add((accepted_at_ms + delay_ms, offset, b"".join((_PLAIN, body[:at], header_count, kept, accepted))))
        return before + len(entries), None

    def _delay_ms(self, directive: bytes, value: bytes, accepted_at_ms: int, delays: dict[bytes, int]) -> int | None:
        """From the append time on, the time of this directive alone; None where that is more than a time, or
        wrong."""
        if (
            directive == b"delay-ms"
            and len(value) < 16
            and value.isdigit()
            and 0 < (ms := int(value)) <= HORIZON_MAX_MS
        ):
            delay_ms: int | None = ms  # as `read_directives` would, for delays that nobody repeats
        else:
            verdict = read_directives([(directive, value)], accepted_at_ms, self._rules)
            delay_ms = _delay_of(verdict, accepted_at_ms)
        if delay_ms is not None and directive in DELAYS and len(delays) < VALUES_MAX:
            delays[value] = delay_ms
        return delay_ms

    def _learn(self, body: bytes, begin: int) -> None:
        """The shape of a record that has met none, if it has one and there is room."""
        size = len(body) - begin
        known = self.shapes.get(size)
        wanted = known is None or 0 < len(known) < SHAPES_OF_A_SIZE_MAX
        if wanted and self.room > 0 and size <= SECTION_BYTES_MAX:
            with suppress(MalformedRecord):
                self.shapes[size] = [*(known or ()), self._shape(body, begin)]
                self.room -= 1
            return
        self._misses += 1
        if self._misses == MISSES_MAX:
            self._start_empty()
        elif known:
            missed = self._missed[size] = self._missed.get(size, 0) + 1
            if missed == MISSES_OF_A_SIZE_MAX:
                self.shapes[size] = []
                self.room += len(known)

    def _shape(self, body: bytes, begin: int) -> _Shape:
        """Raises MalformedRecord."""
        split = split_directives(body, self._names)
        quick = all(name not in OURS and value is not None for name, value in split.directives)
        quick = quick and len(split.directives) <= 1
        first_at, headers = _headers(body, begin)
        cut = next((header for header in headers if quick and header.name in self._names), None)
        unpack_from, fixed_at, part = _layout(begin, headers, cut, len(body))
        parts, fixed_of = unpack_from(body, begin), itemgetter(*fixed_at)
        if cut is not None:
            delays = self.delays.setdefault(cut.name, {})
        else:
            delay_ms = _delay_of(read_directives([], 0, self._rules), 0) if quick else None
            delays = {} if delay_ms is None else {parts[part]: delay_ms}
        return _Shape(
            unpack_from=unpack_from,
            fixed_of=fixed_of,
            fixed=fixed_of(parts),
            part=part,
            header_count=encode_varint(split.kept_count + SEALING_HEADERS),
            kept_at=first_at - begin,
            cut_at=(cut.begin if cut else first_at) - begin,
            cut_end=(cut.end if cut else first_at) - begin,
            directive=cut.name if cut else None,
            delays=delays,
        )


class _Header(NamedTuple):
    """Where a header is in its body."""

    name: bytes
    begin: int
    value_at: int
    end: int


def _headers(body: bytes, begin: int) -> tuple[int, list[_Header]]:
    """Where the headers begin, and each of them, of a body that is known to be a good one."""
    count, first_at = read_varint(body, begin)
    headers: list[_Header] = []
    at = first_at
    for _ in range(count):
        size, name_at = read_varint(body, at)
        length, value_at = read_varint(body, name_at + size)
        headers.append(_Header(body[name_at : name_at + size], at, value_at, value_at + max(length, 0)))
        at = headers[-1].end
    return first_at, headers


def _layout(begin: int, headers: Sequence[_Header], cut: _Header | None, end: int) -> tuple[Any, list[int], int]:
    """What unpacks the section [begin, end), which of its parts are fixed, and which is the value of `cut`: the first
    one where there is no cut. Other values are no parts."""
    codes, part, at = ["<"], 0, begin
    fixed: list[int] = []
    for header in headers:
        if header is not cut and header.value_at == header.end:
            continue  # no value parts what is fixed
        fixed.append(len(fixed) + (part > 0))
        codes.append(f"{header.value_at - at}s")
        at = header.end
        if header is cut:
            part = len(fixed)
            codes.append(f"{at - header.value_at}s")
        else:
            codes.append(f"{at - header.value_at}x")
    if at < end:
        fixed.append(len(fixed) + (part > 0))
        codes.append(f"{end - at}s")
    return struct.Struct("".join(codes)).unpack_from, fixed, part


def _delay_of(verdict: Verdict, accepted_at_ms: int) -> int | None:
    if type(verdict) is Immediate:
        return 0
    return verdict.due_ms - accepted_at_ms if type(verdict) is Schedule and verdict.terms is None else None


@lru_cache(16)
def reader_of(rules: Rules) -> Reader:
    """All shards under the same rules share what is remembered."""
    return Reader(rules)
