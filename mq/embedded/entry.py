"""An entry: records of one partition that were appended together, in one RocksDB value.

    entry = u8 version (1) | u8 flags | u16 zero | u32 count | u64 append time (epoch ms)
          | count x u64 record time, where flag 1 is set | count x u32 end of the body | bodies

An entry of version 3 has the same head, and the rest encrypted (`encrypted.py`).

An entry of version 2 records that records were lost, and that the operator has accepted it: `u8 version (2) | u8 zero
| u16 zero | u32 count | u64 time of accepting`. Its offsets are never used again; readers pass over them.

All numbers are big endian; the ends count from the first body. The entry's key holds the offset of its first record
(`log.py`). The idea is Kafka's record batch: what costs RocksDB 2 us per record is paid once per entry.
Page: docs/formats/embedded-log.md.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, repeat
from typing import NamedTuple

from mq.contract import LogRecord
from mq.errors import QueueFormat
from mq.local.group import Batch

VERSION, LOST_VERSION, ENCRYPTED_VERSION = 1, 2, 3
OWN_TIMES = 1
ENTRY_BYTES_MAX = 64 << 10
"""A reader that wants one record copies its whole entry; a larger record has an entry to itself."""
ENTRY_RECORDS_MAX = 1024
LOST_RECORDS_MAX = (1 << 32) - 1
_VERSIONS = (VERSION, LOST_VERSION, ENCRYPTED_VERSION)

_HEAD = struct.Struct(">BBHIQ")
HEAD_BYTES = _HEAD.size


class Head(NamedTuple):
    """What is in front of an entry's columns."""

    records: int
    appended_at_ms: int
    own_times: bool
    lost: bool = False


def encode_entries(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """`(base offset, entry)` for the records of a batch. Hot: about 0.2 us per record."""
    ends = list(accumulate(map(len, batch.bodies)))
    first = begin = 0
    while first < len(ends):
        behind = min(bisect_right(ends, begin + ENTRY_BYTES_MAX, first), first + ENTRY_RECORDS_MAX)
        behind = max(behind, first + 1)
        yield batch.base_offset + first, _encode(batch, ends, begin, first, behind)
        first, begin = behind, ends[behind - 1]


def _encode(batch: Batch, ends: list[int], begin: int, first: int, behind: int) -> bytes:
    count = behind - first
    own_times = batch.times_ms is not None
    parts = [_HEAD.pack(VERSION, OWN_TIMES if own_times else 0, 0, count, batch.appended_at_ms)]
    if batch.times_ms is not None:
        parts.append(struct.pack(f">{count}Q", *batch.times_ms[first:behind]))
    parts.append(struct.pack(f">{count}I", *(end - begin for end in ends[first:behind])))
    parts += batch.bodies[first:behind]
    return b"".join(parts)


def read_head(entry: bytes) -> Head:
    """Raises QueueFormat."""
    if len(entry) < _HEAD.size or entry[0] not in _VERSIONS:
        found = entry[0] if entry else "none"
        raise QueueFormat(f"a log entry of version {found}, this program knows {ENCRYPTED_VERSION}")
    version, flags, _, count, appended_at_ms = _HEAD.unpack_from(entry)
    return Head(count, appended_at_ms, bool(flags & OWN_TIMES), version == LOST_VERSION)


def encode_lost(base_offset: int, end: int, at_ms: int) -> Iterator[tuple[int, bytes]]:
    """`(base offset, entry)` for records that are gone, and stay gone."""
    while base_offset < end:
        count = min(end - base_offset, LOST_RECORDS_MAX)
        yield base_offset, _HEAD.pack(LOST_VERSION, 0, 0, count, at_ms)
        base_offset += count


def decode_entry(
    entry: bytes, base_offset: int, offset: int, records_max: int, bytes_max: int, *, least: int = 1
) -> list[LogRecord]:
    """The entry's records from `offset` on, at most `records_max` and `bytes_max` bytes of bodies; but `least` (0 or
    1) where there are any. Hot: about 0.4 us per record. Raises QueueFormat, also of one that is encrypted."""
    if entry[:1] == b"\x03":
        raise QueueFormat("a log entry that is encrypted")
    count, appended_at_ms, own_times, lost = read_head(entry)
    first = offset - base_offset
    if lost or first >= count:
        return []
    ends_at = _HEAD.size + (8 * count if own_times else 0)
    ends = (0, *struct.unpack_from(f">{count}I", entry, ends_at))
    behind = min(count, first + records_max, bisect_right(ends, ends[first] + bytes_max) - 1)
    behind = max(behind, first + least)
    bodies_at = ends_at + 4 * count
    bodies = [entry[bodies_at + ends[i] : bodies_at + ends[i + 1]] for i in range(first, behind)]
    times_ms: Iterator[int] = repeat(appended_at_ms)
    if own_times:
        times_ms = iter(struct.unpack_from(f">{len(bodies)}Q", entry, _HEAD.size + 8 * first))
    return list(map(LogRecord, range(offset, offset + len(bodies)), times_ms, bodies))
