"""Workers and an API on RocketMQ, as anybody would start them, a sender, and the brokers before which gates stand."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import uuid4

import httpx

from delayline.clock import SystemClock
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.client import Client
from rocketmq.errors import RocketmqError
from tests.brokers.rocketmq import RocketMqAt
from tests.fault.kafka.processes import Worker
from tests.fault.rocketmq.asker import Asker
from tests.fault.rocketmq.judge import Evidence, Sent, delivered_into, gather
from tests.fault.server import Server, http_client
from tests.ports import free_port

DRAIN_S = 120.0
TERMINATED = 256 - 15
"""It had only just been started, and did not listen to signals yet."""
CLOCK = SystemClock()
ANSWERS = "answers about messages that wait"


@dataclass(frozen=True)
class Size:
    """`queues` on each of the brokers; a sender posts batches without a pause of more than `pause_s`."""

    masters: int = 1
    queues: int = 4
    workers: int = 2
    pause_s: float = 0.02


class Sender(threading.Thread):
    """Posts batches, each message to any queue, until it is to stop."""

    def __init__(self, url: str, topic: str, partitions: int, pause_s: float, random: Random) -> None:
        super().__init__(daemon=True)
        self._url = f"{url}/v1/topics/{topic}/messages"
        self._partitions = partitions
        self._pause_s = pause_s
        self._random = random
        self.sent = Sent()
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        with http_client(15) as http:
            while not self.stopping.wait(self._pause_s):
                number += 1
                self._send(http, [f"{number}-{index}" for index in range(self._random.choice([1, 20, 100]))])

    def _send(self, http: httpx.Client, tags: list[str]) -> None:
        """To one queue, so that the batch is stored wholly or not at all."""
        partition = self._random.randrange(self._partitions)
        messages = [
            {
                "value": tag,
                "partition": partition,
                "schedule": {"delay": f"{self._random.choice([1, 300, 1500, 3000])}ms"},
            }
            for tag in tags
        ]
        try:
            status = http.post(self._url, json={"messages": messages}).status_code
        except httpx.TransportError:
            status = 503
        known = self.sent.acknowledged if status == 201 else self.sent.unknown
        known.update(tags)


class Installation:
    """Workers on brokers; `tally` counts what was done to all that runs, by name."""

    def __init__(self, server: RocketMqAt, workers: int, folder: Path, topic: str) -> None:
        self.server = server
        self.topic = topic
        self.tally: Counter[str] = Counter()
        self.failures: list[str] = []
        self.namespace = f"ns{uuid4().hex[:8]}"
        self.settings = {
            "mq__kind": "rocketmq",
            "mq__bootstrap_servers": server.settings.name_servers[0],
            "namespace": self.namespace,
            "delay__topics": "orders-*",
            "delay__discovery_interval": "200ms",
            "audit__low_water_interval": "2s",
        }
        self.workers: dict[int, Worker] = {}  # by the port at which each answers the others
        for number in range(workers):
            port = free_port()
            own = {"worker__port": str(free_port()), "internal__port": str(port), **self.settings}
            self.workers[port] = Worker(f"worker-{number}", folder, ["worker"], own)

    def client(self) -> Client:
        return Client(self.server.settings)

    @property
    def group(self) -> str:
        """Of the workers' sessions."""
        return self._queue.group

    @property
    def journals(self) -> str:
        """The topic of the journals, as RocketMQ names it."""
        return self._queue.wire_names.journal(self.topic)

    @property
    def _queue(self) -> RocketmqSettings:
        return RocketmqSettings(name_servers="a:1", namespace=self.namespace)

    def owner(self, client_id: str) -> Worker | None:
        """Whose session this is, by the address in its id."""
        return self.workers.get(int(client_id.rpartition(":")[2]))

    def look(self) -> None:
        """Workers that have ended by themselves are failures."""
        for worker in self.workers.values():
            if worker.wanted and not worker.running:
                self.failures.append(f"{worker.name} ended with {worker.exit_code()}, see {worker.log}")
                worker.start()

    def drain(self, has_all: Callable[[], bool]) -> None:
        """Wait until that is so, or until it has had its time, and let the workers write their last rows."""
        until_s, pause = CLOCK.monotonic_s() + DRAIN_S, threading.Event()
        while not has_all() and CLOCK.monotonic_s() < until_s:
            pause.wait(0.5)
        for worker in self.workers.values():
            if (code := worker.stop()) not in (0, TERMINATED):
                self.failures.append(f"{worker.name} ended with {code} after SIGTERM, see {worker.log}")

    def close(self) -> None:
        for worker in self.workers.values():
            worker.thaw()
            worker.kill()


class Scene(Installation):
    """With an API, a sender, and one who asks."""

    def __init__(self, server: RocketMqAt, size: Size, folder: Path, random: Random, topic: str) -> None:
        super().__init__(server, size.workers, folder, topic)
        self.api = Server(folder / "api", "api", **self.settings)
        partitions = size.masters * size.queues
        self.sender = Sender(self.api.url, topic, partitions, size.pause_s, random)
        self.asker = Asker(self.api.url, topic, partitions, Random(random.random()))

    def start(self) -> None:
        self.api.start()
        for worker in self.workers.values():
            worker.start()
        self.api.wait_ready()
        self.sender.start()
        self.asker.start()

    def wait_acknowledged(self, count: int) -> None:
        """Until the sender has got answers for so many messages. Raises TimeoutError."""
        until_s, pause = CLOCK.monotonic_s() + DRAIN_S, threading.Event()
        while len(self.sender.sent.acknowledged) < count:
            if CLOCK.monotonic_s() > until_s:
                raise TimeoutError(f"fewer than {count} messages were acknowledged, see {self.api.log}")
            pause.wait(0.05)

    def finish(self) -> Evidence:
        """Stop the sender, and wait until all that was acknowledged has arrived or has had its time."""
        for thread in (self.sender, self.asker):
            thread.stopping.set()
            thread.join(30)
        self.tally[ANSWERS] += self.asker.answers
        self.failures += self.asker.wrong
        with self.client() as client:
            self.drain(lambda: self._has_all(client))
            return gather(client, tuple(self.server.brokers), self.topic, self.namespace, self.sender.sent)

    def _has_all(self, client: Client) -> bool:
        with suppress(RocketmqError):
            there = {one.tag for one in delivered_into(client, tuple(self.server.brokers), self.topic)}
            return self.sender.sent.acknowledged <= there
        return False

    def close(self) -> None:
        self.sender.stopping.set()
        self.asker.stopping.set()
        super().close()
        self.api.kill()


@contextmanager
def scene(server: RocketMqAt, size: Size, seed: str, folder: Path) -> Iterator[Scene]:
    """On brokers that have been started."""
    made = Scene(server, size, folder, Random(seed), new_topic(server, size.queues))
    try:
        made.start()
        yield made
    finally:
        made.close()


def new_topic(server: RocketMqAt, queues: int) -> str:
    """With so many on each broker."""
    topic = f"orders-{uuid4().hex[:8]}"
    with Client(server.settings) as client:
        for broker in server.brokers:
            client.admin.create_topic(topic, broker, queues)
    return topic
