"""A server in the past, as the play sees it."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from delayline.buffer.outcome import Outcome
from delayline.clock import SystemClock

WITHIN_S = 30.0


def variables(folder: Path) -> dict[str, str]:
    """Settings of the installation in this folder, for every command that is run on it."""
    return {
        "DELAYLINE_DATA_DIR": str(folder / "data"),
        "DELAYLINE_API__PORT": "0",
        "DELAYLINE_AUDIT__LOW_WATER_INTERVAL": "200ms",
        "DELAYLINE_LOG__LEVEL": "warning",
    }


class Server:
    """`demo.server`, and its clock: `behind_ms` behind this machine's."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self._process: subprocess.Popen[str] | None = None
        self._http = httpx.Client(timeout=10)
        self._system = SystemClock()
        self.behind_ms = 0
        self._delivered = 0  # since it was started

    def start(self, behind_ms: int) -> None:
        """Returns when it answers and has its shards."""
        self.behind_ms, self._delivered = behind_ms, 0
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "demo.server", str(behind_ms)],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        url = self._line()
        self._http = httpx.Client(base_url=url, timeout=10)
        wait_until(lambda: self._http.get("/readyz").status_code == 200, "the server is ready")

    def put_forward(self, ms: int) -> None:
        """Its clock, from one moment to the next."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{ms}\n")
        self._process.stdin.flush()
        self._line()
        self.behind_ms -= ms

    def now_ms(self) -> int:
        """By its clock."""
        return self._system.now_ms() - self.behind_ms

    def monotonic_s(self) -> float:
        return self._system.monotonic_s()

    def stop(self) -> None:
        """Cleanly: its last word in the audit is how far its shards are done."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(WITHIN_S)
            self._process = None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Its answer. Raises HTTPStatusError."""
        answer = self._http.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def send(self, topic: str, messages: list[dict[str, Any]]) -> list[str]:
        """The ids of messages with a schedule."""
        answer = self.ask("POST", f"/v1/topics/{topic}/messages", {"messages": messages})
        return [result["message"]["message_id"] for result in answer["results"]]

    def wait_for_deliveries(self, more: int) -> None:
        """Until so many messages more have been delivered since the last call."""
        self._delivered += more
        wait_until(lambda: self._finished() >= self._delivered, f"{more} messages are delivered")

    def _finished(self) -> int:
        families = text_string_to_metric_families(self._http.get("/metrics").text)
        return int(sum(sample.value for family in families for sample in family.samples if _is_delivered(sample)))

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server has ended; see {self._folder / 'server.log'}")
        return line.strip()


def _is_delivered(sample: Sample) -> bool:
    return sample.name == "delayline_messages_finished_total" and sample.labels["outcome"] == Outcome.DELIVERED


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN_S:g} s: {what}")
        time.sleep(0.05)
