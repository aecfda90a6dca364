"""What is done to a scene. Every choice comes from the seed; every deed is counted once it has really happened."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random

from rocketmq.wire.batch import BatchMember
from tests.brokers.rocketmq import RocketMq
from tests.fault.kafka.processes import Disk, Worker
from tests.fault.rocketmq.gate import Aim, Gate
from tests.fault.rocketmq.ghosts import ghosts
from tests.fault.rocketmq.scene import TERMINATED, Installation

KILLS = "SIGKILL of a worker"
FREEZES = "SIGSTOP of a worker until its broker has given it up"
LAPSES = "SIGSTOP of a worker for a moment"
STOPS = "SIGTERM of a worker, rejoined"
GHOSTS = "sessions that ended at their heartbeat, and are listed"
FOREIGN = "messages of others in a journal"
BROKER_KILLS = "SIGKILL of a broker"
BROKER_FREEZES = "SIGSTOP of a broker"

EXPIRES_S = 15
"""`channelExpiredTimeout` of the brokers here; a worker beats every ten seconds."""
LOOKS_S = 10
"""Between two looks of a broker at whose time is up (`ClientHousekeepingService`)."""
PROPERTIES = {"channelExpiredTimeout": str(EXPIRES_S * 1000)}
AIM_S = 20.0


def kills(aim: Aim) -> str:
    return f"SIGKILL of a worker {aim.value}"


class Nemesis:
    """Deeds, one at a time. `gates` are those before the brokers, by name."""

    def __init__(self, scene: Installation, random: Random, gates: Mapping[str, Gate] | None = None) -> None:
        self._scene = scene
        self._random = random
        self._gates = gates or {}
        self._pause = threading.Event()

    def rest(self, least_s: float, most_s: float) -> None:
        until_s = time.monotonic() + self._random.uniform(least_s, most_s)
        while (left_s := until_s - time.monotonic()) > 0:
            self._scene.look()
            self._pause.wait(min(0.1, left_s))

    @property
    def _workers(self) -> list[Worker]:
        return list(self._scene.workers.values())

    # --- workers

    def kill(self) -> None:
        """One of them, or all at once."""
        dying = self._random.choice([*([worker] for worker in self._workers), self._workers])
        self._kill(dying)

    def _kill(self, dying: Sequence[Worker]) -> None:
        for worker in dying:
            worker.kill()
            self._scene.tally[KILLS] += 1
        self.rest(0.0, 0.7)
        for worker in dying:
            if not worker.alter(self._random.choice([Disk.KEPT, Disk.KEPT, Disk.DELETED]), self._random):
                worker.alter(Disk.KEPT, self._random)
            worker.start()

    def kill_between_deliveries(self) -> None:
        self._kill_at(Aim.DELIVERY)

    def kill_before_rows(self) -> None:
        self._kill_at(Aim.REST)

    def _kill_at(self, aim: Aim) -> None:
        gate = self._gates[self._random.choice(sorted(self._gates))]
        stopped = gate.stop_next(aim, self._scene.topic, AIM_S)
        worker = None if stopped is None else self._scene.owner(stopped)
        if worker is None or not worker.running:
            return
        self._scene.tally[kills(aim)] += 1
        self._kill([worker])

    def freeze(self) -> None:
        worker = self._random.choice(self._workers)
        worker.freeze()
        try:
            self.rest(EXPIRES_S + LOOKS_S + 2, EXPIRES_S + LOOKS_S + 5)
        finally:
            worker.thaw()
        self._scene.tally[FREEZES] += 1

    def lapse(self) -> None:
        """So long that the worker notices it (`delay_service.worker.lapses`), and its broker does not."""
        worker = self._random.choice(self._workers)
        worker.freeze()
        try:
            self.rest(0.2, 0.5)
        finally:
            worker.thaw()
        self._scene.tally[LAPSES] += 1

    def stop(self) -> None:
        worker = self._random.choice(self._workers)
        if (code := worker.stop()) not in (0, TERMINATED):
            self._scene.failures.append(f"{worker.name} ended with {code} after SIGTERM, see {worker.log}")
        self.rest(0.2, 1)
        worker.start()
        self._scene.tally[STOPS] += 1

    def leave_ghosts(self) -> None:
        """As of workers that are killed at their heartbeat."""
        with self._scene.client() as client:
            for broker in self._scene.server.brokers:
                self._scene.tally[GHOSTS] += len(ghosts(client, broker, self._scene.group, self._scene.topic))

    def write_into_journals(self) -> None:
        """As another program that has mistaken the topic."""
        with self._scene.client() as client:
            for queue in client.names.route(self._scene.journals).writable_queues(self._scene.journals):
                length = self._random.choice([0, 1, 3, 100])
                foreign = [BatchMember(self._random.randbytes(length)) for _ in range(self._random.randint(1, 80))]
                client.broker.send_batch(queue, foreign)
                self._scene.tally[FOREIGN] += len(foreign)

    # --- brokers

    @property
    def _own_brokers(self) -> RocketMq:
        """The scene's alone: one that it shares with other tests is left as it is."""
        assert isinstance(self._scene.server, RocketMq)
        return self._scene.server

    def kill_broker(self) -> None:
        """It comes back after a while; what it has acknowledged is in the machine's memory, which outlives it."""
        server = self._own_brokers
        name = self._random.choice(sorted(server.brokers))
        server.brokers[name].kill()
        self._scene.tally[BROKER_KILLS] += 1
        self.rest(0.0, 5.0)
        server.brokers[name].start()
        server.wait_for(name)

    def freeze_broker(self) -> None:
        brokers = self._own_brokers.brokers
        broker = brokers[self._random.choice(sorted(brokers))]
        broker.freeze()
        try:
            self.rest(3.0, 15.0)
        finally:
            broker.thaw()
        self._scene.tally[BROKER_FREEZES] += 1

    # --- all of it

    def rampage(self, deeds: Sequence[Callable[[], None]], least_s: float, most_s: float) -> None:
        """All of them, in an order of the seed's."""
        order = list(deeds)
        self._random.shuffle(order)
        for number, deed in enumerate(order, 1):
            print(f"{time.strftime('%H:%M:%S')}  {number:>3}/{len(order)}  {deed.__name__}", flush=True)
            deed()
            self.rest(least_s, most_s)
