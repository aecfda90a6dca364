"""Which partition is meant: by its number or name, or by a key, where Java's default partitioner would put it.

Source: org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner.partitionForKey. Java's ints are signed and
wrap; here everything is kept unsigned below 2**32, which leaves the same bits.
"""

import struct
from collections.abc import Sequence

from api.http.problems import INVALID_REQUEST, refused

_SEED = 0x9747B28C
_M = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash as an unsigned integer. About 0.3 us per 4 bytes: callers bound the length of keys."""
    length = len(data)
    whole = length & ~3
    state = _SEED ^ length
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * _M & _WORD
        word = (word ^ word >> 24) * _M & _WORD
        state = state * _M & _WORD ^ word
    if whole < length:
        state = (state ^ int.from_bytes(data[whole:], "little")) * _M & _WORD
    state = (state ^ state >> 13) * _M & _WORD
    return state ^ state >> 15


def partition_index(key: bytes, partitions: int) -> int:
    """The partition's number. Java takes `toPositive`, which drops the sign bit, then the remainder."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_named(partitions: Sequence[str], named: int | str) -> str | None:
    """The partition with this number or name; None where there is none. Hot: once per message that names one."""
    if isinstance(named, str):
        return named if named in partitions else None
    return partitions[named] if named < len(partitions) else None


def partition_given(topic: str, partitions: Sequence[str], named: int | str, pointer: str) -> str:
    """The same, which the request names at `pointer`. Raises Refusal."""
    if (found := partition_named(partitions, named)) is not None:
        return found
    detail = f"{topic} has {len(partitions)} partitions, from 0"
    if isinstance(named, str) and not partitions[0].isdecimal():
        detail = f"{topic} has no partition {named[:100]!r}, it has {', '.join(partitions[:8])}"
    raise refused(INVALID_REQUEST, pointer, "partition-unknown", detail)
