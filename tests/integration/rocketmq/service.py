"""An API and a worker on a cluster of several brokers, as processes of their own."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from rocketmq.client.client import Client
from rocketmq.client.connection import connect
from rocketmq.clock import MachineClock
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import TopicOf
from rocketmq.wire.stored import StoredMessage
from tests.brokers.rocketmq import RocketMq, RocketMqAt
from tests.fault.rocketmq.judge import Delivered, delivered_into, messages
from tests.fault.server import Server, http_client
from tests.integration.rocketmq.waiting import soon

QUEUES = 2


class Service:
    """An API and a worker, and one topic on all brokers. The second worker is started where it is needed."""

    def __init__(self, server: RocketMqAt, client: Client, folder: Path) -> None:
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
        self.namespace = settings["namespace"]
        self.api, self.worker, self.second_worker = (
            Server(folder / name, command, **settings)
            for name, command in (("api", "api"), ("w", "worker"), ("w2", "worker"))
        )
        self.sent: set[str] = set()
        """What was accepted, by tag."""
        self._others = 0
        self.unsure: set[str] = set()
        """What was answered with 503: it may be stored."""

    def start(self, partitions: Iterable[int] | None = None) -> None:
        """Returns when each of the partitions, or all, has had a message. A broker that has just started may refuse
        some: its replica is not in sync."""
        for process in (self.api, self.worker):
            process.start()
        for process in (self.api, self.worker):
            process.wait_ready()
        for partition in range(QUEUES * len(self.server.brokers)) if partitions is None else partitions:
            soon(lambda partition=partition: self._takes(partition))
        self.wait_for_all()

    def _takes(self, partition: int) -> bool:
        self._others += 1
        return self.try_to_send(partition, f"first-{self._others}").status_code == 201

    def close(self) -> None:
        for process in (self.second_worker, self.worker, self.api):
            process.kill()

    def send(self, partitions: list[int], tag: str, delay_ms: int = 1) -> None:
        """A message to each partition: 0 and 1 are on the first broker, 2 and 3 on the second."""
        for partition in partitions:
            answer = self.try_to_send(partition, tag, delay_ms)
            assert answer.status_code == 201, answer.text

    def try_to_send(self, partition: int, tag: str, delay_ms: int = 1) -> httpx.Response:
        """One message, which may be refused."""
        one = f"{tag}-{partition}"
        message = {"value": one, "partition": partition, "schedule": {"delay": f"{delay_ms}ms"}}
        answer = self.ask("post", f"v1/topics/{self.topic}/messages", json=message)
        if answer.status_code == 201:
            self.sent.add(one)
        elif answer.status_code == 503:
            self.unsure.add(one)
        return answer

    def named(self, own_id: str, delay_ms: int) -> dict[str, Any]:
        """A message with an own id, accepted."""
        answer = self.try_named(own_id, delay_ms)
        assert answer.status_code == 201, answer.text
        self.sent.add(own_id)
        return dict(answer.json())

    def try_named(self, own_id: str, delay_ms: int = 1) -> httpx.Response:
        message = {"value": own_id, "schedule": {"own_id": own_id, "delay": f"{delay_ms}ms"}}
        return self.ask("post", f"v1/topics/{self.topic}/messages", json=message)

    def anywhere(self) -> str:
        """The broker of a message that may go to any; nothing where it was refused."""
        self._others += 1
        one = f"any-{self._others}"
        answer = self.ask(
            "post", f"v1/topics/{self.topic}/messages", json={"value": one, "schedule": {"delay": "1s"}}
        )
        (self.sent if answer.status_code == 201 else self.unsure).add(one)
        return str(answer.json().get("partition", "")).partition(":")[0]

    def missing(self, path: str) -> list[str]:
        """Shards that a list shows as missing, or a topic's description."""
        answer = self.ask("get", path).json()
        found = [str(one["partition"]) for one in answer["missing_shards"]]
        assert answer["complete"] == (not found)
        return sorted(found)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
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

    def stalled(self, worker: Server | None = None) -> set[tuple[str, str]]:
        """Partition and reason, as metrics have them."""
        with http_client(5) as http:
            lines = http.get(f"{(worker or self.worker).url}/metrics").text.splitlines()
        found = [line for line in lines if line.startswith("delayline_shard_stalled{") and self.topic in line]
        return {(_label(line, "partition"), _label(line, "reason")) for line in found}

    def check_each_once(self) -> None:
        """What was accepted; and what may have been, at most."""
        counts = Counter(one.tag for one in self.delivered())
        assert counts == dict.fromkeys(self.sent | (self.unsure & counts.keys()), 1)
        assert not [one for one in self.delivered() if one.stored_ms < one.due_ms]


def _label(line: str, name: str) -> str:
    return line.partition(f'{name}="')[2].partition('"')[0]


def kill(server: RocketMq, name: str) -> Callable[[], None]:
    server.brokers[name].kill()

    def back() -> None:
        server.brokers[name].start()
        server.wait_for(name)

    return back


def freeze(server: RocketMq, name: str) -> Callable[[], None]:
    server.brokers[name].freeze()
    return server.brokers[name].thaw


def delete(server: RocketMqAt, client: Client, topic: str, *, routes: bool = True) -> None:
    """As RocketMQ's tools do it: from its brokers, and then from the name servers. Without `routes` a name server
    goes on to know it."""
    for broker in server.brokers:
        client.admin.delete_topic(topic, broker)
    if routes:
        address = server.settings.name_servers[0]
        with closing(connect(address, server.settings, MachineClock())) as name_server:
            answer = name_server.ask(Command(Request.DELETE_TOPIC_IN_NAMESRV, TopicOf(topic).to_fields()))
        assert answer.code == Answer.SUCCESS
