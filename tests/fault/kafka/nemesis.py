"""What is done to a scene. Every choice comes from the seed; every deed is counted once it has really happened."""

import signal
import time
from collections.abc import Callable, Sequence
from random import Random

from confluent_kafka import KafkaException

from tests.fault.kafka.clients import now_ms
from tests.fault.kafka.evidence import Outage
from tests.fault.kafka.processes import Disk, Worker
from tests.fault.kafka.scene import SESSION_S, Scene
from tests.fault.kafka.transactions import OPEN

KILLS = "SIGKILL of a worker"
KILLS_OPEN = "SIGKILL of a worker whose transaction the broker reports as open"
FREEZES = "SIGSTOP of a worker beyond its session"
STOPS = "SIGTERM of a worker, rejoined"
DOOR_KILLS = "SIGKILL of the HTTP API"
BROKER_KILLS = "SIGKILL of a broker"
BROKER_RESTARTS = "SIGKILL of a broker that comes back at once"
LEADER_KILLS = "SIGKILL of a leader of three nodes"
GROUP_DELETIONS = "worker group deleted while nobody is in it"
TERMINATED = 256 - signal.SIGTERM
"""It had only just been started, and did not listen to signals yet."""
OWNED_S = 90.0
"""Until every shard has an owner: a session, or a rebalance where a broker that came back waits for the dead."""

AIM_S = 5.0
AIM_PAUSE_S = 0.001


def restarted(disk: Disk) -> str:
    return f"restart with index {disk.value}"


class Nemesis:
    """Deeds, one at a time. A worker that was killed is started again by the same deed."""

    def __init__(self, scene: Scene, rnd: Random) -> None:
        self._scene = scene
        self._rnd = rnd
        self._disks: list[Disk] = []

    def rest(self, least_s: float, most_s: float) -> None:
        until_s = time.monotonic() + self._rnd.uniform(least_s, most_s)
        while (left_s := until_s - time.monotonic()) > 0:
            self._scene.supervise()
            time.sleep(min(0.05, left_s))

    def _any(self) -> Worker:
        return self._rnd.choice(self._scene.workers)

    # --- workers

    def kill(self) -> None:
        self.dispatch(self._any())
        self.rest(0.2, 4)
        self.raise_all()

    def kill_all(self) -> None:
        for worker in self._scene.workers:
            self.dispatch(worker)
        self.rest(0.2, 3)
        self.raise_all()

    def dispatch(self, worker: Worker) -> None:
        worker.kill()
        self._scene.tally[KILLS] += 1

    def raise_all(self) -> None:
        """Start everybody who is down, on a disk that was altered or not."""
        for worker in self._scene.workers:
            if not worker.running:
                worker.keep_copy()
                disk = self._next_disk()
                if worker.alter(disk, self._rnd):
                    self._scene.tally[restarted(disk)] += 1
                else:
                    self._disks.insert(0, disk)
                worker.start()

    def _next_disk(self) -> Disk:
        """Every second one as it was left; each of the others equally often."""
        if not self._disks:
            self._disks = [Disk.KEPT] * 3 + [Disk.STALE, Disk.DELETED, Disk.CORRUPTED]
            self._rnd.shuffle(self._disks)
        return self._disks.pop()

    def kill_in_transaction(self) -> None:
        """Kill a worker whose transaction is open, and ask again once it is dead: only then it counts."""
        found = self._aim()
        if found is not None:
            worker, writer = found
            self.dispatch(worker)
            state = self._scene.transactions.states().get(writer, "")
            if state in OPEN:
                self._scene.tally[KILLS_OPEN] += 1
                self._scene.tally[f"   state after death: {state}"] += 1
        self.rest(0.2, 4)
        self.raise_all()

    def _aim(self) -> tuple[Worker, str] | None:
        """Who owns something has transactions; a group in which killed members are still counted gives nobody any."""
        self._scene.wait(self._scene.all_owned, "every shard has an owner that lives", OWNED_S)
        writers = {worker.writer: worker for worker in self._scene.workers if worker.running}
        until_s = time.monotonic() + AIM_S
        while time.monotonic() < until_s:
            for writer in self._scene.transactions.open():
                if writer in writers:
                    return writers[writer], writer
            time.sleep(AIM_PAUSE_S)
        return None

    def freeze(self) -> None:
        worker = self._any()
        worker.freeze()
        try:
            self.rest(SESSION_S + 2, SESSION_S + 5)
        finally:
            worker.thaw()
        self._scene.tally[FREEZES] += 1

    def stop(self) -> None:
        worker = self._any()
        self.end(worker)
        self.rest(0.2, 3)
        self.raise_all()
        self._scene.tally[STOPS] += 1

    def end(self, worker: Worker) -> None:
        code = worker.stop()
        if code not in (0, TERMINATED):
            self._scene.failures.append(f"{worker.name} ended with {code} after SIGTERM, see {worker.log}")

    # --- the rest

    def kill_api(self) -> None:
        scene = self._scene
        scene.api.kill()
        scene.tally[DOOR_KILLS] += 1
        self.rest(0.2, 2)
        scene.api.start()
        scene.wait_for_api()

    def kill_broker(self) -> None:
        """Of a cluster of three, one that leads something of ours; two go on meanwhile."""
        scene = self._scene
        nodes = scene.kafka.nodes
        node = nodes[0] if len(nodes) == 1 else nodes[self._leader() - 1]
        killed_ms = now_ms()
        node.kill()
        scene.tally[BROKER_KILLS if len(nodes) == 1 else LEADER_KILLS] += 1
        if len(nodes) == 1:
            self.rest(0, 2)
        else:
            self.rest(SESSION_S, SESSION_S + 6)
        node.start()
        scene.kafka.wait_ready()
        if len(nodes) == 1:
            scene.outages.append(Outage(killed_ms, now_ms()))

    def restart_broker(self) -> None:
        """It is back before its session has run out: it leads what it has led, loses it, and is given it once more.
        Whatever it loads it begins to load twice."""
        (node,) = self._scene.kafka.nodes
        killed_ms = now_ms()
        node.kill()
        self._scene.tally[BROKER_RESTARTS] += 1
        node.start()
        self._scene.kafka.wait_ready()
        self._scene.outages.append(Outage(killed_ms, now_ms()))

    def _leader(self) -> int:
        """The node that leads a random shard's buffer."""
        topic, number = self._rnd.choice(self._scene.shards)
        buffer = self._scene.names.buffer(topic)
        leader = self._scene.admin().list_topics(buffer, timeout=10).topics[buffer].partitions[number].leader
        return int(leader)

    def delete_group(self) -> None:
        """The cursors are left in the compacted topic alone."""
        scene = self._scene
        for worker in scene.workers:
            self.end(worker)
        scene.wait(self._group_deleted, "the empty group is deleted", OWNED_S)
        scene.tally[GROUP_DELETIONS] += 1
        self.raise_all()

    def _group_deleted(self) -> bool:
        group = f"{self._scene.names.namespace}-worker"
        admin = self._scene.admin()
        try:
            admin.delete_consumer_groups([group], request_timeout=10)[group].result()
        except KafkaException as error:
            print(f"          the group cannot be deleted yet: {error.args[0].str()}", flush=True)
            time.sleep(1)
            return False
        return True

    def rampage(self, deeds: Sequence[Callable[[], None]], least_s: float, most_s: float) -> None:
        """All of them, in an order of the seed's."""
        order = list(deeds)
        self._rnd.shuffle(order)
        for number, deed in enumerate(order, 1):
            print(f"{time.strftime('%H:%M:%S')}  {number:>3}/{len(order)}  {deed.__name__}", flush=True)
            deed()
            self.rest(least_s, most_s)
