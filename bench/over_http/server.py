"""A server as a process of its own: started, waited for, measured from outside, ended."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from bench.report import cpu_s_of
from delayline.clock import SystemClock
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 30.0
END_WITHIN_S = 60.0
DELIVERED_WITHIN_S = 120.0
POLL_S = 0.5
_ACCEPTED = re.compile(r"^delayline_messages_accepted_total{.*} ([\d.e+]+)$", re.MULTILINE)
_FINISHED = re.compile(r"^delayline_messages_finished_total{.*} ([\d.e+]+)$", re.MULTILINE)
_CLOCK = SystemClock()


@dataclass(frozen=True)
class Server:
    """A process under test."""

    port: int
    pid: int
    delivers: bool = True
    key: str = ""
    """What it wants its clients to show, if anything."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """User and system time of all its threads."""
        return cpu_s_of(self.pid)

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def wait_delivered(self) -> None:
        """Until as many messages are finished as were accepted. Raises RuntimeError when that takes too long."""
        until_s = _CLOCK.monotonic_s() + DELIVERED_WITHIN_S
        while self.delivers and self._total(_ACCEPTED) != self._total(_FINISHED):
            if _CLOCK.monotonic_s() > until_s:
                raise RuntimeError("accepted messages were not delivered")
            time.sleep(POLL_S)

    def _total(self, pattern: re.Pattern[str]) -> float:
        request = Request(f"{self.url}/metrics", headers={"authorization": f"Bearer {self.key}"} if self.key else {})
        with urlopen(request, timeout=10) as answer:
            return sum(map(float, pattern.findall(answer.read().decode())))


@contextmanager
def delayline(
    data_dir: Path, more: Mapping[str, str] | None = None, *, ready_within_s: float = READY_WITHIN_S
) -> Iterator[Server]:
    """`delayline serve` with its data in this folder, on the embedded queue where `more` (settings by their
    variables, such as `MQ__KIND`) names no other: ready, so every shard has caught up."""
    port = free_port()
    given = {"DATA_DIR": str(data_dir), "API__PORT": str(port), "LOG__LEVEL": "warning", **(more or {})}
    settings = {f"DELAYLINE_{name}": value for name, value in given.items()}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DELAYLINE_")}
    command = [sys.executable, "-m", "delayline", "serve"]
    with process(command, port, environ | settings, ready_within_s=ready_within_s) as server:
        yield server


@contextmanager
def process(
    command: list[str],
    port: int,
    environ: dict[str, str],
    *,
    delivers: bool = True,
    ready_within_s: float = READY_WITHIN_S,
) -> Iterator[Server]:
    """A server that answers /readyz on this port. Raises RuntimeError where it does not get ready."""
    running = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL)
    server = Server(port, running.pid, delivers)
    try:
        _wait_ready(running, f"{server.url}/readyz", ready_within_s)
        yield server
    finally:
        running.terminate()
        _end(running)


def _end(running: "subprocess.Popen[bytes]") -> None:
    try:
        running.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait(END_WITHIN_S)
        raise


def _wait_ready(running: "subprocess.Popen[bytes]", url: str, within_s: float) -> None:
    until_s = _CLOCK.monotonic_s() + within_s
    while _CLOCK.monotonic_s() < until_s and running.poll() is None:
        try:
            with urlopen(url, timeout=1):
                return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise RuntimeError(f"{' '.join(running.args[1:] if isinstance(running.args, list) else ())} did not get ready")
