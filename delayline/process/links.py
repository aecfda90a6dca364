"""RocksDB's folders, looked at before RocksDB has them: without changing anything in them.

rocksdict writes `rocksdict-config.json` even where it opens a database to read only: it is shown links to the files.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIG_OF_BINDING = "rocksdict-config.json"
FOLDERS_OF_ROCKSDB = ("lost", "archive")


@contextmanager
def linked(folder: Path) -> Iterator[Path]:
    """A folder that lasts as long as the context; what is made in it stays out of `folder`. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="delayline-links-") as scratch:
        for file in folder.resolve().iterdir():
            if file.name != CONFIG_OF_BINDING:
                Path(scratch, file.name).symlink_to(file)
        yield Path(scratch)


def unreadable(folder: Path) -> Path | None:
    """What this user may not read: the folder, or the first file in it. Raises OSError."""
    files = sorted(folder.iterdir()) if folder.is_dir() and _allowed(folder) else []
    return next((path for path in [folder, *files] if not _allowed(path)), None)


def _allowed(path: Path) -> bool:
    return not path.exists() or os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0), effective_ids=True)


def no_file(folder: Path) -> str:
    """What has the name of a file in a database's folder, and is none; empty where all are files."""
    for path in sorted(folder.iterdir()):
        allowed = path.is_dir() and path.name in FOLDERS_OF_ROCKSDB
        if not allowed and (kind := irregular(path)):
            return f"{path} {kind}"
    return ""


_KINDS = {
    stat.S_IFDIR: "is a folder, no file",
    stat.S_IFIFO: "is a pipe (FIFO), no file",
    stat.S_IFSOCK: "is a socket, no file",
    stat.S_IFCHR: "is a device, no file",
    stat.S_IFBLK: "is a device, no file",
}


def irregular(path: Path) -> str:
    """What has the place of a file, and is none; empty for a file, and where there is nothing. It is not opened: to
    open a pipe waits for ever. Raises OSError."""
    if not path.exists():
        return "is a link that leads nowhere" if path.is_symlink() else ""
    return _KINDS.get(stat.S_IFMT(path.stat().st_mode), "")


def read_file(path: Path, bytes_max: int = -1) -> bytes:
    """What the file holds. Raises OSError, also of what is no file (`irregular`), and of one with more than
    `bytes_max`, where that is given."""
    refuse_irregular(path)
    with path.open("rb") as file:
        data = file.read(bytes_max + 1 if bytes_max >= 0 else -1)
    if 0 <= bytes_max < len(data):
        raise OSError(errno.EFBIG, f"it has more than {bytes_max} bytes", str(path))
    return data


def refuse_irregular(path: Path) -> None:
    """Raises FileNotFoundError of a link that leads nowhere, and IsADirectoryError of everything else that is no
    file."""
    if kind := irregular(path):
        raised = IsADirectoryError if path.exists() else FileNotFoundError
        raise raised(errno.EISDIR if path.exists() else errno.ENOENT, kind, str(path))
