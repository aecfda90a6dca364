"""What is in a log, and how records are found. Also for who opens it beside its owner (`snapshot.py`).

The layout is in `log.py`.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import RdictIter

from delayline.process.links import read_file
from mq.contract import LogRecord
from mq.embedded.encrypted import decrypted
from mq.embedded.entry import ENCRYPTED_VERSION, decode_entry, read_head
from mq.errors import QueueFormat, QueueUnavailable
from mq.local.storage import StoredPartition, StoredTopic

if TYPE_CHECKING:
    from delayline.encryption.cipher import Cipher

TABLES, TOPICS, STARTS, CURSORS, LOSSES, NUMBERS = 0, 1, 2, 3, 4, 5
TOPIC_VERSION = 1
LAST = (1 << 64) - 1

KEY = struct.Struct(">IIQ")
TOPIC = struct.Struct(">B16sI")
START = struct.Struct(">QQ")
NUMBER = struct.Struct(">I")
NUMBERS_KEY = KEY.pack(TABLES, NUMBERS, 0)


def identity_of(log: Path) -> str:
    """RocksDB gives each of its databases another one. Raises OSError."""
    return read_file(log / "IDENTITY").decode(errors="replace").strip()


def stored_topics(found: RdictIter) -> Iterator[StoredTopic]:
    """Everything that there is. Raises QueueFormat, QueueUnavailable."""
    topics = [_topic(number, row) for number, row in table(found, TOPICS)]
    begins, cursors = starts(found), dict(table(found, CURSORS))
    for number, (topic_id, partitions, name) in topics:
        ids = [number << 32 | index for index in range(partitions)]
        stored = tuple(_partition(found, id_, begins.get(id_, (0, 0)), cursors.get(id_)) for id_ in ids)
        yield StoredTopic(number, name, topic_id, stored)


def read_records(
    found: RdictIter,
    log: tuple[int, int],
    offset: int,
    end: int,
    records_max: int,
    bytes_max: int,
    cipher: "Cipher | None" = None,
) -> list[LogRecord]:
    """See `Storage.read`; `log` are the numbers of topic and partition. Raises QueueUnavailable, QueueFormat."""
    records: list[LogRecord] = []
    base = seek_entry(found, *log, offset)
    while base is not None and base < end and records_max > 0 and bytes_max > 0:
        entry = found.value()
        head = read_head(entry)
        if head.lost:
            offset = max(offset, base + head.records)
        else:
            entry = decrypted(KEY.pack(*log, base), entry, cipher)
            more = decode_entry(entry, base, offset, records_max, bytes_max, least=0 if records else 1)
            records += more
            records_max -= len(more)
            bytes_max -= sum(len(record.body) for record in more)
            offset += len(more)
            if records_max <= 0:
                break  # the next entry may be damaged, and is not asked for
        base = _next_entry(found, *log, offset)
    return records


def starts(found: RdictIter) -> dict[int, tuple[int, int]]:
    return {id_: START.unpack(row) for id_, row in table(found, STARTS)}


def table(found: RdictIter, number_of: int) -> Iterator[tuple[int, bytes]]:
    found.seek(KEY.pack(TABLES, number_of, 0))
    while valid(found):
        topic, current, number = KEY.unpack(found.key())
        if (topic, current) != (TABLES, number_of):
            return
        yield number, found.value()
        found.next()


def _topic(number: int, row: bytes) -> tuple[int, tuple[bytes, int, str]]:
    if row[0] != TOPIC_VERSION:
        raise QueueFormat(f"a topic of version {row[0]}, this program knows {TOPIC_VERSION}")
    _, topic_id, partitions = TOPIC.unpack_from(row)
    return number, (topic_id, partitions, name_in(row))


def name_in(row: bytes) -> str:
    """The topic's, of its row."""
    return row[TOPIC.size :].decode()


def _partition(found: RdictIter, id_: int, known: tuple[int, int], cursor: bytes | None) -> StoredPartition:
    """The log's end is that of its last entry, or where it was trimmed away altogether. Behind lost records nothing
    can be read before something is appended; their offsets are not used again."""
    start, _ = known
    log = id_ >> 32, id_ & 0xFFFFFFFF
    base = seek_entry(found, *log, LAST)
    if base is None:
        return StoredPartition(start, start, cursor, start)
    head = read_head(found.value())
    end = next_offset = base + head.records
    while head.lost:
        end = base
        base = seek_entry(found, *log, base - 1) if base > start else None
        if base is None:
            break
        head = read_head(found.value())
    return StoredPartition(start, max(start, end), cursor, next_offset)


def first_is_encrypted(found: RdictIter) -> bool:
    """Of the entries. Raises QueueUnavailable."""
    found.seek(KEY.pack(TABLES + 1, 0, 0))
    return valid(found) and found.value()[:1] == bytes((ENCRYPTED_VERSION,))


def end_of(found: RdictIter, log: tuple[int, int]) -> int:
    """Behind the last entry of a partition; 0 where it has none."""
    base = seek_entry(found, *log, LAST)
    return 0 if base is None else base + read_head(found.value()).records


def seek_entry(found: RdictIter, topic: int, partition: int, offset: int) -> int | None:
    """Go to the entry that holds `offset` if any does: the last one that begins at or before it. Its base offset."""
    found.seek_for_prev(KEY.pack(topic, partition, offset))
    return _base(found, topic, partition)


def _next_entry(found: RdictIter, topic: int, partition: int, offset: int) -> int | None:
    """Go on to the entry that begins with `offset`; None where the current one was not read to its end."""
    found.next()
    return offset if _base(found, topic, partition) == offset else None


def valid(found: RdictIter) -> bool:
    """Whether there is an entry. A damaged block makes an iterator end as if the log did: then this raises instead,
    for a log that seems shorter would be appended to over what is there. Raises QueueUnavailable."""
    if found.valid():
        return True
    try:
        found.status()
    except Exception as error:
        raise QueueUnavailable(f"the log is damaged: {error}") from error
    return False


def _base(found: RdictIter, topic: int, partition: int) -> int | None:
    if not valid(found):
        return None
    found_topic, found_partition, base = KEY.unpack(found.key())
    return base if (found_topic, found_partition) == (topic, partition) else None
