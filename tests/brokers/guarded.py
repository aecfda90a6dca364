"""A process that is ended with its starter, controlled by signals, and started anew."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests import prepared

GUARD = Path(__file__).with_name("guard.py")


class Guarded:
    """One command at a time; its output goes to the end of `log`. Signals are sent to its pid alone, and only while
    its guard lives: a pid that was given to somebody else is never hit."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.pid = 0
        self._guard: prepared.Running | None = None

    @property
    def running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def start(self, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        assert not self.running
        self._close()
        guard = self._guard = subprocess.Popen(
            [sys.executable, str(GUARD), str(self.log), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
            start_new_session=True,  # an interrupt at the keyboard is for us; we pass it to the process
        )
        self.pid = int(_pipe(guard.stdout).readline())

    def start_ours(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """`command` is for Python."""
        if not prepared.PREPARED:
            return self.start([sys.executable, *command], environ)
        assert not self.running
        with self.log.open("ab") as log:
            self._guard = prepared.start(command, env=environ, stdout=log, stderr=log)
        self.pid = self._guard.pid
        return None

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> int:
        """The exit code, 256 less the number of the signal that ended it. Raises subprocess.TimeoutExpired."""
        code = 0
        if self._guard is not None:
            code = self._guard.wait(timeout_s) & 0xFF
            self._close()
        return code

    def _close(self) -> None:
        if isinstance(self._guard, subprocess.Popen):
            _pipe(self._guard.stdin).close()
            _pipe(self._guard.stdout).close()
        self._guard = None


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
