"""Small files, written so that a crash leaves the earlier one or the whole new one."""

import os
from pathlib import Path

UNFINISHED = ".new"


def write_durably(file: Path, data: bytes, mode: int = 0o666) -> None:
    """The folders that lead to it are synced as well. `mode` is what the umask leaves bits of. Raises OSError."""
    unfinished = file.with_name(file.name + UNFINISHED)
    unfinished.unlink(missing_ok=True)  # never opened: it may be a pipe
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as out:
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
