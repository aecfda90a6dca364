"""One cluster, one installation on it, its clients and its reader: everything a run needs, and its end."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient, NewTopic

from delayline.buffer.cursor import Cursor
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings
from tests.brokers.kafka import Kafka
from tests.fault.kafka.clients import Groups, Ledger, Mix, Posts, Sender, Stream, Writer
from tests.fault.kafka.evidence import Evidence, Outage
from tests.fault.kafka.processes import Process, Worker
from tests.fault.kafka.reader import At, Reader
from tests.fault.kafka.transactions import Transactions
from tests.fault.server import http_client
from tests.ports import free_port

NAMESPACE = "delayline"
SESSION_S = 6.0
"""The worker group's session timeout: a member that is silent for so long is gone."""
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Size:
    """How much of everything. Rates are messages per second: straight, in clients' transactions, over HTTP."""

    topics: int = 3
    partitions: int = 4
    workers: int = 3
    stream_rate: float = 400
    group_rate: float = 60
    post_rate: float = 100
    delay_max_ms: int = 4000
    settings: Mapping[str, str] = field(default_factory=dict)  # of every process, beside those of the scene


@dataclass
class Scene:
    """`tally` counts what was done to it, `failures` what must not have happened beside what the judge finds."""

    kafka: Kafka
    size: Size
    seed: int
    folder: Path
    names: Names
    topics: Sequence[str]
    reader: Reader
    transactions: Transactions
    workers: list[Worker]
    api: Process
    ledger: Ledger
    tally: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    senders: list[Sender] = field(default_factory=list)

    @property
    def shards(self) -> list[At]:
        return [(topic, number) for topic in self.topics for number in range(self.size.partitions)]

    def admin(self) -> AdminClient:
        """A new one each time: one that has seen its group coordinator die may never find it again. To be held until
        it has answered."""
        return _admin(self.kafka)

    # --- load

    def send(self) -> None:
        """Start every sender."""
        size, servers = self.size, self.kafka.bootstrap_servers
        mix = Mix(self.topics, size.partitions, size.delay_max_ms)
        turn = len(self.senders)

        def writer(name: str) -> tuple[str, Writer]:
            return f"{name}{turn}", Writer(f"{name}{turn}", self.seed, mix, self.ledger)

        made: list[Sender] = [Stream(*writer("stream"), size.stream_rate, servers, self.names.buffer)]
        if size.group_rate:
            made.append(Groups(*writer("group"), size.group_rate, servers, self.names.buffer))
        if size.post_rate:
            made.append(Posts(*writer("post"), size.post_rate, self.api_url))
        for sender in made:
            sender.start()
        self.senders += made

    def hush(self) -> None:
        """Stop every sender and wait for its last answers."""
        for sender in self.senders:
            sender.stop()
        for sender in self.senders:
            sender.join(PATIENCE_S + 30)
            if sender.failure or sender.is_alive():
                self.failures.append(f"sender {sender.name}: {sender.failure or 'did not end'}")
            self.tally["transactions of clients, committed"] += getattr(sender, "committed", 0)
            self.tally["transactions of clients, aborted"] += getattr(sender, "aborted", 0)
            self.tally["batches answered over HTTP"] += getattr(sender, "answered", 0)
        self.senders.clear()

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def api_port(self) -> int:
        return int(self.api.settings["api__port"])

    # --- processes

    def start(self) -> None:
        for worker in self.workers:
            worker.start()
        self.api.start()
        self.wait_for_api()
        self.wait(self.all_owned, "the workers own every shard")

    def wait_for_api(self) -> None:
        with http_client(2) as http:

            def answers() -> bool:
                try:
                    return http.get(f"{self.api_url}/healthz").status_code == 200
                except httpx.TransportError:
                    return False

            self.wait(answers, f"the API answers, see {self.api.log}")

    def supervise(self) -> None:
        """Start again what ended by itself; that it did must have a reason."""
        for process in [*self.workers, self.api]:
            if process.wanted and not process.running:
                code = process.exit_code()
                if process.damaged:
                    self.tally["workers that ended because of a corrupted index"] += 1
                    process.damaged = False
                else:
                    self.failures.append(f"{process.name} ended by itself with {code}, see {process.log}")
                process.start()

    def owners(self) -> dict[str, list[At]]:
        """Shards by writer, from the worker group."""
        group = f"{self.names.namespace}-worker"
        admin = self.admin()
        found: Any = admin.describe_consumer_groups([group], request_timeout=10)[group].result()
        shards = {}
        for member in found.members:
            parts = member.assignment.topic_partitions if member.assignment else ()
            owned = [(target, part.partition) for part in parts if (target := self.names.target(part.topic))]
            shards[member.client_id.partition("@")[0]] = owned
        return shards

    def all_owned(self) -> bool:
        """Whether every shard has an owner that lives."""
        alive = {worker.writer for worker in self.workers if worker.running}
        try:
            owners = self.owners()
        except Exception:  # noqa: BLE001 - the coordinator may be on its way: ask again
            return False
        return sum(len(shards) for writer, shards in owners.items() if writer in alive) == len(self.shards)

    # --- time

    def wait(self, what: Callable[[], bool], name: str, timeout_s: float = PATIENCE_S) -> float:
        """Seconds until it was so. Raises AssertionError."""
        started_s = time.monotonic()
        while not what():
            self.supervise()
            if time.monotonic() - started_s > timeout_s:
                raise AssertionError(f"not within {timeout_s:.0f} s: {name}")
            time.sleep(0.05)
        return time.monotonic() - started_s

    def drain(self) -> float:
        """Until by the cursors nothing is pending, or until it is clear that they never will; seconds."""
        try:
            return self.wait(self._drained, "nothing is pending", 2 * PATIENCE_S)
        except AssertionError as error:
            self.failures.append(str(error))
            return 2 * PATIENCE_S

    def _drained(self) -> bool:
        """Every record of a buffer lies below its shard's O and L, and readers have read it all."""
        if not self.reader.is_alive():
            raise AssertionError("the reader has died")
        low = self._low_offsets()
        for topic, number in self.shards:
            seen = self.reader.seen[self.names.buffer(topic), number]
            if seen and seen[-1].offset >= low.get(f"{topic}.{number}", 0):
                return False
        return True

    def _low_offsets(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for (topic, _), records in self.reader.seen.items():
            if topic == self.names.cursor:
                for seen in records[-500:]:
                    key, value, _headers = decode_body(seen.body)
                    if key and value:
                        found[key.decode()] = Cursor.decode(value).low_offset
        return found

    def evidence(self) -> Evidence:
        return Evidence(self.names, self.shards, self.ledger, self.reader.seen, self.outages)


@contextmanager
def scene(kafka: Kafka, size: Size, seed: int, folder: Path) -> Iterator[Scene]:
    """On a cluster that runs. Nothing is started yet but the reader."""
    names = Names(NAMESPACE)
    topics = [f"orders-{number}" for number in range(size.topics)]
    _make_topics(kafka, topics, size.partitions)
    own = _make_own(kafka, topics)
    reader = Reader(kafka.bootstrap_servers, [*_partitions(topics, size.partitions), *own])
    settings = {
        "namespace": NAMESPACE,
        "mq__kind": "kafka",
        "mq__bootstrap_servers": kafka.bootstrap_servers,
        "delay__topics": ",".join(topics),
        "store__memory_bytes_max": "32MiB",
        **size.settings,
    }
    workers = [
        Worker(
            f"worker-{number}",
            folder,
            ["worker"],
            {**settings, "worker__port": str(free_port())},
        )
        for number in range(size.workers)
    ]
    api = Process("api", folder, ["api"], {**settings, "api__port": str(free_port())})
    with ExitStack() as stack:
        transactions = stack.enter_context(closing(Transactions(kafka.bootstrap_servers)))
        made = Scene(kafka, size, seed, folder, names, topics, reader, transactions, workers, api, Ledger())
        reader.start()
        stack.callback(reader.stop)
        for process in [api, *workers]:
            stack.callback(process.kill)
        stack.callback(made.hush)
        yield made


def _admin(kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})


def _partitions(topics: Sequence[str], partitions: int) -> list[At]:
    return [(topic, number) for topic in topics for number in range(partitions)]


def _make_topics(kafka: Kafka, topics: Sequence[str], partitions: int) -> None:
    """Stamped by the broker, so that early and late are judged by its clock."""
    config = {"message.timestamp.type": "LogAppendTime"}
    wanted = [NewTopic(topic, partitions, len(kafka.nodes), config=config) for topic in topics]
    admin = _admin(kafka)
    for future in admin.create_topics(wanted, request_timeout=30).values():
        future.result()


def _make_own(kafka: Kafka, topics: Sequence[str]) -> list[At]:
    """Buffers and this installation's own topics, as the first worker would make them; all their partitions."""
    settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers, namespace=NAMESPACE)
    names = settings.names
    with closing(KafkaQueue(settings, SystemClock())) as queue:
        for topic in topics:
            queue.ensure_buffer(topic, DEFAULT_RULES)
        for end in queue.open_worker(f"{NAMESPACE}-worker-of-the-scene"):
            end.close()
        own = [*(names.buffer(topic) for topic in topics), names.audit, names.dead, names.cursor]
        return [(name, int(partition)) for name in own for partition in queue.topic(name).partitions]
