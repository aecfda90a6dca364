"""The embedded queue's folder.

LOCK        locked (flock) while a process has the queue open
queue.json  format version and namespace; whether there is a mark
log/        RocksDB
lost-*/     what was thrown away of the log with `--accept-loss`

Beside it, under its name and `.mark`, is the high-water mark (`mark.py`): an older copy of the folder shows.
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
    marked: bool = False


class Folder:
    """A folder that is this process's alone until `close`."""

    def __init__(self, path: Path, namespace: str) -> None:
        """Make or open it. Raises QueueUnavailable, QueueLocked, QueueFormat."""
        self.path = path
        self.log = path / "log"
        self.mark = mark_of(path)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(path / "LOCK")
            self._marker = self._check(Marker(FORMAT_VERSION, namespace))
        except OSError as error:
            raise QueueUnavailable(f"the queue's folder {path} cannot be used: {error.strerror}") from error

    def close(self) -> None:
        self._lock.close()

    @property
    def marked(self) -> bool:
        """Whether the log has a high-water mark, so that one that is gone is missed."""
        return self._marker.marked

    def note_marked(self) -> None:
        """From now on it has. Raises QueueUnavailable."""
        if not self.marked:
            self._marker = msgspec.structs.replace(self._marker, marked=True)
            try:
                _write_durably(self.path / "queue.json", msgspec.json.encode(self._marker) + b"\n")
            except OSError as error:
                raise QueueUnavailable(f"the queue's folder {self.path} cannot be used: {error.strerror}") from error

    def _check(self, expected: Marker) -> Marker:
        try:
            return self._settle(expected)
        except BaseException:
            self.close()
            raise

    def _settle(self, expected: Marker) -> Marker:
        """Compare the folder's marker, or write it into an empty folder."""
        file = self.path / "queue.json"
        if file.exists():
            return _compare(self.path, file.read_bytes(), expected)
        if any(entry.name not in ("LOCK", UNFINISHED) for entry in self.path.iterdir()):
            raise QueueFormat(f"{self.path} is not empty and holds no embedded queue")
        _write_durably(file, msgspec.json.encode(expected) + b"\n")
        return expected


def mark_of(path: Path) -> Path:
    """The high-water mark of the queue in the folder `path`."""
    return path.with_name(f"{path.name}.mark")


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


def _compare(path: Path, data: bytes, expected: Marker) -> Marker:
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
    return found


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
