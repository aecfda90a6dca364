"""Runs of the job and repairs in processes of their own, which are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reconcile.report.summary import Summary, decode_summary
from tests.brokers.guarded import Guarded
from tests.fault.server import environment, variables

PATIENCE_S = 240.0
POLL_S = 0.001
KILLED = 256 - signal.SIGKILL


class Command:
    """One process at a time; its output goes to `log`. `seconds`: how long the last one took."""

    def __init__(self, log: Path, settings: Mapping[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.seconds = 0.0
        self._environ = environment(**variables(settings))
        self._guarded = Guarded(log)
        self._started_s = 0.0

    @property
    def running(self) -> bool:
        return self._guarded.running

    def start(self, *command: str) -> None:
        self._started_s = time.monotonic()
        self._guarded.start([sys.executable, "-m", *command], self._environ)

    def wait(self) -> int:
        """The exit code. Raises AssertionError: it does not end."""
        try:
            return self._guarded.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {PATIENCE_S:.0f} s, see {self.log}") from None
        finally:
            self.seconds = time.monotonic() - self._started_s

    def kill(self, *, with_children: bool = True) -> int:
        """SIGKILL; the exit code. Without its children, Java ends when it notices."""
        children = _descendants(self._guarded.pid) if with_children and self.running else []
        self._guarded.signal(signal.SIGKILL)
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self._guarded.wait(PATIENCE_S)

    def kill_when(self, happens: Callable[[], bool], *, with_children: bool = True) -> bool:
        """Whether it was killed, and had not ended before."""
        until_s = time.monotonic() + PATIENCE_S
        while self.running and time.monotonic() < until_s and not happens():
            time.sleep(POLL_S)
        return self.kill(with_children=with_children) == KILLED


class Job(Command):
    """Runs into one directory; `ahead_s`: by a clock that is ahead."""

    def __init__(
        self, output: Path, settings: Mapping[str, str], arguments: Sequence[str] = (), ahead_s: int = 0
    ) -> None:
        super().__init__(output.with_name(f"{output.name}.log"), settings)
        self.output = output
        self.arguments = ["--output", str(output), "--master", "local[1]", *arguments]
        self.ahead_s = ahead_s

    def begin(self, *arguments: str) -> None:
        how = ["tests.fault.reconcile.later", str(self.ahead_s)] if self.ahead_s else ["reconcile"]
        self.start(*how, *self.arguments, *arguments)

    def run(self, *arguments: str) -> int:
        self.begin(*arguments)
        return self.wait()

    def summary(self, of: str = "summary.json") -> Summary:
        return decode_summary((self.output / of).read_bytes())

    @property
    def runs(self) -> int:
        """How many are true."""
        return len(list(self.output.glob("manifest-*.json")))

    def plan(self, run: int) -> bytes | None:
        path = self.output / f"plan-{run}.json"
        return path.read_bytes() if path.exists() else None


def _descendants(pid: int) -> list[int]:
    """Those that the machine knows of a process now."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]
