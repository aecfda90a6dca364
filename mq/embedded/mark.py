"""The high-water mark: how far the log has been acknowledged, in a file beside the log's folder, and in a second one.

A log that was cut, deleted or put back from an older copy looks whole when it is opened. The mark is what it is
compared with (`examine.py`); the second file, kept elsewhere, shows a log that was put back with its
mark. Page: docs/formats/embedded-log.md; decision: docs/adr/0018-high-water-mark.md.

    page 0, page 1   the same head, written in turn, so that one of them is whole whatever interrupts a write:
                     "DLMARK1\\n" | u64 turn | u64 sequence number | u64 manifest | u64 its bytes | 36 bytes identity
                     | u32 CRC-32 of it
    from page 2 on   rows of 24 bytes: u32 topic | u32 partition | u64 end | u32 CRC-32 | u32 zero

All numbers are big endian. The file is mapped into memory: noting a group costs about 4 us and one fstat, and
what was noted outlives the process (kill -9), because the page cache does. Against a power cut a thread writes it to
the disk once a second. It is never ahead of the log: a group is noted after its fsync.
"""

import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple

import structlog

from delayline.process import threads
from delayline.process.links import read_file

_log = structlog.get_logger("queue")

PAGE = 4096
FILE_BYTES = 1 << 20
ROWS_MAX = (FILE_BYTES - 2 * PAGE) // 24  # rounded down: 8 bytes at the end stay zero
"""Partitions whose ends are noted, 43,349: figures for a refusal. The sequence number judges without them."""

SYNC_S = 1.0
"""How much of the mark a power cut may take back. The log itself is synced with every group."""

_MAGIC = b"DLMARK1\n"
_HEAD = struct.Struct(">8sQQQQ36s")
_CRC = struct.Struct(">I")
_ROW = struct.Struct(">IIQ")
_ROW_WITH_CRC = struct.Struct(">IIQI4x")
_ROW_BYTES = _ROW_WITH_CRC.size

LogId = tuple[int, int]
"""The numbers of a topic and its partition."""


class Acknowledged(NamedTuple):
    """The content of a mark: the log was acknowledged up to `sequence` (RocksDB's number of its last write), in the
    database `identity`, whose file list was `manifest_bytes` of MANIFEST-`manifest`, and whose partitions ended at
    `ends`."""

    identity: str
    sequence: int
    manifest: int
    manifest_bytes: int
    ends: Mapping[LogId, int]


def read_mark(path: Path) -> Acknowledged | None:
    """The content of the file; None where it is cut, or neither head can be believed. Raises OSError:
    IsADirectoryError where something else has its name."""
    data = read_file(path)
    if len(data) != FILE_BYTES:
        return None
    heads = [head for page in (0, PAGE) if (head := _head(data[page : page + PAGE])) is not None]
    if not heads:
        return None
    _, sequence, manifest, manifest_bytes, identity = max(heads)
    rows = _ROW_WITH_CRC.iter_unpack(memoryview(data)[2 * PAGE : 2 * PAGE + ROWS_MAX * _ROW_BYTES])
    ends = {
        (topic, partition): end
        for topic, partition, end, crc in rows
        if topic and crc == zlib.crc32(_ROW.pack(topic, partition, end))
    }
    return Acknowledged(identity, sequence, manifest, manifest_bytes, ends)


def _head(page: bytes) -> tuple[int, int, int, int, str] | None:
    if len(page) < _HEAD.size + 4 or _CRC.unpack_from(page, _HEAD.size)[0] != zlib.crc32(page[: _HEAD.size]):
        return None
    magic, turn, sequence, manifest, manifest_bytes, identity = _HEAD.unpack_from(page)
    return (turn, sequence, manifest, manifest_bytes, identity.decode(errors="replace")) if magic == _MAGIC else None


class Mark:
    """The files, open for noting. `note` belongs to the thread that writes the log."""

    def __init__(self, paths: Sequence[Path], log: Path, acknowledged: Acknowledged) -> None:
        """Make each of the files anew, durably, with `acknowledged` of the database in `log`. Raises OSError."""
        self._log = log
        self._identity = acknowledged.identity.encode()
        self._lock = Lock()
        self._turn = 0
        self._sequence, self._manifest = acknowledged.sequence, (acknowledged.manifest, acknowledged.manifest_bytes)
        self._rows: dict[LogId, int] = {}
        self._free: list[int] = [2 * PAGE + _ROW_BYTES * row for row in reversed(range(ROWS_MAX))]
        self._list = os.open(log / manifest_name(acknowledged.manifest), os.O_RDONLY | os.O_CLOEXEC)
        self._files = [_make(path) for path in paths]
        self._maps = [mmap.mmap(file, FILE_BYTES) for file in self._files]
        self.note(acknowledged.sequence, [(*log_id, end) for log_id, end in acknowledged.ends.items()])
        for file, path in zip(self._files, paths, strict=True):
            os.fdatasync(file)
            _put_in_place(path)
        self._synced = self._turn
        self._closing = Event()
        self._thread = threads.lasting("embedded-queue-mark", self._run, self._closing)
        self._thread.start()

    def note(self, sequence: int, ends: Iterable[tuple[int, int, int]]) -> None:
        """Everything up to `sequence` is durable; (topic, partition, end) for the partitions that it has made longer.
        Hot: once per group, before anything of it is acknowledged."""
        with self._lock:
            for topic, partition, end in ends:
                at = self._rows.get((topic, partition)) or self._new_row(topic, partition)
                if at:
                    row = _ROW.pack(topic, partition, end)
                    self._put(at, row + _CRC.pack(zlib.crc32(row)) + b"\0\0\0\0")
            self._sequence = sequence
            self._look_at_list()
            self._write_head()

    def _put(self, at: int, data: bytes) -> None:
        for mapped in self._maps:
            mapped[at : at + len(data)] = data

    def _look_at_list(self) -> None:
        """The list of files grows in few groups. One that were cut to what it was before it named a write-ahead log
        and the tables made of it would agree with everything else, so its length counts at once; but never before it
        is on the disk, or a power cut could leave a whole log that seems short."""
        size = os.fstat(self._list).st_size
        if size != self._manifest[1]:
            os.fdatasync(self._list)
            self._manifest = self._manifest[0], size

    def _new_row(self, topic: int, partition: int) -> int:
        if not self._free:
            return 0
        at = self._rows[topic, partition] = self._free.pop()
        return at

    def forget(self, topic: int, partitions: int) -> None:
        """The topic is deleted: its rows may be used again."""
        with self._lock:
            for partition in range(partitions):
                at = self._rows.pop((topic, partition), None)
                if at is not None:
                    self._put(at, bytes(_ROW_BYTES))
                    self._free.append(at)

    def _write_head(self) -> None:
        self._turn += 1
        head = _HEAD.pack(_MAGIC, self._turn, self._sequence, *self._manifest, self._identity)
        self._put(PAGE * (self._turn & 1), head + _CRC.pack(zlib.crc32(head)))

    def _run(self) -> None:
        while not self._closing.wait(SYNC_S):
            try:
                self._sync()
            except (OSError, ValueError) as error:
                # The page cache has the mark all the same; the next turn tries again.
                _log.warning("the high-water mark was not synced", detail=str(error))

    def _sync(self) -> None:
        """To the disk, with the length of RocksDB's list of files, once that length is on the disk itself."""
        number, size = synced_manifest(self._log)
        with self._lock:
            if number != self._manifest[0]:  # RocksDB has begun a new list
                os.close(self._list)
                self._list = os.open(self._log / manifest_name(number), os.O_RDONLY | os.O_CLOEXEC)
            if number != self._manifest[0] or size > self._manifest[1]:
                self._manifest = number, size
                self._write_head()
            if self._turn == self._synced:
                return
            self._synced = self._turn
        for file in self._files:
            os.fdatasync(file)

    def close(self) -> None:
        """After the log is closed, so that what closing has written counts."""
        self._closing.set()
        self._thread.join()
        try:
            self._sync()
        finally:
            for mapped in self._maps:
                mapped.close()
            for file in (*self._files, self._list):
                os.close(file)


def manifest_of(log: Path) -> tuple[int, int]:
    """(number, bytes) of the file list that `CURRENT` names. Raises OSError, ValueError (it names none)."""
    name = read_file(log / "CURRENT").decode(errors="replace").strip()
    if re.fullmatch(r"MANIFEST-[0-9]{6,18}", name) is None:
        raise ValueError("CURRENT names no MANIFEST")
    return int(name.removeprefix("MANIFEST-")), (log / name).stat().st_size


def manifest_name(number: int) -> str:
    return f"MANIFEST-{number:06}"


def synced_manifest(log: Path) -> tuple[int, int]:
    """The same, once so much of it is on the disk. Raises OSError, ValueError."""
    number, size = manifest_of(log)
    file = os.open(log / manifest_name(number), os.O_RDONLY)
    try:
        os.fdatasync(file)
    finally:
        os.close(file)
    return number, size


def _make(path: Path) -> int:
    """A file of zeros beside `path`, with its room reserved: a full disk must not end the process by SIGBUS."""
    file = os.open(_unfinished(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.posix_fallocate(file, 0, FILE_BYTES)
    return file


def _put_in_place(path: Path) -> None:
    _unfinished(path).rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unfinished(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")
