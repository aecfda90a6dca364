"""RocksDB's folders, looked at before RocksDB has them: without changing anything in them.

rocksdict writes `rocksdict-config.json` even where it opens a database to read only: it is shown links to the files.
"""

import os
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
        if path.is_dir() and path.name not in FOLDERS_OF_ROCKSDB:
            return f"{path} is a folder, no file"
        if not path.exists():
            return f"{path} is a link that leads nowhere"
    return ""
