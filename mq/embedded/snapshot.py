"""What the queue in a folder holds at one moment, for who looks at it while another process has it open.

RocksDB calls this a secondary instance: it reads the same files, keeps those open that it needs, and writes none of
them (its binding writes its settings once more, as they are there). What has not been written to a table yet it
reads from the write-ahead log into memory: up to 256 MiB.

A write-ahead log can go while it opens: its records have been written to a table, of which it has read nothing yet,
and they would be missing. So a view counts only if no file of the log went in the meantime. What it shows may not be
on the disk for good: the owner acknowledges no record before that.
"""

import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rocksdict import AccessType, Rdict

from mq.contract import LogRecord
from mq.embedded.encrypted import PURPOSE
from mq.embedded.folder import check_marker
from mq.embedded.stored import identity_of, read_records, stored_topics
from mq.embedded.tuning import options
from mq.errors import OffsetOutOfRange, PartitionUnknown, QueueUnavailable, TopicUnknown
from mq.local.storage import StoredPartition, StoredTopic

if TYPE_CHECKING:
    from delayline.encryption.data_key import DataKey

TRIES = 20
"""The owner closes a write-ahead log after 32 MiB: not twenty times in a row while its files are listed."""

CHUNK_RECORDS, CHUNK_BYTES = 5000, 8 << 20


class Snapshot:
    """A context manager; it does not change."""

    def __init__(self, folder: Path, namespace: str, data_key: "DataKey | None" = None) -> None:
        """Raises QueueUnavailable (there is no queue, or it cannot be read), QueueFormat (also: it is encrypted with
        another data key, or not)."""
        check_marker(folder, namespace, data_key)
        self._cipher = None if data_key is None else data_key.cipher(PURPOSE)
        self._log = folder / "log"
        self._scratch = tempfile.TemporaryDirectory(prefix="delayline-snapshot-")
        try:
            self._db = self._open()
        except BaseException:
            self._scratch.cleanup()
            raise

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._scratch.cleanup()

    def _open(self) -> Rdict:
        trouble: object = "its write-ahead log goes faster than it can be read"
        for _ in range(TRIES):
            before = self._write_ahead()
            try:
                db = self._secondary()
            except Exception as error:  # noqa: BLE001 - a file may have gone while it was looked for
                trouble = error
                continue
            if before <= self._write_ahead():
                return db
            db.close()
        raise QueueUnavailable(f"the log in {self._log} cannot be read beside its owner: {trouble}")

    def _secondary(self) -> Rdict:
        chosen = options()
        chosen.set_max_open_files(-1)  # every table is opened now, and can go afterwards
        return Rdict(str(self._log), chosen, access_type=AccessType.secondary(self._scratch.name))

    def _write_ahead(self) -> set[str]:
        return {file.name for file in self._log.glob("*.log")}

    @property
    def identity(self) -> str:
        """Another one in every folder, and for ever the same."""
        return identity_of(self._log)

    @cached_property
    def topics(self) -> Mapping[str, StoredTopic]:
        """By name. Raises QueueFormat, QueueUnavailable."""
        return {topic.name: topic for topic in stored_topics(self._db.iter())}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[list[LogRecord]]:
        """The records `[start, end)`, in chunks. Raises OffsetOutOfRange for what is not there (also below where the
        log was trimmed), TopicUnknown, PartitionUnknown."""
        held = self._held(topic, partition)
        what = f"{topic}, partition {partition}"
        if start < end and not held.start <= start <= end <= held.end:
            raise OffsetOutOfRange(f"{what}: [{start}, {end}) is not within [{held.start}, {held.end})")
        log = self.topics[topic].number, partition
        while start < end:
            most = min(CHUNK_RECORDS, end - start)
            records = read_records(self._db.iter(), log, start, end, most, CHUNK_BYTES, self._cipher)
            if not records:
                raise QueueUnavailable(f"{what}: there is no record at offset {start}")
            yield records
            start = records[-1].offset + 1

    def _held(self, topic: str, partition: int) -> StoredPartition:
        if topic not in self.topics:
            raise TopicUnknown(f"there is no topic {topic!r}")
        partitions = self.topics[topic].partitions
        if not 0 <= partition < len(partitions):
            raise PartitionUnknown(f"{topic} has no partition {partition}")
        return partitions[partition]
