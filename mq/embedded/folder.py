"""The embedded queue's folder.

LOCK        locked (flock) while a process has the queue open
queue.json  format version and namespace
log/        RocksDB
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import IO

import msgspec

from mq.errors import QueueFormat, QueueLocked, QueueUnavailable

FORMAT_VERSION = 1
UNFINISHED = "queue.json.new"


class Marker(msgspec.Struct, frozen=True):
    """`queue.json`."""

    embedded_queue: int
    namespace: str


class Folder:
    """A folder that is this process's alone until `close`."""

    def __init__(self, path: Path, namespace: str) -> None:
        """Make or open it. Raises QueueUnavailable, QueueLocked, QueueFormat."""
        self.path = path
        self.log = path / "log"
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path / "LOCK")
            self._check(Marker(FORMAT_VERSION, namespace))
        except OSError as error:
            raise QueueUnavailable(f"the queue's folder {path} cannot be used: {error.strerror}") from error

    def close(self) -> None:
        self._lock.close()

    def _check(self, expected: Marker) -> None:
        try:
            self._mark(expected)
        except BaseException:
            self.close()
            raise

    def _mark(self, expected: Marker) -> None:
        """Compare the folder's marker, or write it into an empty folder."""
        file = self.path / "queue.json"
        if file.exists():
            _compare(self.path, file.read_bytes(), expected)
        elif any(entry.name not in ("LOCK", UNFINISHED) for entry in self.path.iterdir()):
            raise QueueFormat(f"{self.path} is not empty and holds no embedded queue")
        else:
            _write_durably(file, msgspec.json.encode(expected) + b"\n")


def check_marker(path: Path, namespace: str) -> None:
    """For who looks into the folder of a queue that another process may have open. Raises QueueFormat, and
    QueueUnavailable where there is no queue."""
    try:
        data = (path / "queue.json").read_bytes()
    except OSError as error:
        raise QueueUnavailable(f"there is no queue in {path}: {error.strerror}") from error
    _compare(path, data, Marker(FORMAT_VERSION, namespace))


def _lock(path: Path) -> IO[bytes]:
    """flock belongs to the open file: a second open in this very process is refused as well."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise QueueLocked(f"the queue in {path.parent} is in use by another process") from error
    return file


def _compare(path: Path, data: bytes, expected: Marker) -> None:
    try:
        found = msgspec.json.decode(data, type=Marker)
    except msgspec.DecodeError as error:
        raise QueueFormat(f"{path / 'queue.json'} cannot be read: {error}") from error
    if found.embedded_queue != expected.embedded_queue:
        raise QueueFormat(
            f"the queue in {path} has format {found.embedded_queue}, this program knows {expected.embedded_queue}"
        )
    if found.namespace != expected.namespace:
        raise QueueFormat(
            f"the queue in {path} belongs to the namespace {found.namespace!r}, not {expected.namespace!r}"
        )


def _write_durably(file: Path, data: bytes) -> None:
    """A crash leaves no file or the whole one; so do the folders that lead to it."""
    unfinished = file.with_name(UNFINISHED)
    with unfinished.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    unfinished.rename(file)
    for folder in (file.parent, file.parent.parent):
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
