"""Reads every topic of a scene as users would, committed records only, and remembers all of it.

A reader is no judge: it records what was where, when the broker stamped it, and when it could be read.
"""

from collections.abc import Sequence
from threading import Event, Thread
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from mq.contract import LogRecord
from mq.kafka.librdkafka.bodies import body_of
from tests.fault.kafka.clients import now_ms

At = tuple[str, int]
"""Topic and partition."""


class Seen(NamedTuple):
    """A record as it was read; times are epoch ms: the broker's of appending it, this machine's of receiving it."""

    offset: int
    at_ms: int
    received_ms: int
    body: bytes

    @property
    def record(self) -> LogRecord:
        return LogRecord(self.offset, self.at_ms, self.body)


class Reader(Thread):
    """Reads from the beginning of every partition on, until `stop`."""

    def __init__(self, servers: str, partitions: Sequence[At]) -> None:
        super().__init__(name="reader", daemon=True)
        self.seen: dict[At, list[Seen]] = {at: [] for at in partitions}
        self.ends: dict[At, int] = dict.fromkeys(partitions, 0)
        """Up to where each partition has been read, markers of transactions included."""
        self._stopping = Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reader of everything",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(*at, OFFSET_BEGINNING) for at in partitions])

    def run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(2000, 0.05)
            received_ms = now_ms()
            for message in messages:
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                error = message.error()
                if error is None:
                    assert offset is not None
                    self.seen[topic, partition].append(
                        Seen(offset, message.timestamp()[1], received_ms, body_of(message))
                    )
                elif error.code() == KafkaError._PARTITION_EOF and offset is not None:
                    self.ends[topic, partition] = offset
                elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    raise AssertionError(f"{topic}, partition {partition} was cut before it was read: {error}")
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(20)
