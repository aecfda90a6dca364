"""The processes under test, as anybody would start them, and what can happen to a worker's disk."""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from random import Random

from tests.brokers.guarded import Guarded
from tests.fault.server import environment, variables

COMMAND = ("-m", "delayline")
"""For Python."""
STOP_S = 25.0
WRITER = re.compile(r"[\w.-]+-worker-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
COPIES_MAX = 3


class Disk(Enum):
    """What a worker finds when it starts again."""

    KEPT = "kept"
    STALE = "stale"  # a copy made at an earlier death
    DELETED = "deleted"
    CORRUPTED = "corrupted"


class Process:
    """`delayline <command>` with its settings; outlives nobody. `wanted` is whether somebody wants it to run."""

    def __init__(self, name: str, folder: Path, arguments: Sequence[str], settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.data_dir = folder / name
        self.log = folder / f"{name}.log"
        self.wanted = False
        self.settings = settings
        self._command = [*COMMAND, *arguments]
        self._environ = environment(PYTHONFAULTHANDLER="1", **variables({"data_dir": str(self.data_dir), **settings}))
        self._guarded = Guarded(self.log)
        self._length_before = 0
        self.damaged = False  # by us: it may end, to begin anew

    @property
    def running(self) -> bool:
        return self._guarded.running

    def start(self) -> None:
        self.wanted = True
        self._length_before = self.log.stat().st_size if self.log.exists() else 0
        self._guarded.start_ours(self._command, self._environ)

    def kill(self) -> None:
        self.wanted = False
        self._guarded.signal(signal.SIGKILL)
        self._guarded.wait(STOP_S)

    def stop(self) -> int:
        """SIGTERM; the exit code, -1 where it does not end: its log then shows where its threads are."""
        self.wanted = False
        self._guarded.signal(signal.SIGTERM)
        try:
            return self._guarded.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.abort()
            return -1

    def abort(self) -> None:
        """End it so that its log shows where its threads are."""
        self.wanted = False
        self._guarded.signal(signal.SIGABRT)
        self._guarded.wait(STOP_S)

    def freeze(self) -> None:
        self._guarded.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._guarded.signal(signal.SIGCONT)

    def exit_code(self) -> int:
        """Of a process that has ended by itself."""
        return self._guarded.wait(STOP_S)

    def output(self) -> str:
        """What this life of it has logged."""
        with self.log.open("rb") as log:
            log.seek(self._length_before)
            return log.read().decode(errors="replace")


class Worker(Process):
    """`delayline worker`. Its disk can be altered while it is down."""

    @property
    def writer(self) -> str | None:
        """Its transactional id in this life; None before it has taken over a shard."""
        found = WRITER.search(self.output())
        return found[0] if found else None

    @property
    def _index(self) -> Path:
        return self.data_dir / "index"

    def keep_copy(self) -> None:
        """Of the index as its death left it: what `Disk.STALE` will be at a later one."""
        if self._index.is_dir():
            shutil.copytree(self._index, self.data_dir / f"copy.{time.monotonic_ns()}")
        for old in self._copies()[:-COPIES_MAX]:
            shutil.rmtree(old)

    def _copies(self) -> list[Path]:
        return sorted(self.data_dir.glob("copy.*"), key=lambda copy: int(copy.suffix[1:]))

    def alter(self, disk: Disk, rnd: Random) -> bool:
        """Whether there was something to alter."""
        if disk is Disk.KEPT:
            return True
        if not self._index.is_dir() or (disk is Disk.STALE and len(self._copies()) < 2):
            return False
        if disk is Disk.CORRUPTED:
            self.damaged = _corrupt(self._index, rnd)
            return self.damaged
        shutil.rmtree(self._index)
        self.damaged = False
        if disk is Disk.STALE:
            shutil.copytree(self._copies()[0], self._index)
        return True


def _corrupt(folder: Path, rnd: Random) -> bool:
    """Overwrite bytes in the middle of one of RocksDB's files that hold something."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size and _matters(path))
    if not files:
        return False
    chosen = rnd.choice(files)
    size = chosen.stat().st_size
    with chosen.open("r+b") as file:
        file.seek(rnd.randrange(size))
        file.write(rnd.randbytes(min(64, size)))
    return True


def _matters(path: Path) -> bool:
    return path.suffix == ".sst" or path.name.startswith("MANIFEST") or path.name == "CURRENT"
