"""What a topic's committed readers see, all of it, once nobody writes any more."""

import time
from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

READ_S = 120.0


def values(servers: str, topic: str, partitions: int) -> list[list[bytes]]:
    """By partition, in order. Raises AssertionError where the end is not reached: a transaction is still open."""
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    settings = {
        "bootstrap.servers": servers,
        "group.id": "reader of the proof",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "log_level": 0,
    }
    with closing(Consumer(settings)) as consumer:
        ends = _ends(consumer, topic, partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        until_s = time.monotonic() + READ_S
        while ends:
            assert time.monotonic() < until_s, f"{topic}: not readable up to {ends}"
            for message in consumer.consume(2000, 0.2):
                partition, offset, error = message.partition(), message.offset(), message.error()
                assert partition is not None
                assert offset is not None
                if error is None:
                    found[partition].append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF and offset >= ends.get(partition, 0):
                    ends.pop(partition, None)
    return found


def _ends(consumer: Consumer, topic: str, partitions: Sequence[int] | int) -> dict[int, int]:
    numbers = range(partitions) if isinstance(partitions, int) else partitions
    return {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1] for number in numbers
    }
