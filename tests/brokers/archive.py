"""Loaded classes of a broker, kept for the JVMs after it (class data sharing, JEP 350): half of what a start costs.

A JVM whose jars or version are not those of the archive warns on stderr and starts without it.
"""

import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path

DUMP_S = 60.0
"""For the dump at the end of a process: three seconds on a quiet machine."""


def options(lib: Path) -> list[str]:
    """Of a JVM with the jars of `lib`, and only those or others behind them."""
    archive = file(lib)
    if not archive.exists():
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=warning:stderr"]


def make_once(lib: Path, dump: Callable[[Path], None]) -> None:
    """By `dump`, which gets the path. Tried once for these jars: some JVMs make none."""
    archive = file(lib)
    with archive.with_suffix(".lock").open("a+") as lock:  # two test processes may need it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists() or lock.tell():
            return
        with tempfile.TemporaryDirectory(dir=lib.parent) as scratch:
            dump(made := Path(scratch) / archive.name)
            lock.write("tried")
            if made.exists():
                made.rename(archive)


def file(lib: Path) -> Path:
    return lib.with_name("classes.jsa")
