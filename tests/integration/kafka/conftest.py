"""Queues on the session's broker, each test with a namespace and a topic of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from delayline.buffer.cursor import Cursor
from delayline.clock import SystemClock
from delayline.records.message import Shard
from delayline.records.record import encode_body
from mq.contract import Assigned, Event, Fetched, LogRecord, ShardBatch

if TYPE_CHECKING:
    from mq.kafka.queue import KafkaQueue
    from tests.brokers.kafka import Kafka, KafkaAt
    from tests.integration.kafka.strict import Strict
    from tests.integration.proxy.conftest import Proxy

PATIENCE_S = 60.0
CLOCK = SystemClock()


def soon(what: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """The first true answer."""
    until_s = CLOCK.monotonic_s() + timeout_s
    while not (answer := what()):
        assert CLOCK.monotonic_s() < until_s, "it did not happen"
    return answer


def body(value: bytes) -> bytes:
    return encode_body(None, value)


class Worker:
    """Source and sink, and the shards it has claimed."""

    def __init__(self, queue: "KafkaQueue", writer: str) -> None:
        self.queue = queue
        self.writer = writer
        self.source, self.sink = queue.open_worker(writer)
        self.cursors: dict[Shard, Cursor] = {}
        self.events: list[Event] = []

    def poll(self, timeout_s: float = 0.05) -> list[Event]:
        found = list(self.source.poll(1000, timeout_s))
        self.events += found
        return found

    def assigned(self, count: int) -> list[Shard]:
        """Wait until so many shards are assigned."""

        def shards() -> list[Shard]:
            self.poll()
            return [shard for event in self.events if isinstance(event, Assigned) for shard in event.shards]

        return soon(lambda: found if len(found := shards()) >= count else None)

    def claim(self, shard: Shard) -> Cursor:
        handover = self.queue.takeover(shard)
        last = handover.cursor or Cursor(topic_id=handover.topic_id)
        cursor = replace(last, owner_epoch=last.owner_epoch + 1, writer=self.writer)
        self.sink.commit([ShardBatch(shard, cursor)])
        self.cursors[shard] = cursor
        return cursor

    def commit(self, shard: Shard, **parts: Any) -> None:
        self.sink.commit([ShardBatch(shard, self.cursors[shard], **parts)])

    def read(self, shard: Shard, count: int) -> list[LogRecord]:
        """The next so many records of the shard."""
        records: list[LogRecord] = []

        def take() -> bool:
            for event in self.poll():
                if isinstance(event, Fetched) and event.shard == shard:
                    records.extend(LogRecord(*record) for record in event.records)
            return len(records) >= count

        soon(take)
        return records

    def close(self) -> None:
        self.source.close()
        self.sink.close()


class Place:
    """A namespace and a topic on the broker."""

    def __init__(self, kafka: "KafkaAt", stack: ExitStack) -> None:
        from confluent_kafka.admin import AdminClient

        self.kafka = kafka
        self.namespace = f"ns{uuid4().hex[:8]}"
        self.topic = f"orders-{uuid4().hex[:8]}"
        self.shard = Shard(self.topic, "0")
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self._stack = stack

    @property
    def buffer(self) -> str:
        return f"{self.namespace}.buffer.{self.topic}"

    def make_topic(self, partitions: int = 2, **config: str) -> None:
        """Returns when the broker knows of it, which is later than the controller has made it."""
        from confluent_kafka.admin import NewTopic

        dotted = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(self.topic, partitions, 1, config=dotted)])[self.topic].result()
        soon(lambda: self.admin.list_topics(self.topic, PATIENCE_S).topics[self.topic].error is None)

    def queue(self, **settings: Any) -> "KafkaQueue":
        from mq.kafka.queue import KafkaQueue
        from mq.kafka.settings import KafkaSettings

        given = {
            "bootstrap_servers": self.kafka.bootstrap_servers,
            "namespace": self.namespace,
            "discovery_interval_s": 0.2,
            "session_timeout_s": 2.0,
            **settings,
        }
        return self._stack.enter_context(closing(KafkaQueue(KafkaSettings(**given), CLOCK)))

    def worker(self, queue: "KafkaQueue", writer: str | None = None) -> Worker:
        writer = writer or f"{self.namespace}-worker-{uuid4()}"
        return self._stack.enter_context(closing(Worker(queue, writer)))


@pytest.fixture
def place(kafka: "KafkaAt") -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(kafka, stack)


@pytest.fixture(scope="module")
def strict_kafka() -> "Iterator[Kafka]":
    """A broker that allows nothing unless an ACL does, for the tests of a module."""
    from tests.integration.kafka.strict import strict_broker

    with strict_broker() as kafka:
        yield kafka


@pytest.fixture
def guarded(strict_kafka: "Kafka") -> "Iterator[Strict]":
    """A topic with a buffer, where Delayline may do what a proxy needs, and clients nothing yet."""
    from tests.integration.kafka.strict import Strict

    with ExitStack() as stack:
        place = Strict(strict_kafka, stack)
        place.make_buffer()
        place.grant([need.acl for need in place.needs("proxy")])
        yield place


@pytest.fixture
def proxied(guarded: "Strict") -> "Iterator[Proxy]":
    from tests.integration.kafka.behind_strict import proxying

    with proxying(guarded, guarded.as_delayline()) as proxy:
        yield proxy
