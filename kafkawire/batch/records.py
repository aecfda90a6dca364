"""The records of a batch, as a reader hands them out: `(offset, time, body)`, the body being the one of
`delayline.records.record` (KIP-98; Kafka's DefaultRecordBatch and DefaultRecord)."""

import struct
from itertools import repeat

from delayline.errors import MalformedRecord
from delayline.records.record import encode_varint, read_varint
from delayline.schedule.rules import HORIZON_MAX_MS
from delayline.times import MOMENT_MAX_MS
from kafkawire.batch.head import Head
from kafkawire.batch.walk import walk
from kafkawire.protocol.errors import MalformedBatch

Record = tuple[int, int, bytes]
"""Offset, time (epoch ms), body. (Plain, because there are many.)"""

RECORDS_MAX = 2_000_000
"""Of one batch: 300 MB of records. Clients send ten thousand at most."""

_ONE_BYTE = 64
_TWO_BYTES = 8192
"""Offset deltas below these take one byte and two."""

_LINE = 64
"""Records that are read without assumptions before the next try with them."""

_FRONT = struct.Struct("<HHH").unpack_from
"""The front of a record in the middle of a large batch: `length length | attributes timestampDelta | offsetDelta
offsetDelta`. Three numbers, read the wrong way round, cost less than six bytes."""

_SIZES = [0] * 0x10000
"""What a two-byte length, as `_FRONT` has it, means for the whole record; 0 where it is none, and
then the next delta does not fit."""
for _length in range(_ONE_BYTE, _TWO_BYTES):
    _SIZES[int.from_bytes(encode_varint(_length), "little")] = 2 + _length

_DELTAS = [int.from_bytes(encode_varint(delta), "little") for delta in range(_TWO_BYTES)]
_ONE_BYTE_TIME = 0x8000


TIME_MAX_MS = MOMENT_MAX_MS - HORIZON_MAX_MS
"""Of a record without an append time: behind any delay there still is a moment that can be written."""


def read_records(head: Head, plain: bytes, at: int) -> list[Record]:
    """The records behind `at` in `plain`, which is decompressed, with ascending offsets. Raises MalformedBatch unless
    they fill it exactly and are those that `head` speaks of.

    A broker counts the records of a batch and gives each the next offset; in an uncompressed one it does not look at
    the record's own offset (LogValidator.assignOffsetsNonCompressed). So where none is missing, the place of a record
    is its offset, whatever it contains."""
    count = head.record_count
    # A record takes a byte at least, so a count beyond the data is a lie, found before a list of that size is made.
    if not 0 <= count <= min(RECORDS_MAX, len(plain)):
        raise MalformedBatch(f"{count} records")
    base = head.base_offset
    # Only then can the fast path ignore times and gaps: a compacted batch would get wrong offsets.
    if head.is_append_time and head.last_offset_delta == count - 1:
        bodies = _dense(plain, at, count)
        if bodies is not None:
            return list(zip(range(base, base + count), repeat(head.max_timestamp), bodies))
    return _any(head, plain[at:])


def _dense(plain: bytes, at: int, count: int) -> list[bytes] | None:
    """The bodies of records whose offsets have no gaps; None where they do not look like that.

    Hot: once per record that is read (bench/floors.py). Every delta is compared with the one that it has to be: where
    one differs, `_any` decides whose offset counts.
    """
    bodies: list[bytes] = []
    append = bodies.append
    try:
        while (done := len(bodies)) < count:
            for delta in _DELTAS[done:count] if done >= _ONE_BYTE else ():
                length, attributes_and_time, found = _FRONT(plain, at)
                # A delta that is not the expected one ends the assumption; the general loop below then decides.
                if found != delta or attributes_and_time >= _ONE_BYTE_TIME:
                    break
                body_at = at + 6
                at += _SIZES[length]
                append(plain[body_at:at])
            for delta in range(len(bodies), min(len(bodies) + _LINE, count)):
                length = plain[at]
                if length < 0x80:
                    at += 1
                elif plain[at + 1] < 0x80:
                    length += (plain[at + 1] << 7) - 0x80
                    at += 2
                else:
                    exact, at = read_varint(plain, at)
                    length = exact << 1
                body_at = at + 2 if plain[at + 1] < 0x80 else read_varint(plain, at + 1)[1]
                found = plain[body_at]
                if found < 0x80:
                    body_at += 1
                elif plain[body_at + 1] < 0x80:
                    found += (plain[body_at + 1] << 7) - 0x80
                    body_at += 2
                else:
                    exact, body_at = read_varint(plain, body_at)
                    found = exact << 1
                at += length >> 1
                if found != delta << 1 or length & 1 or body_at >= at:
                    return None
                append(plain[body_at:at])
    except (IndexError, struct.error, MalformedRecord):
        return None
    # Bytes left over mean that the assumption was wrong somewhere: `_any` has to judge.
    return bodies if at == len(plain) else None


def _any(head: Head, plain: bytes) -> list[Record]:
    """With all of a record's own fields: times of their own, offsets with gaps (compaction). Without gaps
    the offset is counted."""
    records: list[Record] = []
    base, before, last = head.base_offset, -1, head.last_offset_delta
    has_gaps = last != head.record_count - 1
    try:
        for place, (time_at, delta_at, body_at, end) in enumerate(walk(plain, head.record_count, RECORDS_MAX)):
            # Brokers do not check the delta of uncompressed records: trusting it would let a producer choose offsets.
            delta = read_varint(plain, delta_at)[0] if has_gaps else place
            if not before < delta <= last:
                raise MalformedBatch("offsets that do not ascend, or lie outside their batch")
            if body_at >= end:
                raise MalformedBatch("a record without a body")
            at_ms = head.max_timestamp
            if not head.is_append_time:
                # Below zero there is no time: such a record counts as of the epoch, instead of stopping the reader.
                at_ms = max(head.base_timestamp + read_varint(plain, time_at + 1)[0], 0)
            # Its due time would lie behind the last moment that RFC 3339 can write, and the row about it could not be
            # encoded.
            if at_ms > TIME_MAX_MS:
                raise MalformedBatch("a record from the far future")
            records.append((base + delta, at_ms, plain[body_at:end]))
            before = delta
    except MalformedRecord:
        raise MalformedBatch("a varint that is too long") from None
    return records
