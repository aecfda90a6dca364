"""Reading on behalf of others: consumers without a group, lent for one question at a time."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from delayline.clock import Clock
from mq.contract import LogRecord
from mq.errors import OffsetOutOfRange, QueueUnavailable
from mq.kafka.admin.cluster import Cluster
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.bodies import record_of
from mq.kafka.settings import KafkaSettings

IDLE_MAX = 8
"""Consumers kept for the next question; each has a few threads."""

SLICE_S = 0.1
"""How soon a reader notices that the queue has been closed."""

Onwards = tuple[list[Message], dict[int, int]]
"""Records of several partitions, and by partition the offset behind what was read."""


class Readers:
    """Any thread may call it; each call has a consumer of its own."""

    def __init__(self, settings: KafkaSettings, cluster: Cluster, clock: Clock) -> None:
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._idle: deque[Consumer] = deque()
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for consumer in idle:
            consumer.close()

    @contextmanager
    def _lent(self) -> Iterator[Consumer]:
        with self._lock:
            self._check()
            consumer = (
                self._idle.pop() if self._idle else Consumer({**self._settings.reader(), "fetch.wait.max.ms": 20})
            )
        try:
            with trouble.translated_errors("reading"):
                yield consumer
                consumer.unassign()
        except BaseException:
            consumer.close()
            raise
        with self._lock:
            keep = not self._closed and len(self._idle) < IDLE_MAX
            if keep:
                self._idle.append(consumer)
        if not keep:
            consumer.close()

    def _check(self) -> None:
        if self._closed:
            raise QueueUnavailable("the queue is closed")

    def _message(self, consumer: Consumer, deadline_s: float) -> Message | None:
        """The next message or event; None where there was none before the deadline. Raises QueueUnavailable."""
        while True:
            left_s = deadline_s - self._clock.monotonic_s()
            message = consumer.poll(max(0.0, min(SLICE_S, left_s)))
            if message is not None or left_s <= 0:
                return message
            self._check()

    # --- questions

    def read(self, topic: str, partition: int, offset: int, records_max: int, bytes_max: int) -> list[LogRecord]:
        """Committed records from `offset` on, at least one where there is one. Raises OffsetOutOfRange (also for an
        offset that cannot be read yet), QueueUnavailable."""
        start, end = self._cluster.log_range(topic, partition, readable=True)
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"{topic}, partition {partition}: {offset} is not within {start}..{end}")
        if offset == end or records_max <= 0:
            return []
        with self._lent() as consumer:
            _assign(consumer, topic, {partition: offset})
            return self._take(consumer, records_max, bytes_max)

    def _take(self, consumer: Consumer, records_max: int, bytes_max: int) -> list[LogRecord]:
        deadline_s = self._clock.monotonic_s() + self._settings.request_timeout_s
        records: list[LogRecord] = []
        while len(records) < records_max:
            message = self._message(consumer, deadline_s)
            if message is None:
                raise QueueUnavailable("reading: no answer")
            error = message.error()
            if error is None:
                record = record_of(message)
                bytes_max -= len(record.body)
                if bytes_max < 0 and records:
                    break
                records.append(record)
            elif trouble.end_of_partition(error):
                break
            elif trouble.out_of_range(error):
                raise OffsetOutOfRange(error.str())
            elif not error.retriable():
                raise trouble.queue_error(error, "reading")
        return records

    def onwards(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], timeout_s: float) -> Onwards:
        """What can be read now of partitions from their starts on, and at least up to their ends: an open
        transaction may hide that for a while. Raises OffsetOutOfRange, QueueUnavailable, also where nothing more can
        be read for `timeout_s`."""
        found: list[Message] = []
        positions: dict[int, int] = {}
        with self._lent() as consumer:
            _assign(consumer, topic, starts)
            while len(positions) < len(starts):
                message = self._message(consumer, self._clock.monotonic_s() + timeout_s)
                if message is None:
                    raise QueueUnavailable(f"reading {topic}: no answer, or a transaction that does not end")
                number, error = message.partition() or 0, message.error()
                if error is None:
                    found.append(message)
                elif trouble.end_of_partition(error):
                    if (position := message.offset() or 0) >= ends[number]:
                        positions[number] = position
                elif trouble.out_of_range(error):
                    raise OffsetOutOfRange(error.str())
                elif not error.retriable():
                    raise trouble.queue_error(error, f"reading {topic}")
        return found, positions

    def wait(self, topic: str, positions: Mapping[int, int], timeout_s: float) -> bool:
        """Until a partition holds a record at or behind its offset that can be read, or its offset is gone."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        with self._lent() as consumer:
            _assign(consumer, topic, positions)
            while (message := self._message(consumer, deadline_s)) is not None:
                error = message.error()
                if error is None or trouble.out_of_range(error):
                    return True
                if not trouble.end_of_partition(error) and not error.retriable():
                    raise trouble.queue_error(error, f"waiting for {topic}")
            return False


def _assign(consumer: Consumer, topic: str, offsets: Mapping[int, int]) -> None:
    """Read these partitions from these offsets on. A consumer that has read another topic before looks for the
    leaders of this one half a second later, unless it has heard of them: it asks first. Without an answer it looks
    for them as ever."""
    with suppress(KafkaException):
        consumer.list_topics(topic, SLICE_S)
    consumer.assign([TopicPartition(topic, number, offset) for number, offset in offsets.items()])
