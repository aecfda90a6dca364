"""Topics and partitions that come and go between two runs, beside a live installation."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions, NewTopic

from reconcile.report.summary import Summary
from tests.fault.kafka.reader import Reader
from tests.fault.kafka.scene import Scene

PATTERN = "born-*"
"""A topic of these takes delays as soon as it is there."""

PARTITIONS, GROWN = 2, 3
MESSAGES = 12
DELAY = "1s"
TRIM_S = 12.0
"""Longer than workers take from one look at what can be trimmed to the next."""


class Births:
    """`sent`: by topic, how many messages were acknowledged."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._servers = scene.kafka.bootstrap_servers
        self.sent: Counter[str] = Counter()

    def make(self, topic: str) -> None:
        """A topic, and messages that make its buffer; all are delivered."""
        admin = self._scene.admin()
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)], request_timeout=30)[topic].result()
        tags = [f"{topic}-{number}" for number in range(MESSAGES)]
        messages = [{"key": tag, "value": tag, "schedule": {"delay": DELAY}} for tag in tags]
        self._scene.wait(lambda: self._posted(topic, messages), f"{topic} takes messages")
        self.sent[topic] += MESSAGES
        self._delivered(topic, PARTITIONS)

    def grow(self, topic: str) -> None:
        """One more partition, of topic and buffer, into which alone is sent; all is delivered."""
        buffer, admin = self._scene.names.buffer(topic), self._scene.admin()
        for name in (topic, buffer):
            admin.create_partitions([NewPartitions(name, GROWN)], request_timeout=30)[name].result()
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 0, "log_level": 0})
        self._scene.wait(lambda: len(producer.list_topics(buffer, 10).topics[buffer].partitions) == GROWN, "it grows")
        for number in range(MESSAGES):
            producer.produce(buffer, b"grown-%d" % number, partition=GROWN - 1, headers=[("delay", DELAY.encode())])
        assert producer.flush(30) == 0
        self.sent[topic] += MESSAGES
        self._delivered(topic, GROWN)

    def delete(self, topic: str) -> None:
        """With its buffer."""
        names, admin = [topic, self._scene.names.buffer(topic)], self._scene.admin()
        for future in admin.delete_topics(names, request_timeout=30).values():
            future.result()
        self._scene.wait(lambda: not set(names) & set(admin.list_topics(timeout=10).topics), f"{topic} is gone", 60)

    def wrong(self, summary: Summary) -> list[str]:
        """Where the ledger of these topics is not what was sent and seen."""
        by_topic = {one.topic: one.ledger for one in summary.topics if one.topic in self.sent}
        wrong = [f"{topic} is not in the ledger" for topic in self.sent.keys() - by_topic.keys()]
        for topic, ledger in by_topic.items():
            counts = (ledger.accepted, ledger.delivered, ledger.pending, ledger.missing, ledger.surplus)
            if counts != (self.sent[topic], self.sent[topic], 0, 0, 0):
                wrong.append(f"{topic}: {self.sent[topic]} sent and delivered, and the ledger is {ledger}")
        return wrong

    def _posted(self, topic: str, messages: Sequence[Mapping[str, object]]) -> bool:
        """Atomic: what was refused has left nothing."""
        url = f"{self._scene.api_url}/v1/topics/{topic}/messages"
        answer = httpx.post(url, json={"atomic": True, "messages": messages}, timeout=30)
        return answer.status_code == 201

    def _delivered(self, topic: str, partitions: int) -> None:
        """Nothing twice, and workers have had time to trim what they may."""
        places = [(topic, number) for number in range(partitions)]
        reader = Reader(self._servers, places)
        reader.start()
        try:
            self._scene.wait(lambda: _count(reader) >= self.sent[topic], f"{topic}: all is delivered", 120)
            time.sleep(TRIM_S)
            seen = _count(reader)
        finally:
            reader.stop()
        assert seen == self.sent[topic], f"{topic}: {seen} delivered, {self.sent[topic]} sent"


def _count(reader: Reader) -> int:
    return sum(map(len, reader.seen.values()))
