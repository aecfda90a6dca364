"""Rows of the index on disk. Page: docs/formats/index-keys.md.

    record    u32 shard number | u64 due_ms | u64 offset                 -> value, as it was given
    name      <record> | 01 | name                                       -> empty; stands behind its record
    format    u32 0 | 'F'                                                -> u32 format number
    data key  u32 0 | 'K'                                                -> its id; where the index is encrypted
    shard     u32 0 | 'S' | topic | 00 | shard name                      -> u32 shard number, from 1 on
    check     u32 0 | 'C' | u32 shard number                             -> checkpoint
    lookup    u32 0 | 'N' | u32 shard number | name                      -> u64 due_ms | u64 offset

All integers big endian, so that byte order is key order. Shard number 0 belongs to the index itself.
"""

import struct
from collections.abc import Iterable, Iterator

from delayline.errors import UnknownFormat
from delayline.records.message import Key, Shard
from store.index import Checkpoint

FORMAT, ENCRYPTED_FORMAT = 1, 2
FORMAT_ROW = b"\0\0\0\0F"
DATA_KEY_ROW = b"\0\0\0\0K"
SHARD_ROWS = b"\0\0\0\0S"
SHARD_NUMBER_MAX = 2**32 - 2
RECORD_BYTES = 20

_RECORD = struct.Struct(">IQQ")
_KEY = struct.Struct(">QQ")
_NUMBER = struct.Struct(">I")
_CHECKPOINT = struct.Struct(">QH")
_LAST = 2**64 - 1

encode_record = _RECORD.pack
"""`(shard number, due_ms, offset)` -> the row's key."""

encode_number = _NUMBER.pack


def decode_number(row: bytes) -> int:
    number: int = _NUMBER.unpack(row)[0]
    return number


def decode_records(rows: Iterable[bytes]) -> Iterator[tuple[int, int, int]]:
    """`(shard number, due_ms, offset)` of each."""
    return _RECORD.iter_unpack(b"".join(rows))


def due_of(row: bytes) -> int:
    """The due time of a record row."""
    return int.from_bytes(row[4:12], "big")


def shard_start(number: int) -> bytes:
    """Below every record of the shard."""
    return encode_number(number)


def shard_end(number: int) -> bytes:
    """Above every record of the shard."""
    return encode_number(number + 1)


def behind(record: bytes) -> bytes:
    """Above the record and the names behind it, below every other record after it."""
    # Names begin with 01, so ff sorts behind all of them, and before the next offset, whose bytes differ earlier.
    return record + b"\xff"


def first_after_ms(number: int, until_ms: int) -> bytes:
    """Above every record of the shard that is due at or before `until_ms`, at or below every later one."""
    if until_ms < 0:
        return shard_start(number)
    # The largest u64 has no successor: packing it plus one would raise.
    return encode_record(number, until_ms + 1, 0) if until_ms < _LAST else shard_end(number)


def name_row(record: bytes, name: bytes) -> bytes:
    return record + b"\x01" + name


def name_of(row: bytes) -> bytes:
    return row[RECORD_BYTES + 1 :]


def shard_row(shard: Shard) -> bytes:
    return SHARD_ROWS + shard.topic.encode() + b"\0" + shard.partition.encode()


def shard_of(row: bytes) -> Shard:
    # A topic name cannot contain a zero byte, so the first one is the separator.
    topic, name = row[len(SHARD_ROWS) :].split(b"\0", 1)
    return Shard(topic.decode(), name.decode())


def checkpoint_row(number: int) -> bytes:
    return b"\0\0\0\0C" + encode_number(number)


def lookup_row(number: int, name: bytes) -> bytes:
    return b"\0\0\0\0N" + encode_number(number) + name


def encode_key(key: Key) -> bytes:
    return _KEY.pack(*key)


def decode_key(data: bytes) -> Key:
    return Key(*_KEY.unpack(data))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """`u64 offset | u16 n | n bytes of topic id | state`."""
    return _CHECKPOINT.pack(checkpoint.offset, len(checkpoint.topic_id)) + checkpoint.topic_id + checkpoint.state


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Raises UnknownFormat."""
    if len(data) < _CHECKPOINT.size:
        raise UnknownFormat("a checkpoint that is cut short")
    offset, length = _CHECKPOINT.unpack_from(data)
    state_at = _CHECKPOINT.size + length
    return Checkpoint(offset, data[_CHECKPOINT.size : state_at], data[state_at:])
