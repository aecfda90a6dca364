"""A read_committed reader of a topic, as any consumer of delayed messages is."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from bench.on_kafka.broker import PARTITIONS
from delayline.clock import SystemClock

_CLOCK = SystemClock()
_POLL_S = 0.5
_AT_ONCE = 5000


class Reader:
    """Reads every partition from its start."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "bench-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        parts = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
        self._consumer.assign(parts)

    def batches(self, count: int, timeout_s: float) -> Iterator[list[Message]]:
        """What has arrived, as soon as something has, until `count` records in all. Raises RuntimeError when nothing
        comes for `timeout_s`, or more than `count` do."""
        quiet_until_s = _CLOCK.monotonic_s() + timeout_s
        while count > 0:
            first = self._consumer.poll(_POLL_S)
            if first is None:
                if _CLOCK.monotonic_s() > quiet_until_s:
                    raise RuntimeError(f"{self._topic}: {count:,} records are missing after {timeout_s:.0f} s")
                continue
            found = [first, *self._consumer.consume(_AT_ONCE, 0)]
            messages = [message for message in found if message.error() is None]
            count -= len(messages)
            quiet_until_s = _CLOCK.monotonic_s() + timeout_s
            yield messages
        if count < 0:
            raise RuntimeError(f"{self._topic}: {-count:,} records too many")

    def all_once(self, count: int, timeout_s: float) -> None:
        """Read exactly the records 0..count-1. Raises RuntimeError, also for one that came twice."""
        keys: list[object] = []
        for messages in self.batches(count, timeout_s):
            keys += [message.key() for message in messages]
        if len(set(keys)) != count:
            raise RuntimeError(f"{self._topic}: {count - len(set(keys)):,} of {count:,} records came twice")

    def close(self) -> None:
        self._consumer.close()
