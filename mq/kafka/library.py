"""Reading buffers with a consumer of librdkafka: a partition is unassigned, or assigned at an offset.

What was fetched before such a change never comes out behind it (the library's version barrier).

The library takes a record at its word where its offset is concerned, drops one that names an offset which was read
before, and goes on behind a batch that it cannot take apart. What can be seen of that stops reading: nothing is
skipped silently. (The other reader sees the batches themselves.)
"""

from collections.abc import Sequence
from threading import Event as Flag

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from delayline import logs
from delayline.clock import Clock
from mq.contract import LogRecord
from mq.kafka import trouble
from mq.kafka.bodies import record_of
from mq.kafka.reading import At, Gone, Part, Read, Spoilt
from mq.kafka.settings import KafkaSettings

SLICE_S = 0.005
"""The library's wait cannot be interrupted, so it is cut into slices: `wake` takes effect within one."""

log = logs.get(__name__)


class LibraryReader:
    """BufferReader over confluent-kafka."""

    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        self._clock = clock
        self._woken = Flag()
        self._offsets: dict[At, int] = {}  # to be read next
        self._consumer = Consumer({"check.crcs": True, **settings.reader()})

    def assign(self, at: At, offset: int) -> None:
        self._consumer.incremental_assign([TopicPartition(*at, offset)])
        self._offsets[at] = offset

    def unassign(self, at: At) -> None:
        if self._offsets.pop(at, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(*at)])

    def wake(self) -> None:
        self._woken.set()

    def log_end(self, at: At) -> int:
        if at not in self._offsets:
            return 0
        _, end = self._consumer.get_watermark_offsets(TopicPartition(*at), cached=True) or (0, 0)
        return max(end, 0)

    def close(self) -> None:
        self._consumer.close()

    def read(self, records_max: int, wait_s: float) -> Sequence[Read]:
        until_s = self._clock.monotonic_s() + wait_s
        while True:
            left_s = 0.0 if self._woken.is_set() else until_s - self._clock.monotonic_s()
            found = self._sorted(self._messages(records_max, max(0.0, min(SLICE_S, left_s))))
            if found or left_s <= 0:
                self._woken.clear()
                return found

    def _messages(self, records_max: int, wait_s: float) -> list[Message]:
        """The first message as soon as there is one, and with it what has been fetched already."""
        with trouble.telling("reading buffers"):
            first = self._consumer.poll(wait_s)
            if first is None:
                return []
            return [first, *self._consumer.consume(records_max - 1, 0)] if records_max > 1 else [first]

    def _sorted(self, messages: Sequence[Message]) -> list[Read]:
        """By partition. Hot: once per record."""
        found: dict[At, list[LogRecord]] = {}
        ended: list[Read] = []
        for message in messages:
            at = At(message.topic() or "", message.partition() or 0)
            error = message.error()
            if at not in self._offsets:
                if error is not None and not trouble.end_of_partition(error):
                    log.warning("reading buffers", topic=at.topic, detail=error.str())
            elif error is not None:
                self._trouble(at, message.offset(), error, found, ended)
            else:
                record = record_of(message)
                if record.offset != self._offsets[at] and not self._can_be(at, record.offset):
                    self._end(
                        Spoilt(at, f"at offset {self._offsets[at]}: a record says it is {record.offset}"),
                        found,
                        ended,
                    )
                    continue
                found.setdefault(at, []).append(record)
                self._offsets[at] = record.offset + 1
        return [*(Part(at, records, self._offsets[at]) for at, records in found.items()), *ended]

    def _can_be(self, at: At, offset: int) -> bool:
        """Whether a record may stand there: behind what was read, where there may be holes, and before the end."""
        end = self.log_end(at)
        return self._offsets[at] <= offset and (offset < end or not end)

    def _end(self, why: Gone | Spoilt, found: dict[At, list[LogRecord]], ended: list[Read]) -> None:
        """Behind what was read before it."""
        if (records := found.pop(why.at, None)) is not None:
            ended.append(Part(why.at, records, self._offsets[why.at]))
        ended.append(why)
        self.unassign(why.at)

    def _trouble(
        self, at: At, offset: int | None, error: KafkaError, found: dict[At, list[LogRecord]], ended: list[Read]
    ) -> None:
        if trouble.end_of_partition(error):
            if offset is not None and offset > self._offsets[at]:
                self._offsets[at] = (
                    offset  # markers of transactions, and what was aborted, lie behind the last record
                )
                found.setdefault(at, [])
        elif trouble.out_of_range(error):
            self._end(Gone(at, error.str()), found, ended)
        elif trouble.unreadable(error):
            self._end(Spoilt(at, f"at offset {self._offsets[at]}: {error.str()}"), found, ended)
        else:
            log.warning("reading a buffer", topic=at.topic, partition=at.partition, detail=error.str())
