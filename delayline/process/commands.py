"""Commands of operators whose output is a secret: run without a shell, bounded in time and size."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from delayline.clock import Clock, SystemClock
from delayline.process.printable import printable

COMPLAINT_CHARS_MAX = 300
"""What is shown of a command's standard error: the end of it, on one line."""

GRACE_S = 0.5
"""How long its output is read on after its end, where another process still has it open. What it has printed itself
can be read at once."""

_COMPLAINT_BYTES_MAX = 4 << 10
_READ_BYTES = 64 << 10
_LOOK_S = 0.05


class CommandFailed(Exception):
    """The text is why there is no output, and never holds any of it; `complaint` is what the command has written to
    its standard error, empty where it has written nothing."""

    def __init__(self, why: str, complaint: str = "") -> None:
        super().__init__(why)
        self.complaint = complaint


def output_of(
    words: Sequence[str], *, seconds: float, bytes_max: int, clock: Clock | None = None, folder: Path | None = None
) -> bytes:
    """All that it prints, when it has ended with exit code 0; of a process that it has started and that goes on, what
    that prints within GRACE_S. They are all ended then, after `seconds`, and as soon as they print more than
    `bytes_max`. Raises CommandFailed."""
    return _Run(words, seconds, bytes_max, clock or SystemClock(), folder).output()


class _Run:
    def __init__(
        self, words: Sequence[str], seconds: float, bytes_max: int, clock: Clock, folder: Path | None
    ) -> None:
        self._words = words
        self._seconds = seconds
        self._bytes_max = bytes_max
        self._clock = clock
        self._folder = folder
        self._ends_s = clock.monotonic_s() + seconds
        self._complaint = bytearray()

    def output(self) -> bytes:
        with self._started() as process:
            found = self._read(process)
            self._check_end(process)
            return found

    @contextmanager
    def _started(self) -> "Iterator[subprocess.Popen[bytes]]":
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd=self._folder,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            raise CommandFailed(why or "it cannot be run") from None
        try:
            yield process
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
            process.wait()

    def _read(self, process: "subprocess.Popen[bytes]") -> bytes:
        """Until its standard output is closed, or GRACE_S after its end."""
        assert process.stdout is not None
        assert process.stderr is not None
        found = bytearray()
        prints, complains = process.stdout.fileno(), process.stderr.fileno()
        waiting = select.poll()
        for pipe in (prints, complains):
            waiting.register(pipe, select.POLLIN)
        while (left_s := self._left_s(process)) > 0:
            for pipe, _ in waiting.poll(1000 * min(left_s, _LOOK_S)):
                chunk = os.read(pipe, _READ_BYTES)
                if pipe == complains:
                    self._hear(chunk)
                else:
                    found += chunk
                if not chunk:
                    waiting.unregister(pipe)
                    if pipe == prints:
                        return bytes(found)
            if len(found) > self._bytes_max:
                raise CommandFailed(f"it prints more than {self._bytes_max} bytes")
        if process.poll() is None:
            raise self._too_late()
        return bytes(found)

    def _hear(self, chunk: bytes) -> None:
        self._complaint = (self._complaint + chunk)[-_COMPLAINT_BYTES_MAX:]

    def _check_end(self, process: "subprocess.Popen[bytes]") -> None:
        try:
            code = process.wait(max(0.0, self._left_s(process)))
        except subprocess.TimeoutExpired:
            raise self._too_late() from None
        if code:
            how = f"it ends with exit code {code}" if code > 0 else f"it was ended by signal {-code}"
            self._listen_once_more(process)
            raise CommandFailed(how, self._complained())

    def _listen_once_more(self, process: "subprocess.Popen[bytes]") -> None:
        """What it has written between closing its output and its end."""
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        with suppress(BlockingIOError):
            self._hear(os.read(process.stderr.fileno(), _READ_BYTES))

    def _left_s(self, process: "subprocess.Popen[bytes]") -> float:
        now_s = self._clock.monotonic_s()
        if process.poll() is not None:
            self._ends_s = min(self._ends_s, now_s + GRACE_S)
        return self._ends_s - now_s

    def _too_late(self) -> CommandFailed:
        return CommandFailed(f"it has not ended within {self._seconds:g} s", self._complained())

    def _complained(self) -> str:
        text = printable(" ".join(bytes(self._complaint).decode(errors="replace").split()))
        return text if len(text) <= COMPLAINT_CHARS_MAX else f"...{text[-COMPLAINT_CHARS_MAX:]}"
