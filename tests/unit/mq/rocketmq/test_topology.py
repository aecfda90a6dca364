"""mq.rocketmq.topology: what brokers have of topics, those that are down among them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from delayline.clock import ManualClock
from mq.rocketmq.topology import DOWN_S, Topology
from rocketmq.errors import TopicMissing
from rocketmq.wire.bodies import BrokerAddresses, QueueRange, Route


class Cluster:
    """A client of a name server; each broker has queues of topics, and is registered, or not."""

    def __init__(self, **brokers: dict[str, int]) -> None:
        self.brokers = brokers
        self.registered = set(brokers)
        self.replicas: set[str] = set()
        """Registered by a replica alone."""
        self.asked: Counter[str] = Counter()
        self.admin = self.names = self
        self.after_route: Callable[[], None] = lambda: None

    def route(self, topic: str) -> Route:
        self.asked["route"] += 1
        found = {name: has[topic] for name, has in self.brokers.items() if topic in has and name in self.registered}
        self.after_route()
        if not found:
            raise TopicMissing(17, "", "")
        brokers = [BrokerAddresses("c", name, {1 if name in self.replicas else 0: f"{name}:1"}) for name in found]
        return Route(tuple(QueueRange(name, count, count) for name, count in found.items()), tuple(brokers))

    def forget(self, _: str) -> None:
        """It is asked anew each time."""

    def brokers_now(self) -> dict[str, str]:
        self.asked["brokers"] += 1
        return {name: f"{name}:1" for name in self.registered - self.replicas}


class Scene:
    def __init__(self, **brokers: dict[str, int]) -> None:
        self.cluster, self.clock = Cluster(**brokers), ManualClock()
        client: Any = Client(self.cluster)
        self.topology = Topology(client, self.clock)

    def queues(self, topic: str = "orders") -> dict[str, int]:
        return {broker: held.queues for broker, held in self.topology.held(topic).items()}

    def down(self, topic: str = "orders") -> set[str]:
        return {broker for broker, held in self.topology.held(topic).items() if not held.has_master}


class Client:
    """The two parts of one that are used."""

    def __init__(self, cluster: Cluster) -> None:
        self.names = cluster
        self.admin = self
        self.brokers = cluster.brokers_now


@pytest.fixture(name="scene")
def seen() -> Scene:
    scene = Scene(a={"orders": 4}, b={"orders": 2})
    assert scene.queues() == {"a": 4, "b": 2}
    return scene


def test_a_broker_that_is_not_registered_keeps_its_queues() -> None:
    scene = Scene(a={"orders": 4}, b={"orders": 2})
    assert not scene.down()
    scene.cluster.registered = {"b"}
    assert scene.queues() == {"a": 4, "b": 2}
    assert scene.down() == {"a"}


def test_a_topic_is_there_when_all_its_brokers_are_down(scene: Scene) -> None:
    scene.cluster.registered = set()
    assert scene.queues() == {"a": 4, "b": 2}
    assert "orders" in scene.topology.seen


def test_a_broker_that_is_registered_again_has_what_it_registers(scene: Scene) -> None:
    scene.cluster.registered = {"b"}
    assert scene.down() == {"a"}
    scene.cluster.registered = {"a", "b"}
    scene.cluster.brokers["a"]["orders"] = 3
    assert scene.queues() == {"a": 3, "b": 2}
    assert not scene.down()


def test_a_topic_that_a_registered_broker_has_no_more_is_gone(scene: Scene) -> None:
    del scene.cluster.brokers["a"]["orders"]
    assert scene.queues() == {"b": 2}
    del scene.cluster.brokers["b"]["orders"]
    assert scene.queues() == {}
    assert "orders" not in scene.topology.seen


def test_a_broker_that_comes_between_two_questions_keeps_its_queues(scene: Scene) -> None:
    scene.cluster.registered = {"b"}

    def come() -> None:
        scene.cluster.registered = {"a", "b"}

    scene.cluster.after_route = come
    assert scene.queues() == {"a": 4, "b": 2}
    assert not scene.down()


def test_a_replica_without_its_master_may_not_know_of_the_last_queues(scene: Scene) -> None:
    scene.cluster.replicas = {"a"}
    scene.cluster.brokers["a"]["orders"] = 3
    assert scene.queues() == {"a": 4, "b": 2}
    del scene.cluster.brokers["a"]["orders"]
    assert scene.queues() == {"a": 4, "b": 2}
    assert scene.down() == {"a"}


def test_a_broker_that_is_down_costs_one_question_in_a_while(scene: Scene) -> None:
    scene.cluster.registered = {"b"}
    for _ in range(10):
        scene.queues()
    assert scene.cluster.asked["brokers"] == 1
    scene.clock.advance(int(DOWN_S * 1000) + 1)
    scene.queues()
    assert scene.cluster.asked["brokers"] == 2


def test_another_process_has_not_seen_what_a_broker_had_that_is_down() -> None:
    scene = Scene(a={"orders": 4}, b={"orders": 2})
    scene.cluster.registered = {"b"}
    assert scene.queues() == {"b": 2}
