"""Commands of ours in processes that are forked from one that has imported everything: Python's start and our imports
take a third of a second of a processor, four times what is left for most commands. `make test-all`, and what runs
outside pytest (`make prove`), start each command anew, as users do.

A forked process is its own in all that tests look at: its pid, its files, its signals, its exit code. It runs the
same file or module as `__main__`. It is killed when the process that asked for it ends, in whatever way.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from tests.tiers import THOROUGH

ROOT = Path(__file__).resolve().parents[1]
PREPARED = "PYTEST_VERSION" in os.environ and not THOROUGH
ENDED_WITHIN_S = 60.0
ANSWER_MAX = 128
"""Bytes: a pid, or an exit code."""


class Running(Protocol):
    """What tests use of subprocess.Popen."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def kill(self) -> None: ...


File = IO[bytes] | int


def start(
    command: Sequence[str],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    stdin: File = subprocess.DEVNULL,
    stdout: File,
    stderr: File,
) -> Running:
    """`command` is what Python is started with: `("-m", "delayline", "serve")`, or a script and its arguments."""
    if not PREPARED:
        whole = [sys.executable, *command]
        return subprocess.Popen(whole, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
    environ = dict(os.environ if env is None else env)
    return Forked(command, {"cwd": str(cwd), "env": environ}, (stdin, stdout, stderr))


class Forked:
    """A process that the prepared one has forked. Signals go by its pidfd: a pid that is given away is never hit."""

    def __init__(self, command: Sequence[str], place: Mapping[str, object], files: Sequence[File]) -> None:
        self._command = list(command)
        self.returncode: int | None = None
        self._line = _prepared().connect()
        with open(os.devnull, "r+b") as nowhere:
            numbers = [_number(file, nowhere.fileno()) for file in files]
            request = json.dumps({"command": self._command, **place}).encode()
            socket.send_fds(self._line, [len(request).to_bytes(4, "big")], numbers)
            self._line.sendall(request)
        answer, fds, _, _ = socket.recv_fds(self._line, ANSWER_MAX, 1)
        self.pid = int(answer)
        self._pidfd = fds[0]

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._command, timeout or 0)
        return code

    def _ended(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and _readable(self._line, timeout_s):
            self.returncode = int(self._line.recv(ANSWER_MAX))
            self._line.close()
            os.close(self._pidfd)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _readable(line: socket.socket, timeout_s: float | None) -> bool:
    poll = select.poll()  # select() takes no descriptor above 1023
    poll.register(line, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def _number(file: File, nowhere: int) -> int:
    if isinstance(file, int):
        assert file == subprocess.DEVNULL
        return nowhere
    return file.fileno()


class _Prepared:
    """The process that has imported everything: one for each process of pytest's."""

    def __init__(self) -> None:
        self._name = f"delayline-tests-{os.getpid()}-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "tests.prepared_parent", self._name]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        output = self._process.stdout.readline()
        assert output == b"ready\n", output
        atexit.register(self._end)

    def connect(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(f"\0{self._name}")  # Linux: a name, and no file
        return line

    def _end(self) -> None:
        """It ends with its input, in which nothing is ever written."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(ENDED_WITHIN_S)


_MADE: list[_Prepared] = []


def _prepared() -> _Prepared:
    if not _MADE:
        _MADE.append(_Prepared())
    return _MADE[0]
