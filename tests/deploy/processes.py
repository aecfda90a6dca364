"""The services of ours of an installation, without containers: the file's commands and variables as processes."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from signal import SIGTERM
from uuid import uuid4

import httpx

from cli.queues import open_queue
from delayline.buffer.outcome import LOW_WATER, AuditRecord, decode_audit
from delayline.clock import SystemClock
from delayline.config import load_settings
from delayline.names import Names
from delayline.records.record import decode_body
from mq.contract import Queue
from tests.acceptance.asking import HTTP, wait_for
from tests.brokers.guarded import Guarded
from tests.deploy.compose import FILES, FILLED, delayline_services, is_serving, read_compose
from tests.fault.server import COMMAND, environment, read_topic
from tests.ports import free_port, free_range

RUN_WITHIN_S = 400.0
DELAY_MS = 1500
HOUR_MS = 3_600_000
CLOCK = SystemClock()


class Running:
    """With other hosts, ports and folders than in the file."""

    def __init__(self, kind: str, hosts: Mapping[str, str], folder: Path, stack: ExitStack) -> None:
        """`hosts` are addresses of the file, and where they are here."""
        self.namespace = f"ns{uuid4().hex[:8]}"
        self._proxy = f"PROXY__{kind.upper()}"
        self.document = read_compose(FILES[kind], {**FILLED, "DELAYLINE_NAMESPACE": self.namespace})
        self.services = delayline_services(self.document)
        self.ports = {name: free_port() for name in self.services}
        self.bootstrap_port = free_range(6)
        self._hosts = {**hosts, **dict.fromkeys(self.services, "127.0.0.1")}
        self.folder = folder
        self._stack = stack

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def environment(self, name: str) -> dict[str, str]:
        given = {key: self._hosts.get(value, value) for key, value in self.services[name]["environment"].items()}
        port = {"api": "API__PORT", "proxy": f"{self._proxy}__METRICS_PORT"}.get(name, "WORKER__PORT")
        moved = {
            f"DELAYLINE_{port}": str(self.ports[name]),
            "DELAYLINE_DATA_DIR": str(self.folder / name / "data"),
            "DELAYLINE_DELAY__DISCOVERY_INTERVAL": "200ms",
            "DELAYLINE_AUDIT__LOW_WATER_INTERVAL": "500ms",
        }
        if name == "proxy":
            moved[f"DELAYLINE_{self._proxy}__PORT"] = str(self.bootstrap_port)
        return environment(**{**given, **moved})

    def queue(self) -> Queue:
        """That of the installation, for what a test itself looks at."""
        return open_queue(load_settings(None, {}, self.environment("api"), self.folder), CLOCK)

    def start_all(self) -> None:
        """Those that `docker compose up` starts; returns when each is healthy."""
        serving = [name for name in self.services if is_serving(self.document, name)]
        for name in serving:
            self._start(name)
        for name in serving:
            wait_for(lambda name=name: self._answers(name), bool)
            assert self.healthy(name), self.log(name)

    def _start(self, name: str) -> None:
        process = Guarded(self.folder / f"{name}.log")
        self._stack.callback(process.wait, 20)
        self._stack.callback(process.signal, SIGTERM)
        process.start_ours([*COMMAND, *self.services[name]["command"]], self.environment(name))

    def run(self, name: str) -> "subprocess.CompletedProcess[str]":
        """One that is run once: `docker compose run`."""
        volume = str(self.volume(name))
        environ = {key: one.replace("/var/lib/delayline", volume) for key, one in self.environment(name).items()}
        arguments = [one.replace("/var/lib/delayline", volume) for one in self.services[name]["command"]]
        return self._delayline(arguments, environ)

    def run_in(self, name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Another command in the container of this service: `docker compose exec`."""
        return self._delayline(arguments, self.environment(name))

    def _delayline(self, arguments: Sequence[str], environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *COMMAND, *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=RUN_WITHIN_S)

    def volume(self, name: str) -> Path:
        return self.folder / name

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def _answers(self, name: str) -> bool:
        """Whether it may be healthy: a check costs a start of Python."""
        try:
            return HTTP.get(f"{self.url(name)}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def healthy(self, name: str) -> bool:
        """The result of the file's own health check, asked of the other port."""
        _, program, *arguments = self.services[name]["healthcheck"]["test"]
        assert program == "python"
        moved = [re.sub(r"(http://127\.0\.0\.1):\d+", rf"\1:{self.ports[name]}", one) for one in arguments]
        return subprocess.run([sys.executable, *moved], capture_output=True).returncode == 0


@contextmanager
def running_services(kind: str, hosts: Mapping[str, str], folder: Path) -> Iterator[Running]:
    """All that serve, healthy."""
    with ExitStack() as stack:
        running = Running(kind, hosts, folder, stack)
        assert not running.healthy("api"), "it does not listen yet"
        running.start_all()
        yield running


def health_of_broker(command: list[str], port: int) -> list[int]:
    """Exit codes of a broker's health check, asked of this port and of one on which nothing listens."""
    own, free = ([re.sub(r"/\d+$", f"/{one}", part) for part in command] for one in (port, free_port()))
    assert command not in (own, free)
    return [subprocess.run(one, capture_output=True).returncode for one in (own, free)]


def check_delayed_messages_arrive(running: Running, topic: str, partitions: int) -> None:
    """They go in over HTTP, to all partitions, and workers deliver each of them once."""
    url = running.url("api")
    messages = [{"value": f"{n}", "key": f"{n}", "schedule": {"delay_ms": DELAY_MS}} for n in range(8)]
    answer = HTTP.post(f"{url}/v1/topics/{topic}/messages", json={"messages": messages}, timeout=20)
    assert answer.status_code == 201, answer.text
    sent = [result["message"] for result in answer.json()["results"]]
    assert len({message["partition"] for message in sent}) == partitions
    found = wait_for(lambda: list(read_topic(url, topic, partitions)), lambda records: len(records) >= 8)
    assert sorted(record["value"] for record in found) == [f"{n}" for n in range(8)]
    assert wait_for(lambda: delivered_by_workers(running, topic), lambda count: count >= 8) == 8


def delivered_by_workers(running: Running, topic: str) -> float:
    line = rf'^delayline_messages_finished_total{{outcome="delivered",topic="{topic}"}} (\S+)$'
    pages = [HTTP.get(f"{running.url(name)}/metrics").text for name in ("worker-1", "worker-2")]
    return sum(float(count) for page in pages for count in re.findall(line, page, re.MULTILINE))


def check_reconcile_accounts_for(running: Running, topic: str) -> None:
    """A run judges a message that was due an hour ago, whose window has closed; another one, which waits, holds it in
    the buffer."""
    url = running.url("api")
    schedules = [{"delay": "1h"}, {"deliver_at": CLOCK.now_ms() - HOUR_MS}]
    messages = [{"value": "x", "partition": 0, "schedule": schedule} for schedule in schedules]
    answer = HTTP.post(f"{url}/v1/topics/{topic}/messages", json={"messages": messages}, timeout=20)
    assert answer.status_code == 201, answer.text
    with closing(running.queue()) as queue:
        assert wait_for(lambda: is_marked(queue, Names(running.namespace).audit, topic), bool, 60)
    done = running.run("reconcile")
    assert done.returncode == 0, done.stdout + done.stderr
    ledger = running.volume("reconcile") / "ledger"
    (found,) = (one for one in json.loads((ledger / "summary.json").read_bytes())["topics"] if one["topic"] == topic)
    counts = [found["ledger"][name] for name in ("accepted", "delivered", "pending")]
    assert (found["state"], counts, found["findings"]) == ("judged", [2, 1, 1], {})
    assert topic in (ledger / "report.html").read_text()


def is_marked(queue: Queue, audit: str, topic: str) -> bool:
    """Whether by the audit a shard of the topic has been read up to two records, of which one waits: what is not
    reported yet the job leaves to its next run."""
    marks = [one for one in audited(queue, audit) if one.kind == LOW_WATER and one.topic == topic]
    return any((mark.next or 0) >= 2 and mark.pending == 1 for mark in marks)


def audited(queue: Queue, audit: str) -> Iterator[AuditRecord]:
    for partition in queue.topic(audit).partitions:
        start, end = queue.offsets(audit, partition)
        for one in queue.read(audit, partition, start, end - start):
            yield decode_audit(decode_body(one.body).value or b"")[0]
