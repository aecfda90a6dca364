"""The back end on RocksDB.

    key = u32 topic | u32 partition | u64 number        all big endian; topic 0 holds the tables below

    (t, p, offset of the first record)   entry: see `entry.py`
    (0, 1, t)                            topic t: u8 version (1) | 16 bytes topic id | u32 partitions | name
    (0, 2, t << 32 | p)                  a trimmed log: u64 start | u64 deleted up to | u64 latest append time
    (0, 3, t << 32 | p)                  the cursor of the shard that this buffer partition is

A group is one WriteBatch in the write-ahead log, then one fsync. Page: docs/formats/embedded-log.md.
"""

import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from mq.contract import LogRecord
from mq.embedded.entry import decode_entry, encode_entries, read_head
from mq.embedded.reclaim import Reclaimer
from mq.errors import QueueFormat, QueueUnavailable
from mq.local.group import Group
from mq.local.storage import StoredPartition, StoredTopic
from mq.local.topic import Partition, Topic

TABLES, TOPICS, STARTS, CURSORS = 0, 1, 2, 3
TOPIC_VERSION = 1
LAST = (1 << 64) - 1
MIB = 1 << 20

TRIM_COMPACT_BYTES = 256 * MIB
"""How much trimmed log may wait for RocksDB's own compactions before the range is compacted by us."""

DELETE_BYTES_MIN = 256 << 10
"""How much of a partition one range tombstone covers at least. Every one in the memtable makes every seek slower
(1000 of them: 0.3 ms); so there are 128 for a memtable of 32 MiB at most."""

_KEY = struct.Struct(">IIQ")
_TOPIC = struct.Struct(">B16sI")
_START = struct.Struct(">QQ")


def options() -> Options:
    """How RocksDB keeps a log: values of 64 KiB, written once, read in order, deleted from the front.

    RocksDB stalls writers that outrun its flushes and compactions, and a stall in `Rdict.write` would hold the
    interpreter's lock. So there is room for 8 memtables, and level 0 may grow: readers of a log do not mind.
    """
    chosen = Options(raw_mode=True)
    chosen.create_if_missing(True)
    chosen.set_write_buffer_size(32 * MIB)
    chosen.set_max_write_buffer_number(8)
    chosen.set_max_total_wal_size(256 * MIB)
    chosen.set_target_file_size_base(32 * MIB)
    chosen.set_level_zero_slowdown_writes_trigger(64)
    chosen.set_level_zero_stop_writes_trigger(128)
    chosen.set_soft_pending_compaction_bytes_limit(0)
    chosen.set_hard_pending_compaction_bytes_limit(0)
    chosen.set_compression_type(DBCompressionType.lz4())
    # An acknowledged group is never dropped to make the rest readable: only a torn tail may be missing.
    chosen.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    chosen.set_keep_log_file_num(2)
    chosen.set_max_background_jobs(2)
    chosen.set_max_open_files(512)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(16 * MIB))
    chosen.set_block_based_table_factory(blocks)
    return chosen


def disk_free_bytes(folder: Path) -> int:
    """Room for unprivileged writers on the folder's file system."""
    return shutil.disk_usage(folder).free


class RocksLog:
    """Storage on RocksDB. Opening raises QueueUnavailable."""

    def __init__(
        self,
        folder: Path,
        disk_free_min_bytes: int,
        free_bytes: Callable[[Path], int] = disk_free_bytes,
        trim_compact_bytes: int = TRIM_COMPACT_BYTES,
    ) -> None:
        self._folder = folder
        self._disk_free_min_bytes = disk_free_min_bytes
        self._free_bytes = free_bytes
        self._unsynced = WriteOptions()
        self._unsynced.sync = False
        self._deleted_to: dict[int, int] = {}
        self._closed = False
        try:
            self._db = Rdict(str(folder), options())
        except Exception as error:
            raise QueueUnavailable(f"the log in {folder} cannot be opened: {error}") from error
        self._reclaimer = Reclaimer(self._db, trim_compact_bytes)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._reclaimer.close()
            self._db.close()

    def identity(self) -> str:
        return identity_of(self._folder)

    def full(self) -> str | None:
        free = self._free_bytes(self._folder)
        if free >= self._disk_free_min_bytes:
            return None
        kept = self._disk_free_min_bytes
        return f"the disk that holds {self._folder} has {free >> 20} MiB left, and {kept >> 20} MiB are kept free"

    # --- load

    def load(self) -> Iterable[StoredTopic]:
        found = self._db.iter()
        self._deleted_to = {id_: deleted_to for id_, (_, deleted_to) in _starts(found).items()}
        return stored_topics(found)

    # --- write

    def write(self, group: Group) -> None:
        batch = WriteBatch(raw_mode=True)
        for topic in group.topics.values():
            batch.put(_KEY.pack(TABLES, TOPICS, topic.number), _topic_row(topic))
        for partition, records in group.batches.items():
            topic_number, number = partition.topic.number, partition.number
            for base, entry in encode_entries(records):
                batch.put(_KEY.pack(topic_number, number, base), entry)
        for partition, cursor in group.cursors.items():
            batch.put(_KEY.pack(TABLES, CURSORS, _id(partition)), cursor)
        for partition, low_offset in group.trims.items():
            self._trim(batch, partition, low_offset)
        self._db.write(batch, self._unsynced)
        self.sync()
        self._reclaimer.written()

    def sync(self) -> None:
        """fsync the write-ahead log. Unlike a write with sync=True, this lets other threads run meanwhile."""
        self._db.flush_wal(True)

    def _trim(self, batch: WriteBatch, partition: Partition, low_offset: int) -> None:
        """The log begins at `low_offset` now. Entries wholly below are deleted once enough have come together."""
        deleted_to = self._deleted_to.get(_id(partition), 0)
        log = partition.topic.number, partition.number
        found = self._db.iter()
        base = _seek_entry(found, *log, low_offset)
        if base is not None:
            behind = base if base + read_head(found.value()).records > low_offset else low_offset
            begin_key, behind_key = _KEY.pack(*log, deleted_to), _KEY.pack(*log, behind)
            size = (behind - deleted_to) * (_record_bytes(found) + self._record_bytes_at(begin_key)) // 2
            if size >= DELETE_BYTES_MIN:
                batch.delete_range(begin_key, behind_key)
                self._reclaimer.trimmed(_id(partition), (begin_key, behind_key), size)
                deleted_to = self._deleted_to[_id(partition)] = behind
        row = _START.pack(low_offset, deleted_to)
        batch.put(_KEY.pack(TABLES, STARTS, _id(partition)), row)

    def _record_bytes_at(self, key: bytes) -> int:
        found = self._db.iter()
        found.seek(key)
        return _record_bytes(found)

    # --- read

    def read(self, partition: Partition, offset: int, end: int, records_max: int, bytes_max: int) -> list[LogRecord]:
        try:
            found = self._db.iter()
        except DbClosedError as error:
            raise QueueUnavailable("the queue is closed") from error
        return read_records(found, (partition.topic.number, partition.number), offset, end, records_max, bytes_max)


# --- what stands in the log: also for who opens it beside its owner (`snapshot.py`)


def identity_of(log: Path) -> str:
    """RocksDB gives each of its databases another one."""
    return (log / "IDENTITY").read_text().strip()


def stored_topics(found: RdictIter) -> Iterator[StoredTopic]:
    """Everything that there is. Raises QueueFormat, QueueUnavailable."""
    topics = [_topic(number, row) for number, row in _table(found, TOPICS)]
    starts, cursors = _starts(found), dict(_table(found, CURSORS))
    for number, (topic_id, partitions, name) in topics:
        ids = [number << 32 | index for index in range(partitions)]
        stored = tuple(_partition(found, id_, starts.get(id_, (0, 0)), cursors.get(id_)) for id_ in ids)
        yield StoredTopic(number, name, topic_id, stored)


def read_records(
    found: RdictIter, log: tuple[int, int], offset: int, end: int, records_max: int, bytes_max: int
) -> list[LogRecord]:
    """See `Storage.read`; `log` are the numbers of topic and partition."""
    records: list[LogRecord] = []
    base = _seek_entry(found, *log, offset)
    while base is not None and base < end and records_max > 0 and bytes_max > 0:
        more = decode_entry(found.value(), base, offset, records_max, bytes_max, least=0 if records else 1)
        records += more
        records_max -= len(more)
        bytes_max -= sum(len(record.body) for record in more)
        offset += len(more)
        base = _next_entry(found, *log, offset)
    return records


def _starts(found: RdictIter) -> dict[int, tuple[int, int]]:
    return {id_: _START.unpack(row) for id_, row in _table(found, STARTS)}


def _table(found: RdictIter, table: int) -> Iterator[tuple[int, bytes]]:
    found.seek(_KEY.pack(TABLES, table, 0))
    while _valid(found):
        topic, current, number = _KEY.unpack(found.key())
        if (topic, current) != (TABLES, table):
            return
        yield number, found.value()
        found.next()


def _topic(number: int, row: bytes) -> tuple[int, tuple[bytes, int, str]]:
    if row[0] != TOPIC_VERSION:
        raise QueueFormat(f"a topic of version {row[0]}, this program knows {TOPIC_VERSION}")
    _, topic_id, partitions = _TOPIC.unpack_from(row)
    return number, (topic_id, partitions, row[_TOPIC.size :].decode())


def _partition(found: RdictIter, id_: int, known: tuple[int, int], cursor: bytes | None) -> StoredPartition:
    """The log's end is that of its last entry, or where it was trimmed away altogether."""
    start, _ = known
    base = _seek_entry(found, id_ >> 32, id_ & 0xFFFFFFFF, LAST)
    if base is None:
        return StoredPartition(start, start, cursor)
    head = read_head(found.value())
    return StoredPartition(start, base + head.records, cursor)


def _seek_entry(found: RdictIter, topic: int, partition: int, offset: int) -> int | None:
    """Go to the entry that holds `offset` if any does: the last one that begins at or before it. Its base offset."""
    found.seek_for_prev(_KEY.pack(topic, partition, offset))
    return _base(found, topic, partition)


def _next_entry(found: RdictIter, topic: int, partition: int, offset: int) -> int | None:
    """Go on to the entry that begins with `offset`; None where the current one was not read to its end."""
    found.next()
    return offset if _base(found, topic, partition) == offset else None


def _valid(found: RdictIter) -> bool:
    """Whether there is an entry. A damaged block makes an iterator end as if the log did: then it says so instead,
    for a log that seems shorter would be appended to over what is there. Raises QueueUnavailable."""
    if found.valid():
        return True
    try:
        found.status()
    except Exception as error:
        raise QueueUnavailable(f"the log is damaged: {error}") from error
    return False


def _base(found: RdictIter, topic: int, partition: int) -> int | None:
    if not _valid(found):
        return None
    found_topic, found_partition, base = _KEY.unpack(found.key())
    return base if (found_topic, found_partition) == (topic, partition) else None


def _record_bytes(found: RdictIter) -> int:
    """A sample of how large records are: the mean of the current entry."""
    entry = found.value()
    return len(entry) // read_head(entry).records


def _id(partition: Partition) -> int:
    return partition.topic.number << 32 | partition.number


def _topic_row(topic: Topic) -> bytes:
    return _TOPIC.pack(TOPIC_VERSION, topic.topic_id, len(topic.partitions)) + topic.name.encode()
