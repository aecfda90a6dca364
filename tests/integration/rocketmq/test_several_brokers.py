"""Two masters, of which one is killed, frozen, or loses the end of its log; and name servers that are gone."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Assigned
from mq.errors import QueueUnavailable
from mq.rocketmq import RocketmqQueue, RocketmqSettings
from rocketmq.client.client import Client
from rocketmq.wire.stored import StoredMessage
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import BROKERS, RocketMq, started
from tests.fault.rocketmq.judge import Delivered, delivered_into, messages
from tests.fault.server import Server, http_client
from tests.integration.rocketmq.conftest import CLOCK, soon

pytestmark = pytest.mark.thorough
A, B = BROKERS[:2]
QUEUES = 2
LATE_MAX_MS = 6_000
"""For shards of the broker that is well, on a busy machine; a request to one that is frozen waits for ten seconds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RocketMq]:
    try:
        with started(2) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


@pytest.fixture
def client(cluster: RocketMq) -> Iterator[Client]:
    with Client(cluster.settings) as made:
        yield made


class Service:
    """An API and a worker, and one topic on both brokers."""

    def __init__(self, server: RocketMq, client: Client, folder: Path) -> None:
        self.server, self.client = server, client
        self.topic = f"orders-{uuid4().hex[:8]}"
        for broker in server.brokers:
            client.admin.create_topic(self.topic, broker, QUEUES)
        settings = {
            "mq__kind": "rocketmq",
            "mq__bootstrap_servers": server.settings.name_servers[0],
            "namespace": f"ns{uuid4().hex[:8]}",
            "delay__topics": "orders-*",
            "delay__discovery_interval": "200ms",
            "store__near_due": "0s",
        }
        self.api, self.worker = Server(folder / "api", "api", **settings), Server(folder / "w", "worker", **settings)
        self.sent: set[str] = set()

    def start(self) -> None:
        for process in (self.api, self.worker):
            process.start()
        for process in (self.api, self.worker):
            process.wait_ready()
        self.send([*range(4)], "first")
        self.wait_for_all()

    def close(self) -> None:
        for process in (self.worker, self.api):
            process.kill()

    def send(self, partitions: list[int], tag: str, delay_ms: int = 1) -> None:
        """A message to each partition: 0 and 1 are on the first broker, 2 and 3 on the second."""
        for partition in partitions:
            one = f"{tag}-{partition}"
            message = {"value": one, "partition": partition, "schedule": {"delay": f"{delay_ms}ms"}}
            answer = self._ask("post", f"v1/topics/{self.topic}/messages", json=message)
            assert answer.status_code == 201, answer.text
            self.sent.add(one)

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        with http_client(20) as http:
            return http.request(method, f"{self.api.url}/{path}", **more)

    def messages(self, broker: str) -> list[StoredMessage]:
        return list(messages(self.client, [broker], self.topic))

    def pending(self) -> float:
        """Messages, as the worker's metrics have them."""
        with http_client(5) as http:
            lines = http.get(f"{self.worker.url}/metrics").text.splitlines()
        found = [line for line in lines if line.startswith("delayline_pending_messages{") and self.topic in line]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def delivered(self, *brokers: str) -> list[Delivered]:
        return list(delivered_into(self.client, brokers or tuple(self.server.brokers), self.topic))

    def wait_for_all(self) -> None:
        soon(lambda: self.sent <= {one.tag for one in self.delivered()})

    def stalled(self) -> set[tuple[str, str]]:
        """Partition and reason, as metrics have them."""
        with http_client(5) as http:
            lines = http.get(f"{self.worker.url}/metrics").text.splitlines()
        found = [line for line in lines if line.startswith("delayline_shard_stalled{") and self.topic in line]
        return {(_label(line, "partition"), _label(line, "reason")) for line in found}

    def check_each_once(self) -> None:
        counts = Counter(one.tag for one in self.delivered())
        assert counts == dict.fromkeys(self.sent, 1)
        assert not [one for one in self.delivered() if one.stored_ms < one.due_ms]


def _label(line: str, name: str) -> str:
    return line.partition(f'{name}="')[2].partition('"')[0]


@pytest.fixture
def service(cluster: RocketMq, client: Client, tmp_path: Path) -> Iterator[Service]:
    made = Service(cluster, client, tmp_path)
    with closing(made):
        made.start()
        yield made
        print(made.worker.tail_of_log())


def kill(server: RocketMq, name: str) -> Callable[[], None]:
    server.brokers[name].kill()

    def back() -> None:
        server.brokers[name].start()
        server.wait_for(name)

    return back


def freeze(server: RocketMq, name: str) -> Callable[[], None]:
    server.brokers[name].freeze()
    return server.brokers[name].thaw


@pytest.mark.parametrize("take_away", [kill, freeze])
def test_a_broker_that_is_gone_stalls_its_own_shards_alone(
    service: Service, cluster: RocketMq, take_away: Callable[[RocketMq, str], Callable[[], None]]
) -> None:
    service.send([0, 1, 2, 3], "waits", delay_ms=3_000)
    bring_back = take_away(cluster, A)
    try:
        for number in range(30):
            service.send([2, 3], f"during-{number}", delay_ms=100)
        stalled = {(f"{A}:0", "unavailable"), (f"{A}:1", "unavailable")}
        soon(lambda: stalled <= service.stalled())
        assert {partition for partition, _ in service.stalled()} == {f"{A}:0", f"{A}:1"}
        during = {tag for tag in service.sent if tag.startswith("during")}
        soon(lambda: during <= {one.tag for one in service.delivered(B)})
    finally:
        bring_back()
    service.wait_for_all()
    soon(lambda: not service.stalled())
    service.check_each_once()
    late_ms = max(one.stored_ms - one.due_ms for one in service.delivered(B))
    assert late_ms < LATE_MAX_MS


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_without_name_servers_everything_goes_on(service: Service, cluster: RocketMq, how: str) -> None:
    names = cluster.name_server
    (names.kill if how == "killed" else names.freeze)()
    try:
        for number in range(20):
            service.send([0, 1, 2, 3], f"{how}-{number}", delay_ms=200)
        expected = set(service.sent)
        soon(lambda: expected <= {one.tag for one in service.delivered()})
    finally:
        (names.start if how == "killed" else names.thaw)()
        cluster.wait_ready()
    service.send([0, 1, 2, 3], "after")
    service.wait_for_all()
    service.check_each_once()


def test_a_broker_that_lost_the_end_of_its_log_delivers_what_that_undid_once_more(
    service: Service, cluster: RocketMq
) -> None:
    """A delivery that was lost with its broker's memory is no delivery, and its worker's index has let go of it."""
    service.send([0, 1], "stays")
    service.wait_for_all()
    service.send([0, 1], "undone", delay_ms=6_000)
    service.send([0, 1], "between")  # the committed read position passes what waits
    service.wait_for_all()
    soon(lambda: service.pending() == 0)
    cut = min(one.commit_log_offset for one in service.messages(A) if one.body.startswith(b"undone"))
    service.worker.stop()  # in order, so that its index is on the disk as the last commit left it
    cluster.brokers[A].kill()
    forget_behind(cluster.data(A) / "commitlog", cut)
    cluster.brokers[A].start()
    cluster.wait_for(A)
    assert not [one for one in service.messages(A) if one.body.startswith(b"undone")]
    service.worker.start()
    service.wait_for_all()
    service.check_each_once()


def forget_behind(commit_log: Path, cut: int) -> None:
    """Zeros from this offset on, as where they were never flushed."""
    for file in sorted(commit_log.iterdir()):
        size, kept = file.stat().st_size, min(max(cut - int(file.name), 0), file.stat().st_size)
        os.truncate(file, kept)
        os.truncate(file, size)


# --- the queue by itself


@pytest.fixture
def queue(cluster: RocketMq) -> Iterator[RocketmqQueue]:
    settings = RocketmqSettings(
        name_servers=cluster.settings.name_servers[0],
        namespace=f"ns{uuid4().hex[:8]}",
        discovery_interval_s=0.2,
        tend_interval_s=0.5,
    )
    with closing(RocketmqQueue(settings, CLOCK)) as made:
        yield made


def test_queues_that_a_target_gets_later_become_shards_by_themselves(queue: RocketmqQueue, client: Client) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    client.admin.create_topic(topic, A, 1)
    queue.ensure_buffer(topic, DEFAULT_RULES)
    source, sink = queue.open_worker("first")
    with closing(source), closing(sink):
        found: set[Shard] = set()

        def assigned(shards: set[Shard]) -> bool:
            events = source.poll(10, 0.1)
            found.update(shard for one in events if isinstance(one, Assigned) for shard in one.shards)
            return shards <= found

        soon(lambda: assigned({Shard(topic, f"{A}:0")}))
        client.admin.create_topic(topic, A, 2)
        client.admin.create_topic(topic, B, 1)
        soon(lambda: assigned({Shard(topic, f"{A}:1"), Shard(topic, f"{B}:0")}))
        assert len({queue.buffer(shard).topic_id for shard in found}) == 1


def test_a_queue_that_a_target_has_no_more_is_its_shards_trouble(queue: RocketmqQueue, client: Client) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    client.admin.create_topic(topic, A, 2)
    queue.ensure_buffer(topic, DEFAULT_RULES)
    shard = Shard(topic, f"{A}:1")
    assert queue.target_trouble(shard) is None
    client.admin.create_topic(topic, A, 1)
    soon(lambda: queue.target_trouble(shard) == f"topic {topic!r} has no queue {A}:1")
    assert len(queue.buffer(shard).partitions) == 2
    client.admin.create_topic(topic, A, 2)
    soon(lambda: queue.target_trouble(shard) is None)


def test_owners_of_shards_of_a_frozen_broker_are_left_out(queue: RocketmqQueue, cluster: RocketMq) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    with Client(cluster.settings) as client:
        for broker in (A, B):
            client.admin.create_topic(topic, broker, 1)
    queue.ensure_buffer(topic, DEFAULT_RULES)
    source, sink = queue.open_worker("first")
    with closing(source), closing(sink):
        shards = {Shard(topic, f"{A}:0"), Shard(topic, f"{B}:0")}
        soon(lambda: taken(queue, source, shards))
        soon(lambda: queue.owners().keys() == shards)
        cluster.brokers[A].freeze()
        try:
            assert queue.owners().keys() == {Shard(topic, f"{B}:0")}
        finally:
            cluster.brokers[A].thaw()


def taken(queue: RocketmqQueue, source: Any, shards: set[Shard]) -> bool:
    source.poll(10, 0.1)
    try:
        for shard in shards:
            queue.takeover(shard)
    except QueueUnavailable:
        return False
    return True
