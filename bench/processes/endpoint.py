"""Where clients connect: a broker, or a proxy in a process of its own."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM

from bench.report import cpu_s_of
from delayline.clock import SystemClock
from tests.brokers.guarded import Guarded
from tests.ports import is_listening

START_S = 60.0
STOP_S = 20.0
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients connect, and the process behind it; `pid` 0 where there is none."""

    name: str
    servers: str
    pid: int = 0

    def cpu_s(self) -> float:
        """CPU seconds of all of its threads so far; 0 where there is no process or no /proc."""
        if not self.pid or not Path(f"/proc/{self.pid}/stat").exists():
            return 0.0
        return cpu_s_of(self.pid)


@contextmanager
def running(name: str, command: Sequence[str], port: int, environ: Mapping[str, str]) -> Iterator[Endpoint]:
    """The process, once it listens."""
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        process = Guarded(Path(folder) / "log")
        process.start(command, environ)
        try:
            _wait_listening(process, name, port)
            yield Endpoint(name, f"127.0.0.1:{port}", process.pid)
        finally:
            process.signal(SIGTERM)
            process.wait(STOP_S)


def _wait_listening(process: Guarded, name: str, port: int) -> None:
    until_s = _CLOCK.monotonic_s() + START_S
    while not is_listening(port):
        if not process.running or _CLOCK.monotonic_s() > until_s:
            raise RuntimeError(f"{name} did not start: {process.log.read_text()[-2000:]}")
        time.sleep(0.05)
