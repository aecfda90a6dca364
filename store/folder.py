"""The folder of a time index: its lock, and what keeps it from being opened. Page: docs/formats/index-keys.md."""

import fcntl
import os
from pathlib import Path

from delayline.process.links import no_file, refuse_irregular, unreadable
from store.errors import StoreDamaged, StoreFormat, StoreLocked, StoreUnusable

LOCK, ROCKS, DAMAGED = "LOCK", "rocksdb", "DAMAGED"


def lock_of(folder: Path, *, make: bool = True) -> int:
    """The file descriptor that holds the folder's lock; the kernel lets go of it when the process ends. It
    holds nothing where there is none, and none is to be made."""
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        refuse_irregular(folder / LOCK)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o644)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not make and not _leads_nowhere(folder):
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        where = f": {error.filename}" if error.filename != str(folder) else ""
        raise StoreUnusable(f"time index {folder}: cannot be made or written: {error.strerror}{where}") from error
    try:
        # flock and not a pid file: the kernel releases it after kill -9, so a restart never finds a stale lock.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise StoreLocked(f"time index {folder}: it is in use by another process") from error
    return lock


def _leads_nowhere(folder: Path) -> bool:
    return any(path.is_symlink() and not path.exists() for path in (folder, folder / LOCK))


def refuse_foreign(folder: Path) -> None:
    if foreign := sorted(path.name for path in folder.iterdir() if path.name not in {LOCK, ROCKS, DAMAGED}):
        raise StoreFormat(f"it holds something else: {', '.join(foreign[:3])}")


def refuse_obstacles(folder: Path) -> None:
    """What RocksDB could not open, or only after it has changed something. Raises StoreDamaged (what is there may be
    thrown away), StoreUnusable (it cannot be read)."""
    rocks = folder / ROCKS
    if (folder / DAMAGED).exists():
        raise StoreDamaged("damage was found while it was in use")
    if not os.path.lexists(rocks):
        return
    if not rocks.is_dir():
        raise StoreDamaged(f"{rocks} is no folder")
    try:
        path = unreadable(rocks)
        obstacle = "" if path is not None else no_file(rocks)
    except OSError as error:
        raise StoreUnusable(f"{rocks} cannot be read: {error.strerror}") from error
    if path is not None:
        raise StoreUnusable(f"{path} cannot be read: Permission denied. Give the server's user the right to read it")
    if obstacle:
        raise StoreDamaged(obstacle)
    # RocksDB would take this for a new database, and delete the tables that its list does not name.
    if not (rocks / "CURRENT").exists() and next(rocks.glob("*.sst"), None) is not None:
        raise StoreDamaged(f"{rocks} holds tables, but no list of them (CURRENT)")
