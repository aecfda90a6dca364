"""Processes beside the bench: started, asked, ended, never waited for without a limit.

A child reports its usage when it is ready and for each line on its stdin, and ends when stdin does.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from bench.report import cpu_s, resident_bytes

ROOT = Path(__file__).resolve().parents[2]
LIFE_S = 3600.0
"""A child that is still there after this time is killed, and its parent gets an error."""
STOP_S = 30.0


class Usage(NamedTuple):
    """CPU seconds of all threads of a child so far, and its memory in RAM."""

    cpu_s: float
    resident_bytes: int


class Child:
    """A running child. Every call raises RuntimeError when the child has ended."""

    def __init__(self, module: str, process: "subprocess.Popen[str]") -> None:
        self._module = module
        self._process = process
        self.pid = process.pid
        self.latest = Usage(0.0, 0)  # its latest usage

    def wait_ready(self) -> Usage:
        """Until it reports ready; some do so more than once, and answer no questions before the last time."""
        self.latest = Usage(*self.hear())
        return self.latest

    def hear(self) -> Any:
        """The next thing it reports, other than its usage in some of them."""
        return json.loads(self._line())

    def ask(self, word: str) -> None:
        self._stdin.write(f"{word}\n")
        self._stdin.flush()

    def usage(self) -> Usage:
        self.ask("usage")
        return self.wait_ready()

    def stop(self) -> None:
        self._stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._module} has ended, exit code {self._process.wait(STOP_S)}")
        return line


@contextmanager
def child(module: str, **arguments: object) -> Iterator[Child]:
    """`bench.<module>` with these arguments, which JSON can hold; stopped at the end."""
    command = [sys.executable, "-m", f"bench.{module}", json.dumps(arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        limit = Timer(LIFE_S, process.kill)
        limit.daemon = True
        limit.start()
        running = Child(module, process)
        try:
            yield running
        finally:
            running.stop()
            limit.cancel()


# --- the child's side


def arguments() -> dict[str, Any]:
    """What this child was started with."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def report_ready() -> None:
    sys.stdout.write(json.dumps(Usage(cpu_s(), resident_bytes())) + "\n")
    sys.stdout.flush()


def answer_questions() -> None:
    """Returns when this child is to end."""
    for _ in sys.stdin:
        report_ready()
