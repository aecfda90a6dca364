"""A place on the test broker for the readers' tests."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from delayline.clock import SystemClock
from delayline.records.record import decode_body
from mq.kafka.librdkafka.bodies import Headers
from tests.acceptance.asking import wait_for

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from pyspark.sql import DataFrame

    from mq.kafka.settings import KafkaSettings
    from tests.brokers.kafka import KafkaAt

CLOCK = SystemClock()
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
DUE_MS = 4_102_444_800_000
LATER = {"deliver-at": str(DUE_MS)}


class Place:
    """A namespace on the broker with one topic, and what its tests write there."""

    def __init__(self, kafka: "KafkaAt") -> None:
        from confluent_kafka.admin import AdminClient

        self.servers = kafka.bootstrap_servers
        self.namespace = f"ns{uuid4().hex[:8]}"
        self.topic = f"orders-{uuid4().hex[:6]}"
        self.buffer = f"{self.namespace}.buffer.{self.topic}"
        self.admin: AdminClient = AdminClient({"bootstrap.servers": self.servers})
        for name in (self.buffer, f"{self.namespace}.audit", f"{self.namespace}.cursor", self.topic):
            self.make(name)

    def make(self, name: str, config: Mapping[str, str] = APPEND_TIME) -> None:
        """Returns when the broker knows of it, which is later than the controller has made it."""
        from confluent_kafka.admin import NewTopic

        self.admin.create_topics([NewTopic(name, 2, 1, config=dict(config))])[name].result()
        assert wait_for(lambda: name in self.admin.list_topics(timeout=5).topics, bool)

    def settings(self, **given: Any) -> "KafkaSettings":
        from mq.kafka.settings import KafkaSettings

        return KafkaSettings(**{"bootstrap_servers": self.servers, "namespace": self.namespace, **given})

    def producer(self, **properties: Any) -> "Producer":
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.servers, "linger.ms": 0, **properties})

    def send(self, producer: "Producer", count: int, start: int = 0, headers: dict[str, str] = LATER) -> None:
        for number in range(start, start + count):
            producer.produce(self.buffer, b"m%d" % number, partition=0, headers=list(headers.items()))
        producer.flush()

    def write(self, topic: str, *bodies: bytes, partition: int = 0) -> None:
        producer = self.producer()
        for body in bodies:
            record = decode_body(body)
            headers: Headers = [(name.decode(), value) for name, value in record.headers]
            producer.produce(topic, record.value, record.key, partition, headers=headers)
        producer.flush()

    def transaction(self) -> "Producer":
        producer = self.producer(**{"transactional.id": uuid4().hex, "compression.type": "zstd"})
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    def trim(self, offset: int, topic: str | None = None, partition: int = 0) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(topic or self.buffer, partition, offset)
        for answer in self.admin.delete_records([place]).values():
            answer.result()


def rows(frame: "DataFrame") -> list[dict[str, Any]]:
    from reconcile.readers.work import translated_errors

    with translated_errors():
        return [row.asDict() for row in frame.collect()]
