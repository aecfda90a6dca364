"""What a group has committed, read by consumers that are no members.

The admin client could be asked as well, but a question of that kind which runs out of time while the coordinator is
gone ends the whole process when it comes back (librdkafka 2.16, an assertion in rd_kafka_enq_once_del_source_return).
"""

from threading import Lock

from confluent_kafka import Consumer, TopicPartition

from delayline.clock import Clock
from mq.errors import QueueUnavailable
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.renewed import Renewed
from mq.kafka.settings import KafkaSettings


class GroupOffsets:
    """Any thread may call it. `stable`: answers only while no transaction is about to change an offset; the library
    repeats the question (KIP-447, require_stable follows from the isolation level)."""

    def __init__(self, settings: KafkaSettings, group: str, *, stable: bool, timeout_s: float, clock: Clock) -> None:
        level = "read_committed" if stable else "read_uncommitted"
        self._config = {**settings.reader(), "group.id": group, "retry.backoff.ms": 10, "isolation.level": level}
        self._timeout_s = timeout_s
        self._deaf_s = settings.adrift_s
        self._clock = clock
        self._lock = Lock()
        self._line: Renewed[Consumer] | None = None
        self._closed = False

    def committed(self, topic: str, partition: int) -> TopicPartition:
        """Offset and metadata; a negative offset where there is none. Raises QueueUnavailable."""
        what = f"what is committed of {topic}, partition {partition}"
        with self._lock:
            if self._closed:
                raise QueueUnavailable("the queue is closed")
            if self._line is None:
                self._line = Renewed(lambda: Consumer(self._config), Consumer.close, self._deaf_s, self._clock)
            with self._line.asking(what):
                (position,) = self._line.client.committed([TopicPartition(topic, partition)], timeout=self._timeout_s)
        if (error := position.error) is not None:
            raise trouble.queue_error(error, what)
        return position

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._line is not None:
                self._line.client.close()
