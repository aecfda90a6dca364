"""Whether a file is still the one that was read."""

import errno
import os
import stat
from typing import NamedTuple


class Look(NamedTuple):
    """What changes when a file does. A file that is put in the place of another has another inode."""

    inode: int
    size: int
    modified_ns: int


def look_at(path: str | os.PathLike[str]) -> Look:
    """Raises OSError, also for what is no file: to open a pipe would wait for its writer."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no file", os.fspath(path))
    return Look(found.st_ino, found.st_size, found.st_mtime_ns)
