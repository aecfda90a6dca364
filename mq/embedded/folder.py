"""The embedded queue's folder.

LOCK        locked (flock) while a process has the queue open; its text names that process
queue.json  format version and namespace; whether there is a mark; with which data key it is encrypted
log/        RocksDB
topics.json  the rows of the log's topics a second time (`topics_copy.py`)
lost-*/     what was thrown away with `--accept-loss`

Beside it, under its name and `.mark`, is the high-water mark (`mark.py`): an older copy of the folder shows.
Reading all of it changes none of it; `Folder.make` is what makes and writes.
"""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from delayline.process.durably import UNFINISHED, write_durably
from delayline.process.links import irregular, read_file, refuse_irregular
from delayline.times import format_moment
from mq.embedded.topics_copy import TOPICS_COPY, read_copy
from mq.errors import QueueFormat, QueueLocked, QueueUnavailable

if TYPE_CHECKING:
    from delayline.encryption.data_key import DataKey

FORMAT_VERSION = 1
LOST = "lost-"
"""What the names of folders begin with that keep what an accepted loss has replaced."""
SETTINGS = "queue.json"


class Marker(msgspec.Struct, frozen=True, omit_defaults=True):
    """`queue.json`. `data_key` is the id of the data key that the log is encrypted with, empty where it is not;
    `encrypting`, that only a part of it is so far."""

    embedded_queue: int
    namespace: str
    marked: bool = False
    data_key: str = ""
    encrypting: bool = False


class Folder:
    """A folder that is this process's alone until `close`, where it is there. Nothing is made before `make`."""

    def __init__(
        self, path: Path, namespace: str, data_key: "DataKey | None" = None, *, to_encrypt: bool = False
    ) -> None:
        """`data_key` is that of an encrypted queue, `to_encrypt` opens one that is to become one. Raises
        QueueUnavailable, QueueLocked, QueueFormat (also: it is encrypted in another way)."""
        self.path = path
        self.log = path / "log"
        self.mark = mark_of(path)
        self.topics_copy = path / TOPICS_COPY
        self.trouble = ""
        """Why `queue.json` of a folder that holds a log cannot be believed; empty where it can."""
        self.data_key_id = "" if data_key is None else data_key.id.hex()
        self._expected = Marker(FORMAT_VERSION, namespace, data_key=self.data_key_id)
        self._to_encrypt = to_encrypt
        if path.is_symlink() and not path.exists():
            raise QueueUnavailable(
                f"the queue's folder {path} is a link that leads nowhere: put back what it leads to"
            )
        with translated_errors(path):
            self._lock = _lock(path / "LOCK")
            try:
                self._marker = self._read()
                self.copied = read_copy(self.topics_copy)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    @property
    def marked(self) -> bool:
        """Whether the log has a high-water mark, so that one that is gone is missed."""
        return bool(self.trouble) or (self._marker is not None and self._marker.marked)

    def make(self) -> None:
        """What is missing of it. Raises QueueUnavailable, QueueLocked."""
        with translated_errors(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._lock is None:
                self._lock = _lock(self.path / "LOCK", make=True)
            _sign(self._lock)
            if self._marker is None:
                self._write(self._expected)
                self.trouble = ""

    def note_marked(self) -> None:
        """From now on it has a mark. Raises QueueUnavailable."""
        if not self.marked:
            with translated_errors(self.path):
                self._write(msgspec.structs.replace(self._expected, marked=True))

    def refuse_other_key(self, known: "DataKey | None") -> None:
        """Raises QueueFormat where it is encrypted, be it in part, with another data key than `known`."""
        begun = "" if self._marker is None else self._marker.data_key
        if begun and (known is None or known.id.hex() != begun):
            raise QueueFormat(
                f"the queue in {self.path} is encrypted with the data key {begun}: put back encryption.json, which "
                f"holds it. Nothing was changed"
            )

    @property
    def encrypted(self) -> bool:
        """Whether all of it is."""
        return self._marker is not None and bool(self._marker.data_key) and not self._marker.encrypting

    def note_encrypting(self, data_key: "DataKey", *, done: bool) -> None:
        """That it is encrypted with this data key, in part or (`done`) as a whole. Raises QueueUnavailable."""
        with translated_errors(self.path):
            expected = msgspec.structs.replace(self._expected, marked=self.marked, data_key=data_key.id.hex())
            self._write(msgspec.structs.replace(expected, encrypting=not done))

    def _write(self, marker: Marker) -> None:
        write_durably(self.path / SETTINGS, msgspec.json.encode(marker) + b"\n")
        self._marker = marker

    def _read(self) -> Marker | None:
        """The content of `queue.json`; None where there is no queue yet, or `trouble`."""
        file = self.path / SETTINGS
        if kind := irregular(file):
            self.trouble = f"{file} {kind}"
            return None
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            self.trouble = self._without_settings()
            return None
        if not data.strip():
            self.trouble = f"{file} is empty"
            return None
        try:
            found = _compare(self.path, data, self._expected)
        except msgspec.DecodeError as error:
            self.trouble = f"{file} cannot be read: {error}"
            return None
        if not self._to_encrypt:
            _compare_keys(self.path, found, self._expected)
        return found

    def _without_settings(self) -> str:
        names = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        if self.log.name in names:
            return f"{self.path / SETTINGS} is gone"
        known = {"LOCK", TOPICS_COPY, SETTINGS + UNFINISHED, TOPICS_COPY + UNFINISHED}
        if any(name not in known and not name.startswith(LOST) for name in names):
            raise QueueFormat(f"{self.path} is not empty and holds no embedded queue")
        return ""


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Errors of the system as QueueUnavailable, with the file that they are about."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename not in (None, str(path)) else ""
        raise QueueUnavailable(f"the queue's folder {path} cannot be used: {error.strerror}{where}") from error


def mark_of(path: Path) -> Path:
    """The high-water mark of the queue in the folder `path`."""
    return path.with_name(f"{path.name}.mark")


def data_key_id_of(path: Path) -> str:
    """The id of the data key that the queue in the folder is encrypted with, be it in part; empty where it is not, or
    where that cannot be read."""
    found = _marker_in(path)
    return "" if found is None else found.data_key


def refuse_other_keys(path: Path, data_key: "DataKey | None") -> None:
    """Raises QueueFormat where the queue in the folder is encrypted in another way than with this data key, as far as
    `queue.json` can be read."""
    if (found := _marker_in(path)) is not None:
        key_id = "" if data_key is None else data_key.id.hex()
        _compare_keys(path, found, msgspec.structs.replace(found, data_key=key_id))


def _marker_in(path: Path) -> Marker | None:
    try:
        return msgspec.json.decode(read_file(path / SETTINGS), type=Marker)
    except (OSError, msgspec.DecodeError):
        return None


def check_marker(path: Path, namespace: str, data_key: "DataKey | None" = None) -> None:
    """For who looks into the folder of a queue that another process may have open. Raises QueueFormat, and
    QueueUnavailable where there is no queue."""
    expected = Marker(FORMAT_VERSION, namespace, data_key="" if data_key is None else data_key.id.hex())
    try:
        _compare_keys(path, _compare(path, read_file(path / SETTINGS), expected), expected)
    except OSError as error:
        raise QueueUnavailable(f"there is no queue in {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise QueueFormat(f"{path / SETTINGS} cannot be read: {error}") from error


def put_aside(path: Path, at_ms: int, *, folder: bool = False) -> None:
    """Rename what has the place of a file (or of a folder), and is none, or leads nowhere. Raises OSError."""
    if os.path.lexists(path) and (not path.is_dir() if folder else irregular(path)):
        path.rename(path.with_name(f"{path.name}.lost-{at_ms}"))


def _lock(path: Path, *, make: bool = False) -> IO[bytes] | None:
    """flock belongs to the open file: a second open in this very process is refused as well. None where there is no
    such file, and it is not to be made."""
    refuse_irregular(path)
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o600), "r+b")
    except FileNotFoundError:
        if make:
            raise
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise QueueLocked(f"the queue in {path.parent} is in use by another process{_signed(path)}") from error
    return file


def _sign(lock: IO[bytes] | None) -> None:
    """For people alone: the error of a second process names the first. A full disk is no reason not to open."""
    if lock is not None:
        with suppress(OSError):
            os.ftruncate(lock.fileno(), 0)
            os.pwrite(lock.fileno(), f"{os.getpid()} on {socket.gethostname()}".encode(), 0)


def _signed(path: Path) -> str:
    """Who has signed; empty where that process has ended: a command that only reads does not sign."""
    with suppress(OSError):
        who = path.read_bytes()[:300].decode(errors="replace")
        if who and not _has_ended(who):
            return f": {who} since {format_moment(path.stat().st_mtime_ns // 1_000_000)}"
    return ""


def _has_ended(who: str) -> bool:
    """Of a process of this machine; nothing is known of others."""
    pid, _, host = who.partition(" on ")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    with suppress(PermissionError):  # there is one, of another user
        try:
            os.kill(int(pid), 0)
        except (ProcessLookupError, OverflowError):
            return True
    return False


def _compare(path: Path, data: bytes, expected: Marker) -> Marker:
    """Raises QueueFormat, msgspec.DecodeError."""
    found = msgspec.json.decode(data, type=Marker)
    if found.embedded_queue != expected.embedded_queue:
        raise QueueFormat(
            f"the queue in {path} has format {found.embedded_queue}, this program knows {expected.embedded_queue}"
        )
    if found.namespace != expected.namespace:
        raise QueueFormat(
            f"the queue in {path} belongs to the namespace {found.namespace!r}, not {expected.namespace!r}"
        )
    return found


def _compare_keys(path: Path, found: Marker, expected: Marker) -> None:
    """Raises QueueFormat."""
    if found.encrypting:
        raise QueueFormat(f"the queue in {path} is encrypted in part: let `delayline data encrypt` finish it")
    if found.data_key == expected.data_key:
        return
    if not found.data_key:
        raise QueueFormat(f"the queue in {path} is not encrypted: `delayline data encrypt` does it")
    if not expected.data_key:
        raise QueueFormat(
            f"the queue in {path} is encrypted with the data key {found.data_key}: set store.encryption_key, and put "
            f"back encryption.json beside the queue if it is gone. Nothing was changed"
        )
    raise QueueFormat(
        f"the queue in {path} is encrypted with the data key {found.data_key}, and encryption.json holds "
        f"{expected.data_key}: put back the file that belongs to the queue. Nothing was changed"
    )
