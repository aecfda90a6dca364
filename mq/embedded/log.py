"""The back end on RocksDB.

    key = u32 topic | u32 partition | u64 number        all big endian; topic 0 holds the tables below

    (t, p, offset of the first record)   entry: see `entry.py`
    (0, 1, t)                            topic t: u8 version (1) | 16 bytes topic id | u32 partitions | name
    (0, 2, t << 32 | p)                  a trimmed log: u64 start | u64 deleted up to | u64 latest append time
    (0, 3, t << 32 | p)                  the cursor of the shard that this buffer partition is
    (0, 5, 0)                            u32, the highest number of a topic that was deleted
    (0, 4, epoch ms)                     what was missing, and that the operator has accepted it: JSON (`salvage.py`)

A group is one WriteBatch in the write-ahead log, then one fsync. Page: docs/formats/embedded-log.md.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import DbClosedError, Rdict, RdictIter, WriteBatch, WriteOptions

from mq.contract import LogRecord
from mq.embedded.encrypted import encrypted
from mq.embedded.entry import encode_entries, read_head
from mq.embedded.mark import Acknowledged, LogId, Mark, synced_manifest
from mq.embedded.reclaim import Reclaimer
from mq.embedded.stored import (
    CURSORS,
    KEY,
    NUMBER,
    NUMBERS_KEY,
    START,
    STARTS,
    TABLES,
    TOPIC,
    TOPIC_VERSION,
    TOPICS,
    identity_of,
    read_records,
    seek_entry,
    starts,
    stored_topics,
    table,
    valid,
)
from mq.embedded.topics_copy import TopicsCopy
from mq.embedded.tuning import MIB, options
from mq.errors import QueueFormat, QueueUnavailable
from mq.local.group import Group
from mq.local.storage import StoredTopic
from mq.local.topic import Partition, Topic

if TYPE_CHECKING:
    from delayline.encryption.cipher import Cipher

TRIM_COMPACT_BYTES = 256 * MIB
"""How much trimmed log may wait for RocksDB's own compactions before the range is compacted by us."""

DELETE_BYTES_MIN = 256 << 10
"""How much of a partition one range tombstone covers at least. Every one in the memtable makes every seek slower
(1000 of them: 0.3 ms); so there are 128 for a memtable of 32 MiB at most."""


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
        cipher: "Cipher | None" = None,
    ) -> None:
        """`cipher` encrypts the records, and must be that of a log that is there."""
        self._folder = folder
        self._disk_free_min_bytes = disk_free_min_bytes
        self._free_bytes = free_bytes
        self._unsynced = WriteOptions()
        self._unsynced.sync = False
        self._deleted_to: dict[int, int] = {}
        self._cipher = cipher
        self._closed = False
        self._damage: str | None = None
        self._mark: Mark | None = None
        self._topics_copy: TopicsCopy | None = None
        try:
            self._db = Rdict(str(folder), options(create=True))
        except Exception as error:
            raise QueueUnavailable(f"the log in {folder} cannot be opened: {error}") from error
        self._reclaimer = Reclaimer(self._db, trim_compact_bytes)
        row = self._db.get(NUMBERS_KEY)
        self._highest: int = 0 if row is None else NUMBER.unpack(row)[0]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._reclaimer.close()
            try:
                self._db.close()
            finally:
                if self._mark is not None:
                    self._mark.close()

    def sequence(self) -> int:
        """RocksDB's number of the last write: it only grows, and what is lost of the log shows in it."""
        return self._db.latest_sequence_number()

    def keep_marks(self, paths: Sequence[Path], ends: Mapping[LogId, int]) -> None:
        """From now on note every group in the high-water marks `paths`, before it is acknowledged; the partitions
        end at `ends`. Raises QueueUnavailable."""
        try:
            manifest, size = synced_manifest(self._folder)
            acknowledged = Acknowledged(self.identity(), self.sequence(), manifest, size, ends)
            self._mark = Mark(paths, self._folder, acknowledged)
        except OSError as error:
            path = error.filename2 or error.filename or paths[0]
            raise QueueUnavailable(f"the high-water mark {path} cannot be written: {error.strerror}") from error

    def keep_topics(self, file: Path) -> None:
        """From now on keep the topics' rows in `file` as well. Raises QueueUnavailable."""
        try:
            self._topics_copy = TopicsCopy(file, self.identity(), table(self._db.iter(), TOPICS))
        except OSError as error:
            raise QueueUnavailable(f"{file} cannot be written: {error.strerror}") from error

    def identity(self) -> str:
        return identity_of(self._folder)

    def full(self) -> str | None:
        if self._damage is not None:
            return self._damage  # what comes next might hang on what cannot be read
        free = self._free_bytes(self._folder)
        if free >= self._disk_free_min_bytes:
            return None
        kept = self._disk_free_min_bytes
        return f"the disk that holds {self._folder} has {free >> 20} MiB left, and {kept >> 20} MiB are kept free"

    # --- load

    def last_number(self) -> int:
        """The highest number that a deleted topic had; 0 where none was."""
        return self._highest

    def load(self) -> Iterable[StoredTopic]:
        found = self._db.iter()
        self._deleted_to = {id_: deleted_to for id_, (_, deleted_to) in starts(found).items()}
        return stored_topics(found)

    # --- write

    def write(self, group: Group) -> None:
        if self._topics_copy is not None and (group.topics or group.deletes):
            rows = ((topic.number, _topic_row(topic)) for topic in group.topics.values())
            self._topics_copy.change(rows, [topic.number for topic in group.deletes])
        batch = WriteBatch(raw_mode=True)
        for topic in group.topics.values():
            batch.put(KEY.pack(TABLES, TOPICS, topic.number), _topic_row(topic))
        for partition, records in group.batches.items():
            topic_number, number = partition.topic.number, partition.number
            for base, entry in encode_entries(records):
                key = KEY.pack(topic_number, number, base)
                batch.put(key, entry if self._cipher is None else encrypted(key, entry, self._cipher))
        for partition, cursor in group.cursors.items():
            batch.put(KEY.pack(TABLES, CURSORS, _id(partition)), cursor)
        for partition, low_offset in group.trims.items():
            self._trim(batch, partition, low_offset)
        for topic in group.deletes:
            self._delete(batch, topic)
        self._db.write(batch, self._unsynced)
        self.sync()
        if self._mark is not None:
            self._mark.note(self.sequence(), _ends(group))
            for topic in group.deletes:
                self._mark.forget(topic.number, len(topic.partitions))
        self._reclaimer.written()

    def sync(self) -> None:
        """fsync the write-ahead log. Unlike a write with sync=True, this lets other threads run meanwhile."""
        self._db.flush_wal(True)

    def _delete(self, batch: WriteBatch, topic: Topic) -> None:
        """Rows and records; its number is kept, so that no other topic gets it."""
        begin, behind = KEY.pack(topic.number, 0, 0), KEY.pack(topic.number + 1, 0, 0)
        batch.delete(KEY.pack(TABLES, TOPICS, topic.number))
        for partition in topic.partitions:
            batch.delete(KEY.pack(TABLES, STARTS, _id(partition)))
            batch.delete(KEY.pack(TABLES, CURSORS, _id(partition)))
        batch.delete_range(begin, behind)
        self._highest = max(self._highest, topic.number)
        batch.put(NUMBERS_KEY, NUMBER.pack(self._highest))
        self._reclaimer.deleted(_id(topic.partitions[0]), (begin, behind))

    def _trim(self, batch: WriteBatch, partition: Partition, low_offset: int) -> None:
        """The log begins at `low_offset` now. Entries wholly below are deleted once enough have come together."""
        deleted_to = self._deleted_to.get(_id(partition), 0)
        log = partition.topic.number, partition.number
        found = self._db.iter()
        base = seek_entry(found, *log, low_offset)
        if base is not None:
            behind = base if base + read_head(found.value()).records > low_offset else low_offset
            begin_key, behind_key = KEY.pack(*log, deleted_to), KEY.pack(*log, behind)
            size = (behind - deleted_to) * (_record_bytes(found) + self._record_bytes_at(begin_key)) // 2
            if size >= DELETE_BYTES_MIN:
                batch.delete_range(begin_key, behind_key)
                self._reclaimer.trimmed(_id(partition), (begin_key, behind_key), size)
                deleted_to = self._deleted_to[_id(partition)] = behind
        row = START.pack(low_offset, deleted_to)
        batch.put(KEY.pack(TABLES, STARTS, _id(partition)), row)

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
        log = partition.topic.number, partition.number
        try:
            records = read_records(found, log, offset, end, records_max, bytes_max, self._cipher)
        except (QueueUnavailable, QueueFormat) as error:
            self._damage = f"{error}: {partition.topic.name}, partition {partition.name}, from offset {offset} on"
            raise QueueUnavailable(self._damage) from error
        if not records and partition.start <= offset and not partition.topic.deleted:
            where = f"{partition.topic.name}, partition {partition.name}: there is no record at offset {offset}"
            self._damage = f"the log is damaged: {where}"
            raise QueueUnavailable(self._damage)
        return records

    def sizes(self, partition: Partition, since: int) -> Iterator[tuple[int, int, int]]:
        """(append time, offset behind it, bytes) of the entries that begin at or behind `since`."""
        found = self._db.iter()
        log = partition.topic.number, partition.number
        found.seek(KEY.pack(*log, since))
        while valid(found):
            *found_log, base = KEY.unpack(found.key())
            if tuple(found_log) != log:
                return
            entry = found.value()
            head = read_head(entry)
            yield head.appended_at_ms, base + head.records, len(entry)
            found.next()

    def trouble(self) -> str | None:
        return self._damage


def _ends(group: Group) -> Iterator[tuple[int, int, int]]:
    for partition, records in group.batches.items():
        yield partition.topic.number, partition.number, records.base_offset + len(records.bodies)


def _record_bytes(found: RdictIter) -> int:
    """A sample of how large records are: the mean of the current entry."""
    entry = found.value()
    return len(entry) // read_head(entry).records


def _id(partition: Partition) -> int:
    return partition.topic.number << 32 | partition.number


def _topic_row(topic: Topic) -> bytes:
    return TOPIC.pack(TOPIC_VERSION, topic.topic_id, len(topic.partitions)) + topic.name.encode()
