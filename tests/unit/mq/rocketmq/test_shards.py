"""Which shards there are, and what is known of them while their broker has no master."""

from types import SimpleNamespace
from typing import Any

from delayline.clock import ManualClock
from delayline.records.message import Shard
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.errors import TopicMissing
from rocketmq.wire.bodies import BrokerAddresses, QueueRange, Route

BUFFER, JOURNAL = "ns%buffer%orders", "ns%cursor%orders"
SETTINGS = RocketmqSettings(name_servers="a:1", namespace="ns")


def cluster(**routes: Route) -> RocketmqCluster:
    """With these topics: `buffer`, `journal` and `target`."""
    wires = {"buffer": BUFFER, "journal": JOURNAL, "target": "orders"}
    topics = {wires[name]: route for name, route in routes.items()}

    def route(wire: str) -> Route:
        if wire not in topics:
            raise TopicMissing(17, "", "")
        return topics[wire]

    names = SimpleNamespace(route=route, forget=lambda _: None)
    registered = {one.broker: "" for route in topics.values() for one in route.brokers}
    admin = SimpleNamespace(topics=lambda: list(topics), brokers=lambda: registered)
    client: Any = SimpleNamespace(names=names, admin=admin)
    return RocketmqCluster(SETTINGS, client, ManualClock())


def on(permission: int = 6, *, acts: bool = False, **queues: int) -> Route:
    """So many queues on each broker."""
    ranges = tuple(QueueRange(broker, count, count, permission) for broker, count in queues.items())
    return Route(ranges, tuple(BrokerAddresses("x", broker, {0: f"{broker}:1"}, acts) for broker in queues))


def shards(found: RocketmqCluster) -> list[str]:
    return [shard.partition for shard, _ in found.shards(found.buffers(), found.held)]


def test_a_shard_stays_where_its_buffer_or_its_journal_has_lost_a_queue() -> None:
    assert shards(cluster(buffer=on(a=2, b=1), journal=on(a=1, b=2))) == ["a:0", "a:1", "b:0", "b:1"]


def test_a_buffer_that_is_being_made_has_no_shards_yet() -> None:
    assert shards(cluster(buffer=on(a=2, b=2), journal=on(a=2))) == ["a:0", "a:1"]
    assert shards(cluster(buffer=on(a=2))) == []


def test_each_shard_has_its_journal() -> None:
    found = cluster(buffer=on(a=1), journal=on(a=1))
    assert list(found.shards(found.buffers(), found.remembered)) == [(Shard("orders", "a:0"), (JOURNAL, "a", 0))]


def test_a_right_that_name_servers_take_from_a_broker_without_a_master_is_no_trouble_of_the_topics() -> None:
    read_only, acted_for = cluster(target=on(4, a=1)), cluster(target=on(4, acts=True, a=1))
    assert not read_only.held("orders")["a"].is_writable
    assert acted_for.held("orders")["a"].is_writable
