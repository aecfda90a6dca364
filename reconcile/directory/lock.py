"""One run at a time in an output directory.

The lock is a file that is created exclusively and names its holder. A run that was killed leaves it behind: on the
same machine the next run sees that the process is gone and takes the lock over; from elsewhere that cannot be known,
and an operator has to remove it. What a run publishes it publishes only while the lock is its own, so that even two
that both believed to have taken it over cannot both commit.
"""

import os
import socket
from pathlib import Path
from typing import NoReturn

import msgspec

from delayline.process import logs
from delayline.times import format_moment
from reconcile.directory.files import Files
from reconcile.errors import RunInProgress

LOCK = "lock"

log = logs.get(__name__)


class Holder(msgspec.Struct, frozen=True):
    """A process. `born` distinguishes it from a later one with its number: ticks since the machine's start, or 0
    where that is unknown."""

    host: str
    pid: int
    born: int
    since_ms: int


def this_process(now_ms: int) -> Holder:
    return Holder(socket.gethostname(), os.getpid(), _born(os.getpid()) or 0, now_ms)


def is_gone(holder: Holder) -> bool:
    """Whether the process is known to have ended: only one of this machine is."""
    if holder.host != socket.gethostname():
        return False
    if not Path("/proc/self/stat").exists():
        return not _answers(holder.pid)
    return _born(holder.pid) != holder.born


def _born(pid: int) -> int | None:
    """Field 22 of proc(5)'s stat; the name in field 2 may hold anything, but ends with the last parenthesis."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return None


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Lock:
    """Held from `take` to `release`."""

    def __init__(self, files: Files, holder: Holder) -> None:
        self._files = files
        self._bytes = msgspec.json.encode(holder)

    def take(self) -> None:
        """Raises RunInProgress."""
        if self._files.create(LOCK, self._bytes):
            return
        found = self._files.read(LOCK)
        holder = _decoded(found)
        if found is not None and (holder is None or not is_gone(holder)):
            raise RunInProgress(self._sentence(holder))
        log.warning("lock_taken_over", held_by=str(holder))
        if self._files.read(LOCK) == found:
            self._files.remove(LOCK)
        if not self._files.create(LOCK, self._bytes):
            raise RunInProgress(self._sentence(_decoded(self._files.read(LOCK))))

    def check(self) -> None:
        """Raises RunInProgress: another run has the lock now."""
        if self._files.read(LOCK) != self._bytes:
            self.lose()

    def lose(self) -> NoReturn:
        """Raises RunInProgress: what this run was to commit has been committed already."""
        raise RunInProgress(self._sentence(_decoded(self._files.read(LOCK))))

    def release(self) -> None:
        if self._files.read(LOCK) == self._bytes:
            self._files.remove(LOCK)

    def _sentence(self, holder: Holder | None) -> str:
        path = f"{self._files.root.removeprefix('file://')}/{LOCK}"
        if holder is None:
            return f"{path} is gone or cannot be read. If no other run goes on here, remove it and start again."
        return (
            f"another run writes into this directory: process {holder.pid} on {holder.host} "
            f"since {format_moment(holder.since_ms)}. If it has been killed, remove {path} and start again; what it "
            f"began is repeated."
        )


def _decoded(data: bytes | None) -> Holder | None:
    try:
        return msgspec.json.decode(data or b"", type=Holder)
    except (ValueError, RecursionError):
        return None
