"""What can happen to a file of `data_dir` while no server runs; and a start."""

import ctypes
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from prometheus_client import CollectorRegistry

from cli.storage import stored
from delayline.clock import SystemClock
from delayline.config import load_settings
from mq.errors import TopicUnknown

BUFFER = "delayline.buffer.orders"
SEED = 20_261_125


def lost(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def emptied(path: Path) -> None:
    if path.is_dir():
        lost(path)
    path.write_bytes(b"")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbage(path: Path) -> None:
    size = path.stat().st_size if path.is_file() else 0
    lost(path)
    path.write_bytes(Random(SEED).randbytes(max(64, size)))


def a_folder(path: Path) -> None:
    lost(path)
    path.mkdir()
    (path / "letter.txt").write_text("dear")


def a_link(path: Path) -> None:
    """It leads nowhere."""
    lost(path)
    path.symlink_to(path.with_name("nowhere") / "at-all")


def a_pipe(path: Path) -> None:
    """To open it waits for ever."""
    lost(path)
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    lost(path)
    os.mknod(path, stat.S_IFSOCK | 0o600)


def unreadable(path: Path) -> None:
    path.chmod(0)


HARMS: tuple[Callable[[Path], None], ...] = (
    lost,
    emptied,
    cut,
    garbage,
    a_folder,
    a_link,
    a_pipe,
    a_socket,
    unreadable,
)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


_CAPABILITIES_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2


@contextmanager
def as_any_user() -> Iterator[None]:
    """This thread without root's right to read every file (capabilities(7)); for others it changes nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = _Header(_CAPABILITIES_VERSION_3, 0), (_Rights * 2)()
    assert libc.capget(ctypes.byref(header), rights) == 0
    before = rights[0].effective
    rights[0].effective = before & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    assert libc.capset(ctypes.byref(header), rights) == 0
    try:
        yield
    finally:
        rights[0].effective = before
        assert libc.capset(ctypes.byref(header), rights) == 0


def start(data: Path, *, accept_loss: bool = False) -> int:
    """How many messages wait, to a server that starts on `data`. Raises DelaylineError."""
    settings = load_settings(None, {"data_dir": str(data)}, {}, data.parent)
    with (
        as_any_user(),
        stored(settings, CollectorRegistry(), SystemClock(), "", accept_loss=accept_loss) as (queue, index),
    ):
        index.close()
        try:
            return sum(len(queue.read(BUFFER, part, *queue.offsets(BUFFER, part), 1 << 20)) for part in "0123")
        except TopicUnknown:
            return 0
