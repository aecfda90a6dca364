"""Source: the member's shards, read by a second consumer that is told where to read.

Seek, pause and release are all the same to that consumer: a partition is unassigned, or assigned at an offset. What
was fetched before such a change never comes out behind it (librdkafka's version barrier).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event as Flag
from threading import Lock

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from delayline import logs
from delayline.clock import Clock
from delayline.message import Shard
from mq.contract import Assigned, ClockOffset, Event, Fetched, LogRecord, Lost, OutOfRange
from mq.errors import QueueClosed
from mq.kafka import trouble
from mq.kafka.bodies import record_of
from mq.kafka.clock import BrokerClock
from mq.kafka.cluster import Cluster
from mq.kafka.membership import Membership
from mq.kafka.settings import KafkaSettings

SLICE_S = 0.005
"""The library's wait cannot be interrupted, so it is cut into slices: `wake` takes effect within one."""

RECORDS_AT_ONCE = 2000
"""What one poll brings at most: the next commit waits until the worker, busy with these, sees that one has ended."""

log = logs.get(__name__)


@dataclass(slots=True)
class _Reader:
    """Where reading of an assigned shard stands; `offset` is None before its first seek."""

    at: TopicPartition
    offset: int | None = None
    paused: bool = False
    fetching: bool = False


class KafkaSource:
    """Source of one worker."""

    def __init__(
        self, settings: KafkaSettings, cluster: Cluster, writer: str, clock: Clock, brokers: BrokerClock
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._brokers = brokers
        self._lock = Lock()
        self._told: deque[Event] = deque()  # bounded by rebalances between two polls
        self._woken = Flag()
        self._readers: dict[Shard, _Reader] = {}
        self._by_partition: dict[tuple[str | None, int | None], tuple[Shard, _Reader]] = {}
        self._closed = False
        self._consumer = Consumer(settings.reader())
        self.membership = Membership(settings, writer, clock, self._tell)

    def _tell(self, event: Event) -> None:
        with self._lock:
            self._told.append(event)

    def _events(self) -> list[Event]:
        """What the member has been told since the last call, taken to heart."""
        with self._lock:
            events, self._told = list(self._told), deque()
        for event in events:
            if isinstance(event, Assigned):
                self._add(event.shards)
            elif isinstance(event, Lost):
                self._drop(event.shards)
        return events

    def _add(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            at = TopicPartition(self._settings.names.buffer(shard.topic), int(shard.name))
            reader = self._readers[shard] = _Reader(at)
            self._by_partition[at.topic, at.partition] = (shard, reader)

    def _drop(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            if (reader := self._readers.pop(shard, None)) is not None:
                self._stop(reader)
                del self._by_partition[reader.at.topic, reader.at.partition]

    # --- Source

    def poll(self, records_max: int, timeout_s: float) -> Sequence[Event]:
        if self._closed:
            raise QueueClosed("this source is closed")
        self.membership.alive()
        until_s = self._clock.monotonic_s() + timeout_s
        while True:
            events = self._events()
            left_s = until_s - self._clock.monotonic_s()
            wait_s = 0.0 if events else max(0.0, min(SLICE_S, left_s))
            events += self._fetched(self._messages(records_max, wait_s))
            if events or left_s <= 0 or self._woken.is_set():
                self._woken.clear()
                return events

    def _messages(self, records_max: int, wait_s: float) -> list[Message]:
        """The first message as soon as there is one, and with it what has been fetched already."""
        with trouble.telling("reading buffers"):
            first = self._consumer.poll(wait_s)
            if first is None:
                return []
            more = min(records_max, RECORDS_AT_ONCE) - 1
            return [first, *self._consumer.consume(more, 0)] if more > 0 else [first]

    def _fetched(self, messages: Sequence[Message]) -> list[Event]:
        """Sorted by shard. Hot: once per record."""
        events: list[Event] = []
        found: dict[Shard, list[LogRecord]] = {}
        for message in messages:
            shard, reader = self._by_partition.get((message.topic(), message.partition()), (None, None))
            error = message.error()
            if shard is None or reader is None or reader.offset is None:
                if error is not None and not trouble.end_of_partition(error):
                    log.warning("reading buffers", topic=message.topic(), detail=error.str())
            elif error is not None:
                self._trouble(shard, reader, message, error, found, events)
            else:
                record = record_of(message)
                found.setdefault(shard, []).append(record)
                reader.offset = record.offset + 1
        for shard, records in found.items():
            self._heard(shard, records)
            events.append(Fetched(shard, records, self._readers[shard].offset or 0))
        return events

    def _trouble(
        self,
        shard: Shard,
        reader: _Reader,
        message: Message,
        error: KafkaError,
        found: dict[Shard, list[LogRecord]],
        events: list[Event],
    ) -> None:
        offset = message.offset()
        if trouble.end_of_partition(error):
            if offset is not None and reader.offset is not None and offset > reader.offset:
                reader.offset = offset  # markers of transactions, and what was aborted, lie behind the last record
                found.setdefault(shard, [])
        elif trouble.out_of_range(error):
            events.append(OutOfRange(shard, f"{'.'.join(shard)}: {error.str()}"))
            self._stop(reader)
            reader.offset = None
        else:
            log.warning("reading a buffer", topic=shard.topic, partition=shard.name, detail=error.str())

    def _heard(self, shard: Shard, records: Sequence[LogRecord]) -> None:
        if records:
            at = self._readers[shard].at
            self._brokers.heard(self._cluster.leader(at.topic, at.partition), records[-1].appended_at_ms)

    def wake(self) -> None:
        self._woken.set()

    def seek(self, shard: Shard, offset: int) -> None:
        if (reader := self._readers.get(shard)) is not None:
            self._stop(reader)
            reader.offset = offset
            self._start(reader)

    def pause(self, shard: Shard) -> None:
        if (reader := self._readers.get(shard)) is not None:
            reader.paused = True
            self._stop(reader)

    def resume(self, shard: Shard) -> None:
        if (reader := self._readers.get(shard)) is not None:
            reader.paused = False
            self._start(reader)

    def _start(self, reader: _Reader) -> None:
        if not reader.fetching and not reader.paused and reader.offset is not None:
            self._consumer.incremental_assign([TopicPartition(reader.at.topic, reader.at.partition, reader.offset)])
            reader.fetching = True

    def _stop(self, reader: _Reader) -> None:
        if reader.fetching:
            self._consumer.incremental_unassign([reader.at])
            reader.fetching = False

    def release(self, shards: Sequence[Shard]) -> None:
        self._drop(shards)
        self.membership.release(shards)

    def log_end(self, shard: Shard) -> int:
        """The high watermark that the last fetch brought."""
        reader = self._readers.get(shard)
        if reader is None or not reader.fetching:
            return 0
        _, end = self._consumer.get_watermark_offsets(reader.at, cached=True) or (0, 0)
        return max(end, 0)

    def now_ms(self, shard: Shard) -> int:
        return self._brokers.now_ms(self._leader(shard))

    def clock_offset(self, shard: Shard) -> ClockOffset | None:
        return self._brokers.offset(self._leader(shard))

    def _leader(self, shard: Shard) -> int:
        return self._cluster.leader(self._settings.names.buffer(shard.topic), int(shard.name))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.membership.close()
            self._consumer.close()
