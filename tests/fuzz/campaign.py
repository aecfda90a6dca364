"""What every entrance's campaign has in common: cases until the time is up, a judge, and counts."""

import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Self

from tests.fuzz.mutate import Mutator

JUDGE_EVERY_S = 2.0


class Broken(AssertionError):
    """A promise that the input of a case has broken; the text shows both."""


class Campaign(ABC):
    """Cases against one entrance. Subclasses open what they attack in `__enter__`, and close it in `__exit__`."""

    name: str
    covers: tuple[str, ...]
    """Files that the entrance leads into, as patterns from the top of the tree."""

    judge_every_s = JUDGE_EVERY_S

    def __init__(self, random: Random, folder: Path) -> None:
        self.random = random
        self.mutator = Mutator(random)
        self.folder = folder
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - most have nothing to close
        """Close what was opened."""

    @abstractmethod
    def case(self) -> str:
        """Send one hostile input; a word for what came of it. Raises Broken."""

    @abstractmethod
    def judge(self) -> None:
        """What holds for somebody else after all cases so far. Raises Broken."""

    def run(self, seconds: float) -> None:
        """Cases for so long, and at least one. Raises Broken."""
        begun = judged = time.monotonic()
        while True:
            self.counts[self.case()] += 1
            now = time.monotonic()
            if now - judged >= self.judge_every_s or now - begun >= seconds:
                self.judge()
                self.counts["judged"] += 1
                judged = time.monotonic()
            if now - begun >= seconds:
                break

    @property
    def cases(self) -> int:
        return self.counts.total() - self.counts["judged"]


class Stopwatch:
    """Seconds since it was made, without those in which other processes kept this one from running: what a server
    takes too long for is its own doing, not that of a busy machine. Linux: `schedstat`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._begun_s, self._kept_s = time.monotonic(), self._kept_waiting_s()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun_s - (self._kept_waiting_s() - self._kept_s)

    def _kept_waiting_s(self) -> float:
        """That thread of the process that has waited longest for a processor."""
        waited_ns = [0]
        for path in Path(f"/proc/{self._pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                waited_ns.append(int(path.read_text().split()[1]))
        return max(waited_ns) / 1e9


def resident_bytes(pid: int) -> int:
    """What the process holds in memory (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Broken(f"process {pid} has ended")
