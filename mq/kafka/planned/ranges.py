"""Reading a planned part of a partition: those offsets and no others, all of them or an error."""

from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from delayline.clock import Clock
from mq.errors import OffsetOutOfRange, QueueUnavailable
from mq.kafka.librdkafka import trouble
from mq.kafka.settings import KafkaSettings

CHUNK = 500
"""Messages asked for at once: enough for the call itself to cost nothing beside them. An audit record has up to
100 kB."""

SLICE_S = 0.1
"""The library waits so long for a chunk to fill: the end of a range is noticed that much later."""

BUFFERED_KIB = 64 << 10


def read_range(
    settings: KafkaSettings, clock: Clock, topic: str, partition: int, start: int, end: int
) -> Iterator[Sequence[Message]]:
    """The committed records with offsets in `[start, end)`, in chunks.

    Where the last offsets of the range hold none (a transaction's marker, what was aborted) the end shows by the
    position at which the partition ends. Raises OffsetOutOfRange where the log no longer holds `start`, or does not
    reach to `end` within the patience of a request; QueueUnavailable where nothing answers.
    """
    if start >= end:
        return
    config = {**settings.reader(), "group.id": settings.reconcile_group, "queued.max.messages.kbytes": BUFFERED_KIB}
    with trouble.translated_errors(f"reading {topic}, partition {partition}"):
        consumer = Consumer(config)
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            yield from _Range(settings, clock, topic, partition, end).chunks(consumer)
        finally:
            consumer.close()


class _Range:
    """Reading until `end`. `_short` is where the partition ended last, before it."""

    def __init__(self, settings: KafkaSettings, clock: Clock, topic: str, partition: int, end: int) -> None:
        self._clock = clock
        self._patience_s = settings.request_timeout_s
        self._what = f"{topic}, partition {partition}"
        self._end = end
        self._reached = False
        self._short: int | None = None

    def chunks(self, consumer: Consumer) -> Iterator[Sequence[Message]]:
        give_up_s = self._clock.monotonic_s() + self._patience_s
        while not self._reached:
            chunk = self._records(consumer.consume(CHUNK, SLICE_S))
            if chunk:
                give_up_s = self._clock.monotonic_s() + self._patience_s
                yield chunk
            elif not self._reached and self._clock.monotonic_s() > give_up_s:
                self._give_up()

    def _records(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the range; events are looked at and left out."""
        records = []
        for message in messages:
            offset, error = message.offset() or 0, message.error()
            if error is not None:
                self._event(error, offset)
            else:
                self._reached = self._reached or offset >= self._end - 1
                if offset < self._end:
                    records.append(message)
        return records

    def _event(self, error: KafkaError, offset: int) -> None:
        if trouble.end_of_partition(error):
            self._short = offset
            self._reached = self._reached or offset >= self._end
        elif trouble.out_of_range(error):
            raise OffsetOutOfRange(f"{self._what}: {error.str()}")
        elif not error.retriable():
            raise trouble.queue_error(error, f"reading {self._what}")

    def _give_up(self) -> None:
        if self._short is None:
            raise QueueUnavailable(f"reading {self._what}: no answer")
        raise OffsetOutOfRange(f"{self._what}: it ends at {self._short}, before {self._end}")
