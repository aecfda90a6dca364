"""The parts in which nothing is delivered: what is delayed waits for an hour, and both logs are read in the end.

kills     one node, two proxies: SIGKILL of one or both at random, SIGTERM, restarts of the broker
marks     one node: a proxy ends itself at each marked point (`tests.fault.proxy.marked`)
cluster   three nodes: leaders are killed and come back; proxies as well
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers.kafka import Kafka
from tests.fault.proxy.clients import (
    AIOKAFKA,
    JAVA,
    JAVA_TRANSACTIONAL,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    LIBRDKAFKA_TRANSACTIONAL,
    Client,
    Kind,
    Load,
)
from tests.fault.proxy.judge import Log, Logs, Notes, Verdict, judge
from tests.fault.proxy.logs import values
from tests.fault.proxy.marked import POINTS
from tests.fault.proxy.proxies import Pair, before_kafka

TOPIC = "orders"
NAMESPACE = "delayline"
BROKER_KILLS = "SIGKILL of a broker"
LEADER_KILLS = "SIGKILL of a leader of three nodes"
SETTLE_S = 2.0
RESTORED_S = 60.0

MAIN_KINDS = (JAVA, JAVA_TRANSACTIONAL, LIBRDKAFKA)
ALL_KINDS = (*MAIN_KINDS, LIBRDKAFKA_TRANSACTIONAL, KAFKA_PYTHON, AIOKAFKA)


@dataclass
class Outcome:
    """What a part came to."""

    clients: Sequence[str]
    tally: Counter[str]
    verdict: Verdict
    failures: list[str]
    seconds: float
    remarks: Sequence[str] = ()

    @property
    def good(self) -> bool:
        return not (self.failures or self.verdict.broken)


@dataclass
class Stage:
    """A cluster, two proxies in front of it, and clients that send."""

    kafka: Kafka
    pair: Pair
    clients: list[Client]
    load: Load
    rnd: Random
    tally: Counter[str] = field(default_factory=Counter)

    def rest(self, least_s: float, most_s: float) -> None:
        until_s = time.monotonic() + self.rnd.uniform(least_s, most_s)
        while (left_s := until_s - time.monotonic()) > 0:
            self.pair.supervise()
            time.sleep(min(0.1, left_s))

    def hush(self) -> list[str]:
        """End every client; what is wrong with how they ended."""
        for client in self.clients:
            client.ask_to_end()
        return [text for client in self.clients if client.log.exists() and (text := client.wait())]

    def kill_broker(self) -> None:
        nodes = self.kafka.nodes
        node = self.rnd.choice(nodes)
        node.kill()
        self.tally[BROKER_KILLS if len(nodes) == 1 else LEADER_KILLS] += 1
        if len(nodes) == 1:
            self.rest(0, 1)
        else:
            self.rest(2, 6)  # the others have noticed, or not
        node.start()
        self.kafka.wait_ready()
        self._await_replicas()

    def _await_replicas(self) -> None:
        """Before the next one is killed: two of three replicas have to be there."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})
        until_s = time.monotonic() + RESTORED_S
        while time.monotonic() < until_s:
            topics = admin.list_topics(timeout=10).topics.values()
            if all(len(one.isrs) == len(one.replicas) for topic in topics for one in topic.partitions.values()):
                return
            time.sleep(0.2)

    def notes(self) -> Notes:
        return {client.name: client.notes() for client in self.clients}

    def logs(self) -> Logs:
        servers, count = self.kafka.bootstrap_servers, self.load.partitions
        found = {}
        for log, topic in ((Log.TARGET, TOPIC), (Log.BUFFER, f"{NAMESPACE}.buffer.{TOPIC}")):
            for number, read in enumerate(values(servers, topic, count)):
                found[log, number] = read
        return found


Deed = Callable[[Stage], None]


@contextmanager
def stage(nodes: int, kinds: Sequence[Kind], load: Load, seed: int, folder: Path) -> Iterator[Stage]:
    """Everything runs, and clients send."""
    with closing(Kafka(nodes)) as kafka:
        kafka.start()
        _make_topic(kafka, load.partitions)
        rnd, tally = Random(seed), Counter[str]()
        pair = before_kafka(kafka.bootstrap_servers, nodes, NAMESPACE, TOPIC, folder, rnd, tally)
        with closing(pair):
            pair.start()
            clients = [
                Client(kind, number, folder, pair.address, TOPIC, load, seed) for number, kind in enumerate(kinds)
            ]
            made = Stage(kafka, pair, clients, load, rnd, tally)
            try:
                for client in clients:
                    client.start()
                yield made
            finally:
                for client in clients:
                    client.ask_to_end()


def _make_topic(kafka: Kafka, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    made = admin.create_topics([NewTopic(TOPIC, partitions, len(kafka.nodes))], request_timeout=30)
    made[TOPIC].result()


def play(nodes: int, kinds: Sequence[Kind], load: Load, seed: int, folder: Path, trouble: Deed) -> Outcome:
    """Raises Unavailable where there can be no broker."""
    started_s = time.monotonic()
    with stage(nodes, kinds, load, seed, folder) as made:
        made.rest(SETTLE_S, 2 * SETTLE_S)
        failures = []
        try:
            trouble(made)
        except AssertionError as error:
            failures.append(str(error))
        made.rest(SETTLE_S, 2 * SETTLE_S)
        failures += [*made.hush(), *made.pair.failures]
        verdict = judge(made.notes(), made.logs())
        labels = [client.kind.label for client in made.clients]
        return Outcome(labels, made.tally, verdict, failures, time.monotonic() - started_s)


def until(duration_s: float, deeds: Sequence[tuple[int, Deed]], least_s: float, most_s: float) -> Deed:
    """Deeds by weight, one after the other, for so long."""

    def trouble(made: Stage) -> None:
        end_s = time.monotonic() + duration_s
        chosen = [deed for weight, deed in deeds for _ in range(weight)]
        while time.monotonic() < end_s:
            made.rnd.choice(chosen)(made)
            made.rest(least_s, most_s)

    return trouble


def kill_one(made: Stage) -> None:
    made.pair.kill_one(made.rnd.uniform(0, 0.5))


def kill_both(made: Stage) -> None:
    made.pair.kill_both()


def stop_one(made: Stage) -> None:
    made.pair.stop_one()


def at_points(points: Sequence[str], duration_s: float) -> Deed:
    """Each point once, and again as long as there is time."""

    def trouble(made: Stage) -> None:
        end_s, turn = time.monotonic() + duration_s, 0
        while turn < len(points) or time.monotonic() < end_s:
            made.pair.kill_at(points[turn % len(points)])
            made.rest(0, 0.5)
            turn += 1

    return trouble


def kills(seed: int, folder: Path, duration_s: float) -> Outcome:
    deeds: list[tuple[int, Deed]] = [(12, kill_one), (3, kill_both), (1, stop_one)]

    def trouble(made: Stage) -> None:
        for _ in range(2):
            until(duration_s / 2, deeds, 0, 1)(made)
            made.kill_broker()
            made.rest(1, 3)

    return play(1, ALL_KINDS, Load(), seed, folder, trouble)


def marks(seed: int, folder: Path, duration_s: float) -> Outcome:
    return play(1, MAIN_KINDS, Load(), seed, folder, at_points(POINTS, duration_s))


def cluster(seed: int, folder: Path, duration_s: float) -> Outcome:
    deeds: list[tuple[int, Deed]] = [(2, Stage.kill_broker), (5, kill_one), (1, kill_both)]

    def trouble(made: Stage) -> None:
        made.kill_broker()
        made.rest(1, 2)
        until(duration_s, deeds, 0, 2)(made)
        made.kill_broker()

    return play(3, MAIN_KINDS, Load(partitions=3), seed, folder, trouble)
