"""Which records of a batch carry a directive, and the batch made into two.

A record is `varint length | attributes | varint timestampDelta | varint offsetDelta | body`; the body is the one of
`delayline.records.record`, which is walked there. Steps, each taken only where the one before finds something:

    search the bytes for any directive's name      0.1 us a KiB, nothing copied (decompressed, if it is)
    look at the headers of the first record        about 2 us a batch: its names may be none, and like one
    find where each record begins and ends         about 0.3 us a record
    take a record that holds a name apart          about 2 us for such a record

Figures: bench/proxy_codec.py.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import stringzilla

from delayline.errors import MalformedRecord
from delayline.records.message import Header
from delayline.records.record import encode_varint, read_varint, split_directives
from kafkawire.batch.compression import Allowance, compress
from kafkawire.batch.head import Batch, Buffer, Codec, rebuilt
from kafkawire.batch.walk import Span, walk
from kafkawire.protocol.errors import MalformedBatch

PLAIN_BYTES_MAX = 32 * 1024 * 1024
"""Records of one batch, decompressed: a broker's default of 1 MiB (max.message.bytes), compressed 32 to 1."""

RECORD_BYTES_MIN = 7
_NULL_LENGTH = -1
_TABLE = [encode_varint(n) for n in range(8192)]


class Directives:
    """The header names to look for, and those that only mean something `beside` one of them. One for as long as the
    names stay the same.

    `is_like` selects other names that are to be found too, because they were meant as one of these; `hints` are parts
    of such names that are searched for in every record. What holds none of them is looked for in the first record of
    each batch: who writes a name wrong writes it so into every record."""

    def __init__(
        self,
        names: Collection[bytes],
        beside: Collection[bytes] = (),
        *,
        is_like: Callable[[bytes], bool] | None = None,
        hints: Collection[bytes] = (),
    ) -> None:
        assert names, "there is always a directive"
        exact = frozenset(names) | frozenset(beside)
        self.names: Container[bytes] = exact if is_like is None else _Names(exact, is_like)
        self.is_like = is_like
        self._needles = needles_of([*names, *hints])

    def search(self, data: Buffer) -> "Search":
        return Search(data, self._needles)


class _Names:
    """Names, and those that are like them."""

    def __init__(self, exact: frozenset[bytes], is_like: Callable[[bytes], bool]) -> None:
        self._exact = exact
        self._is_like = is_like

    def __contains__(self, name: object) -> bool:
        return name in self._exact or (isinstance(name, bytes) and self._is_like(name))


class Search:
    """Where needles are in `data`, asked for in ascending order. In all, every byte is read once per needle."""

    def __init__(self, data: Buffer, needles: Sequence[bytes]) -> None:
        self._data = data
        self._needles = needles
        self._next = [stringzilla.find(data, needle) for needle in needles]

    def next_from(self, at: int) -> int | None:
        """Where the first one begins that is not before `at`."""
        for index, needle in enumerate(self._needles):
            if 0 <= self._next[index] < at:
                self._next[index] = stringzilla.find(self._data, needle, at)
        return min((found for found in self._next if found >= 0), default=None)


def needles_of(names: Iterable[bytes]) -> list[bytes]:
    """The fewest byte strings of which every name contains one."""
    needles: list[bytes] = []
    for name in sorted(names, key=lambda name: (len(name), name)):
        if not any(needle in name for needle in needles):
            needles.append(name)
    return needles


class Found(NamedTuple):
    """A record with directives, or any where every one was asked for. `place` counts from 0 in its batch, `size` are
    the bytes of its body as sent."""

    place: int
    directives: list[Header]
    has_key: bool
    size: int


class Parts(NamedTuple):
    """A batch made into two; None where one of them would be empty. `immediate_at` and `delayed_at` are the places
    that their records had in the batch, for errors that speak of single records (KIP-467)."""

    immediate: Batch | None
    delayed: Batch | None
    immediate_at: range | list[int]
    delayed_at: range | list[int]


@dataclass(frozen=True, slots=True)
class Scan:
    """What is known of a batch's records: `found` in their order; `plain` and `spans` only where something was."""

    batch: Batch
    found: list[Found]
    plain: bytes = b""
    spans: tuple[Span, ...] | list[Span] = ()

    def split(self, delayed: Set[int]) -> Parts:
        """The batch without, and only with, the records at these places (a part of those in `found`).

        Order, timestamps, producer, attributes and compression stay. A part gets a checksum of its own: the batch's
        must have been found right (`Batch.check`). Delayed records are numbered 0, 1, 2, ... whatever they came as:
        a broker stores an uncompressed batch under the deltas that it has, where readers of the buffer would stop.
        """
        count = self.batch.head.record_count
        if not delayed:
            return Parts(self.batch, None, range(count), [])
        if len(delayed) == count:
            return Parts(None, self.batch if self._is_numbered() else self._part(range(count)), [], range(count))
        assert self.spans, "only records that were found are taken out"
        chosen = sorted(delayed)
        rest = [place for place in range(count) if place not in delayed]
        return Parts(self._part(rest), self._part(chosen), rest, chosen)

    def _is_numbered(self) -> bool:
        spans = enumerate(self.spans)
        return all(self.plain[delta_at:body_at] == _varint(n) for n, (_, delta_at, body_at, _) in spans)

    def _part(self, places: Sequence[int]) -> Batch:
        head = self.batch.head
        payload = compress(head.codec, _renumbered(self.plain, self.spans, places), self.batch.payload)
        return rebuilt(head, len(places), self._newest(places), payload)

    def _newest(self, places: Sequence[int]) -> int:
        """The latest timestamp. It is mostly the head's, of the last record, and then nothing else is looked at."""
        head = self.batch.head
        newest = encode_varint(head.max_timestamp - head.base_timestamp)
        for place in reversed(places):
            attributes_at, delta_at, _, _ = self.spans[place]
            if self.plain[attributes_at + 1 : delta_at] == newest:
                return head.max_timestamp
        return head.base_timestamp + max(read_varint(self.plain, self.spans[place][0] + 1)[0] for place in places)


def scan_batch(
    batch: Batch,
    directives: Directives,
    plain_bytes_max: int = PLAIN_BYTES_MAX,
    *,
    every: bool = False,
    allowance: Allowance | None = None,
) -> Scan:
    """Find the records that carry one of `directives`, or `every` record. Raises MalformedBatch and BatchTooLarge.

    A control batch is not looked into: brokers refuse it from a client.
    """
    head = batch.head
    if head.is_control:
        return Scan(batch, [])
    if not every and head.codec is Codec.NONE and not _may_hold(batch.payload, directives):
        return Scan(batch, [])
    allowance = allowance or Allowance(plain_bytes_max)
    plain = allowance.decompress(head.codec, batch.payload, plain_bytes_max)
    search = directives.search(plain)
    is_odd = _first_is_odd(plain, directives)
    if not every and not is_odd and search.next_from(0) is None:
        return Scan(batch, [])
    if head.codec is Codec.NONE:
        batch = replace(batch, payload=plain)  # the copy that has been made serves the checksum, too
    spans = walk(plain, head.record_count)
    found = (_all_found if is_odd else _found)(plain, spans, directives.names, search)
    return Scan(batch, list(_every(plain, spans, found) if every else found), plain, spans)


def _may_hold(payload: Buffer, directives: Directives) -> bool:
    return directives.search(payload).next_from(0) is not None or _first_is_odd(payload, directives)


FIRST_BYTES_MAX = 64 * 1024
"""A first record larger than this is not copied to be looked at."""


def _first_is_odd(payload: Buffer, directives: Directives) -> bool:
    """Whether the first record has a header that is no directive and like one. What cannot be read is no such record:
    the broker judges it."""
    is_like = directives.is_like
    if is_like is None:
        return False
    head = bytes(payload[:32])
    try:
        length, at = read_varint(head, 0)
        if not 0 < length <= FIRST_BYTES_MAX:
            return False
        record = bytes(payload[at : at + length])
        _, body_at = read_varint(record, read_varint(record, 1)[1])
        found = split_directives(record[body_at:], directives.names).directives
    except (MalformedRecord, IndexError):
        return False
    return any(is_like(name) for name, _ in found)


def _all_found(plain: bytes, spans: list[Span], names: Container[bytes], _search: Search) -> Iterator[Found]:
    """Every record is taken apart."""
    for place, (_, _, body_at, end) in enumerate(spans):
        if found := _directives_of(plain[body_at:end], names):
            yield Found(place, found, plain[body_at] != _NULL_LENGTH, end - body_at)


def _found(plain: bytes, spans: list[Span], names: Container[bytes], search: Search) -> Iterator[Found]:
    """Only records in which a name occurs are taken apart; each at most once."""
    place = 0
    at = search.next_from(0)
    while at is not None:
        while spans[place][3] <= at:
            place += 1
        _, _, body_at, end = spans[place]
        if found := _directives_of(plain[body_at:end], names):
            yield Found(place, found, _has_key(plain, body_at), end - body_at)
        at = search.next_from(end)


def _every(plain: bytes, spans: list[Span], found: Iterator[Found]) -> Iterator[Found]:
    """The others as well, in their places, and taken apart as well: they may be delayed, and brokers do not look."""
    with_directives = {one.place: one for one in found}
    for place, (_, _, body_at, end) in enumerate(spans):
        one = with_directives.get(place)
        if one is None:
            _directives_of(plain[body_at:end], frozenset())
            one = Found(place, [], _has_key(plain, body_at), end - body_at)
        yield one


def _has_key(plain: bytes, body_at: int) -> bool:
    """Null is the length -1, in however many bytes."""
    return read_varint(plain, body_at)[0] != _NULL_LENGTH


def _directives_of(body: bytes, names: Container[bytes]) -> list[Header]:
    try:
        return split_directives(body, names).directives
    except MalformedRecord as error:
        raise MalformedBatch(str(error)) from error


def _renumbered(plain: bytes, spans: Sequence[Span], places: Sequence[int]) -> bytes:
    """The records at `places` under offset deltas 0, 1, 2, ...; all else is copied as it stands.

    Hot: once per record of a batch that is split. Where the new delta takes as many bytes as the old one did, the
    record's length stays, and everything from one delta to the next is copied in one piece.
    """
    parts: list[bytes] = []
    copied = until = 0  # what lies between is still to be copied
    behind = 0
    for number, place in enumerate(places):
        attributes_at, delta_at, body_at, end = spans[place]
        delta = _varint(number)
        grown = len(delta) - (body_at - delta_at)
        if grown or place != behind:
            parts += (plain[copied:until], _varint(end - attributes_at + grown))
            copied = attributes_at
        parts += (plain[copied:delta_at], delta)
        copied, until, behind = body_at, end, place + 1
    parts.append(plain[copied:until])
    return b"".join(parts)


def _varint(value: int) -> bytes:
    return _TABLE[value] if value < len(_TABLE) else encode_varint(value)
