"""A broker, two workers, two proxies that share their ports, and clients that know the proxies alone."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from rocketmq.client.client import Client
from rocketmq.errors import RocketmqError
from tests.acceptance.java_client import JavaClient
from tests.brokers.rocketmq import RocketMq
from tests.fault.proxy.proxies import KILLS as PROXY_KILLS
from tests.fault.proxy.proxies import Pair
from tests.fault.rocketmq.nemesis import BROKER_KILLS, Nemesis
from tests.fault.rocketmq.nemesis import KILLS as WORKER_KILLS
from tests.fault.rocketmq.scene import Installation, new_topic
from tests.fault.rocketmq_proxy.found import buffered, found, targets
from tests.fault.rocketmq_proxy.judge import Found
from tests.ports import free_range

QUEUES = 4
WORKERS = 2
FIRST_PORTS, PORTS_PER_BROKER = 4, 8
TOGETHER = "SIGKILL of a proxy and a worker at the same time"


class Stage(Installation):
    """On one broker."""

    def __init__(self, server: RocketMq, folder: Path, random: Random) -> None:
        super().__init__(server, WORKERS, folder, new_topic(server, QUEUES))
        port = free_range(FIRST_PORTS + PORTS_PER_BROKER * len(server.brokers))
        more = {
            "proxy__rocketmq__brokers": ",".join(server.brokers),
            "proxy__rocketmq__brokers_max": str(len(server.brokers)),
        }
        self.pair = Pair("rocketmq", port, {**self.settings, **more}, folder, random, self.tally)
        self.java = JavaClient(self.name_server, folder)
        self._random = random

    @property
    def name_server(self) -> str:
        """As clients know it."""
        return self.pair.address

    def start(self) -> None:
        self.pair.start()
        for worker in self.workers.values():
            worker.start()

    def look(self) -> None:
        super().look()
        self.pair.supervise()

    def found(self, is_over: Callable[[Found], bool]) -> Found:
        """What the brokers have, when it is over, or when that has had its time; workers have ended then."""
        with self.client() as client:
            self.drain(lambda: self._is(client, is_over))
            self.failures += self.pair.failures
            return found(client, tuple(self.server.brokers), self.topic, self.namespace)

    def _is(self, client: Client, is_over: Callable[[Found], bool]) -> bool:
        with suppress(RocketmqError):
            there = targets(client, tuple(self.server.brokers), self.topic)
            there.buffered = buffered(client, tuple(self.server.brokers), self.topic, self.namespace)
            return is_over(there)
        return False

    def close(self) -> None:
        super().close()
        self.pair.close()
        self.java.close()


class ProxyNemesis(Nemesis):
    """Deeds that proxies suffer, too."""

    def __init__(self, stage: Stage, random: Random) -> None:
        super().__init__(stage, random)
        self._pair = stage.pair

    def kill_proxy(self) -> None:
        """One of them, or both at once."""
        if self._random.randrange(6):
            self._pair.kill_one(self._random.uniform(0, 0.5))
        else:
            self._pair.kill_both()

    def kill_together(self) -> None:
        worker = self._random.choice(self._workers)
        worker.kill()
        self._pair.kill_one()
        worker.start()
        self._scene.tally[WORKER_KILLS] += 1
        self._scene.tally[TOGETHER] += 1

    def kill_one_of_both(self) -> None:
        """A proxy, or a worker."""
        self._random.choice([self.kill_proxy, self.kill])()

    def until(self, wanted: Mapping[str, int], least_s: float, most_s: float) -> None:
        """Kill until each has happened so often; kinds by how many are left."""
        deeds = {
            PROXY_KILLS: self.kill_proxy,
            WORKER_KILLS: self.kill,
            TOGETHER: self.kill_together,
            BROKER_KILLS: self.kill_broker,
        }
        tally = self._scene.tally
        while left := [name for name, count in wanted.items() for _ in range(count - tally[name])]:
            deeds[self._random.choice(left)]()
            print(f"{time.strftime('%H:%M:%S')}  {dict(tally)}", flush=True)
            self.rest(least_s, most_s)


@contextmanager
def stage(server: RocketMq, seed: str, folder: Path) -> Iterator[Stage]:
    """On a broker that has been started. Raises Unavailable."""
    made = Stage(server, folder, Random(seed))
    try:
        made.start()
        yield made
    finally:
        made.close()
