"""A Delayline server as a separate process: started, asked over HTTP, killed. Nothing of ours is imported."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests import prepared
from tests.ports import free_port

READY_WITHIN_S = 60.0
ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("-m", "delayline")
"""For Python."""


def environment(**variables: str) -> dict[str, str]:
    """This process's variables without settings of Delayline, and `variables`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DELAYLINE_")} | variables


def variables(settings: Mapping[str, str]) -> dict[str, str]:
    """`store__near_due="1s"` as the variable it is set by."""
    return {f"DELAYLINE_{name.upper()}": value for name, value in settings.items()}


def http_client(timeout_s: float) -> httpx.Client:
    """For servers without TLS. It reads no certificates, which takes 30 ms: as long as a dozen requests."""
    return httpx.Client(timeout=timeout_s, verify=False)


def read_topic(url: str, topic: str, partitions: int = 4) -> Iterator[dict[str, Any]]:
    """Every record of a topic, as `GET /v1/topics/{topic}/records` shows them."""
    with http_client(10) as http:
        for partition in range(partitions):
            offset = 0
            while True:
                where = {"partition": partition, "offset": offset, "limit": 1000}
                answer = http.get(f"{url}/v1/topics/{topic}/records", params=where).raise_for_status()
                records = answer.json()["records"]
                yield from records
                if not records:
                    break
                offset = records[-1]["offset"] + 1


class Server:
    """`delayline serve`, or another command that answers HTTP, on a data folder that outlives it."""

    def __init__(self, data_dir: Path, command: str = "serve", **settings: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data_dir.parent / f"{data_dir.name}.log"
        port_setting = "worker__port" if command == "worker" else "api__port"
        self._command = [*COMMAND, command]
        self.flags: tuple[str, ...] = ()
        self.settings = {"data_dir": str(data_dir), port_setting: str(self.port), **settings}
        self._process: prepared.Running | None = None
        self.descriptors_max: int | None = None

    def start(self) -> None:
        environ = environment(**variables(self.settings))
        limited = ["sh", "-c", f'ulimit -n {self.descriptors_max} && exec "$@"', "sh"] if self.descriptors_max else []
        command = [*self._command, *self.flags]
        with self.log.open("ab") as log:
            if limited:
                self._process = subprocess.Popen(
                    [*limited, sys.executable, *command], cwd=ROOT, env=environ, stdout=log, stderr=log
                )
            else:
                self._process = prepared.start(command, env=environ, stdout=log, stderr=log)

    def wait_ready(self) -> float:
        """Seconds until `/readyz` answers 200."""
        return self._wait("readyz")

    def wait_alive(self) -> float:
        """Seconds until `/healthz` answers 200: it listens, whatever the queue does."""
        return self._wait("healthz")

    def _wait(self, path: str) -> float:
        started = time.monotonic()
        with http_client(1) as http:
            while time.monotonic() - started < READY_WITHIN_S:
                if self._process is not None and self._process.poll() is not None:
                    break
                try:
                    if http.get(f"{self.url}/{path}").status_code == 200:
                        return time.monotonic() - started
                except httpx.TransportError:
                    pass
                time.sleep(0.02)
        raise AssertionError(f"no {path}; its log ends:\n{self.tail_of_log()}")

    def tail_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else "(no log)"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to log anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> tuple[int, float]:
        """SIGTERM; (exit code, seconds it took)."""
        started = time.monotonic()
        code = self._end(signal.SIGTERM)
        return code, time.monotonic() - started

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"did not end after {how.name}; its log ends:\n{self.tail_of_log()}") from None
