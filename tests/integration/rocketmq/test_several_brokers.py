"""Two masters, of which one is killed, frozen, or loses the end of its log; and name servers that are gone."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Assigned
from mq.errors import QueueUnavailable
from mq.rocketmq import RocketmqQueue, RocketmqSettings
from rocketmq.client.client import Client
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import BROKERS, RocketMq, started
from tests.integration.rocketmq.service import Service, freeze, kill
from tests.integration.rocketmq.waiting import CLOCK, soon

pytestmark = pytest.mark.thorough
A, B = BROKERS[:2]
LATE_MAX_MS = 6_000
"""For shards of the broker that is well, on a busy machine; a request to one that is frozen waits for ten seconds."""


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMq]:
    try:
        with started(2) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


@pytest.mark.parametrize("take_away", [kill, freeze])
def test_a_broker_that_is_gone_stalls_its_own_shards_alone(
    service: Service, rocketmq: RocketMq, take_away: Callable[[RocketMq, str], Callable[[], None]]
) -> None:
    service.send([0, 1, 2, 3], "waits", delay_ms=3_000)
    bring_back = take_away(rocketmq, A)
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


@pytest.mark.parametrize("are_both", [False, True])
def test_the_api_misses_what_waits_on_a_broker_that_is_down(
    service: Service, rocketmq: RocketMq, are_both: bool
) -> None:
    """Name servers forget its topics; the API does not."""
    ids = [service.named(f"own-{number}", delay_ms=20_000) for number in range(4)]
    there = {one["message_id"] for one in ids if str(one["partition"]).startswith(A) or are_both}
    brokers = (A, B) if are_both else (A,)
    bring_back = [kill(rocketmq, broker) for broker in brokers]
    try:
        path = f"v1/messages?topic={service.topic}"
        lost = [f"{broker}:{number}" for broker in brokers for number in range(2)]
        soon(lambda: service.missing(path) == lost)
        for one in ids:
            expected = 503 if one["message_id"] in there else 200
            assert service.ask("get", f"v1/messages/{one['message_id']}").status_code == expected
            # Another shard may have the same own id.
            assert service.ask("get", f"v1/topics/{service.topic}/own/{one['own_id']}").status_code == 503
            if expected == 503:
                assert service.try_named(one["own_id"]).status_code == 503
        soon(lambda: service.missing(f"v1/topics/{service.topic}") == lost)
        for partition, broker in enumerate((A, A, B, B)):
            assert service.try_to_send(partition, "during").status_code == (503 if broker in brokers else 201)
        if not are_both:
            soon(lambda: service.anywhere() == B)
            assert {service.anywhere() for _ in range(8)} == {B}
    finally:
        for back in bring_back:
            back()
    soon(lambda: service.missing(path) == [])
    service.wait_for_all()
    service.check_each_once()


def test_an_api_is_not_ready_while_no_broker_answers(service: Service, rocketmq: RocketMq) -> None:
    for take_away in (freeze, kill):
        bring_back = [take_away(rocketmq, name) for name in rocketmq.brokers]
        try:
            soon(lambda: service.ask("get", "readyz").status_code == 503)
        finally:
            for back in bring_back:
                back()
        soon(lambda: service.ask("get", "readyz").status_code == 200)


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_without_name_servers_everything_goes_on(service: Service, rocketmq: RocketMq, how: str) -> None:
    names = rocketmq.name_server
    (names.kill if how == "killed" else names.freeze)()
    try:
        for number in range(20):
            service.send([0, 1, 2, 3], f"{how}-{number}", delay_ms=200)
        expected = set(service.sent)
        soon(lambda: expected <= {one.tag for one in service.delivered()})
    finally:
        (names.start if how == "killed" else names.thaw)()
        rocketmq.wait_ready()
    service.send([0, 1, 2, 3], "after")
    service.wait_for_all()
    service.check_each_once()


def test_a_broker_that_lost_the_end_of_its_log_delivers_what_that_undid_once_more(
    service: Service, rocketmq: RocketMq
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
    rocketmq.brokers[A].kill()
    forget_behind(rocketmq.data(A) / "commitlog", cut)
    rocketmq.brokers[A].start()
    rocketmq.wait_for(A)
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


# --- shards that are not to be seen


def test_a_worker_that_is_started_without_a_broker_finds_its_shards_when_it_is_back(
    service: Service, rocketmq: RocketMq
) -> None:
    """Name servers forget the topics of a broker that is down and has no replica."""
    service.send([0, 1, 2, 3], "waits", delay_ms=3_000)
    service.worker.kill()
    bring_back = kill(rocketmq, A)
    try:
        service.worker.start()
        service.worker.wait_ready()
        soon(lambda: {f"waits-{partition}" for partition in (2, 3)} <= {one.tag for one in service.delivered(B)})
    finally:
        bring_back()
    service.wait_for_all()
    service.check_each_once()


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("own", ["buffer", "cursor"])
def test_messages_in_a_queue_that_was_taken_away_wait_in_a_stalled_shard(
    service: Service, client: Client, own: str, is_restarted: bool
) -> None:
    """Of the target and of a topic of ours: a worker makes queues again that the target has."""
    service.send([0, 1], "waits", delay_ms=5_000)
    topics = (service.topic, f"{service.namespace}%{own}%{service.topic}")
    (flag,) = {one.topic_sys_flag for one in client.names.route(topics[1]).queues}
    for topic in topics:
        client.admin.create_topic(topic, A, 1, sys_flag=flag)
    if is_restarted:
        service.worker.kill()
        service.worker.start()
        service.worker.wait_alive()
    soon(lambda: {partition for partition, _ in service.stalled()} == {f"{A}:1"})
    soon(lambda: "waits-0" in {one.tag for one in service.delivered()})
    assert "waits-1" not in {one.tag for one in service.delivered()}
    for topic in topics:
        client.admin.create_topic(topic, A, 2, sys_flag=flag)
    service.wait_for_all()
    soon(lambda: not service.stalled())
    service.check_each_once()


# --- the queue by itself


@pytest.fixture
def queue(rocketmq: RocketMq) -> Iterator[RocketmqQueue]:
    settings = RocketmqSettings(
        name_servers=rocketmq.settings.name_servers[0],
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


def test_owners_of_shards_of_a_frozen_broker_are_left_out(queue: RocketmqQueue, rocketmq: RocketMq) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    with Client(rocketmq.settings) as client:
        for broker in (A, B):
            client.admin.create_topic(topic, broker, 1)
    queue.ensure_buffer(topic, DEFAULT_RULES)
    source, sink = queue.open_worker("first")
    with closing(source), closing(sink):
        shards = {Shard(topic, f"{A}:0"), Shard(topic, f"{B}:0")}
        soon(lambda: taken(queue, source, shards))
        soon(lambda: queue.owners().keys() == shards)
        rocketmq.brokers[A].freeze()
        try:
            assert queue.owners().keys() == {Shard(topic, f"{B}:0")}
        finally:
            rocketmq.brokers[A].thaw()


def taken(queue: RocketmqQueue, source: Any, shards: set[Shard]) -> bool:
    source.poll(10, 0.1)
    try:
        for shard in shards:
            queue.takeover(shard)
    except QueueUnavailable:
        return False
    return True
