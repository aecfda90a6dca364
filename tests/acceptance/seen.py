"""What lies in a folder: names, rights, times and contents, to be compared with what lies there later."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple


class Seen(NamedTuple):
    """Of a file, a folder or a link."""

    mode: int
    mtime_ns: int
    content: str


def seen(data: Path) -> dict[str, Seen]:
    """Everything in `data`: names, rights, times and contents."""
    return {str(path.relative_to(data)): _seen(path) for path in [data, *data.rglob("*")]}


def _seen(path: Path) -> Seen:
    status = path.lstat()
    if path.is_symlink():
        content = os.readlink(path)
    else:
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return Seen(status.st_mode, status.st_mtime_ns, content)
