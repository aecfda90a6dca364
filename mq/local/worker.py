"""The worker's two ends: Source and Sink of a local queue."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition

from delayline.buffer.outcome import spread
from delayline.clock import Clock
from delayline.errors import Bug
from delayline.records.message import Shard
from mq.clock_offset import ClockOffset
from mq.contract import (
    Append,
    Assigned,
    DispatchBatch,
    Event,
    Fetched,
    LogRecord,
    Lost,
    OutOfRange,
    ShardBatch,
    TopicInfo,
    Unreadable,
)
from mq.errors import (
    CommitAborted,
    DeliveryRefused,
    Fenced,
    PartitionUnknown,
    QueueClosed,
    QueueUnavailable,
    RecordTooLarge,
    TopicUnknown,
)
from mq.local.ledger import Ledger
from mq.local.steps import CommitStep, Committer, Progress, Run
from mq.local.storage import Storage
from mq.local.topic import Partition, Topic

POLL_BYTES_MAX = 16 << 20
"""Bodies that one poll returns, so that large records do not turn 'at most 5000 records' into gigabytes."""

READ_EVERY_S = 0.005
"""Where records have only just been read, the next ones gather so long: a turn of the worker costs as much for one as
for a hundred. What is due in less is so late; the worker's commits have the same distance."""


@dataclass(slots=True)
class _Reader:
    """Where reading of an assigned shard stands; `offset` is None before its first seek."""

    partition: Partition
    offset: int | None = None
    paused: bool = False

    @property
    def ready(self) -> bool:
        """Whether a fetch has a result: records, or that the offset is out of range."""
        return self.offset is not None and not self.paused and self.offset != self.partition.end


class LocalSource:
    """Source of one worker.

    `_ready` holds the shards with something to fetch, in the order of their turns, so that a poll costs nothing for
    shards where nothing happens. Everything is under the ledger's lock but the reading itself.
    """

    def __init__(self, ledger: Ledger, storage: Storage, clock: Clock) -> None:
        self._ledger = ledger
        self._storage = storage
        self._clock = clock
        self._changed = Condition(ledger.lock)
        self._readers: dict[Shard, _Reader] = {}
        self._ready: dict[Shard, None] = {}
        self._events: deque[Event] = deque()
        self._woken = False
        self._closed = False
        self._gathering = False  # a poll lets records gather
        self._read_again_s = float("-inf")

    # --- called by the ledger, under its lock

    def assign(self, partitions: Sequence[Partition]) -> None:
        readers = {part.shard: _Reader(part) for part in partitions if part.shard is not None}
        if self._closed or not readers:
            return
        self._readers.update(readers)
        self._notify(Assigned(tuple(readers)))

    def lose(self) -> None:
        if not self._readers:
            return
        lost = tuple(self._readers)
        self._readers.clear()
        self._ready.clear()
        self._notify(Lost(lost))

    def _notify(self, event: Event) -> None:
        self._events.append(event)
        self._changed.notify()

    def unassign(self, partitions: Sequence[Partition]) -> None:
        gone = tuple(part.shard for part in partitions if part.shard is not None and part.shard in self._readers)
        for shard in gone:
            del self._readers[shard]
            self._ready.pop(shard, None)
        if gone:
            self._notify(Lost(gone))

    def grown(self, partition: Partition) -> None:
        if partition.shard is not None:
            self._look(partition.shard)

    def stir(self) -> None:
        self._changed.notify()

    def _look(self, shard: Shard) -> None:
        """Note whether the shard has something to fetch."""
        reader = self._readers.get(shard)
        if reader is None or not reader.ready:
            self._ready.pop(shard, None)
        elif shard not in self._ready:
            self._ready[shard] = None
            if not self._gathering:
                self._changed.notify()

    def shards(self) -> tuple[Shard, ...]:
        """Those that are assigned to it."""
        with self._ledger.lock:
            return tuple(self._readers)

    # --- Source

    def poll(self, records_max: int, timeout_s: float) -> Sequence[Event]:
        with self._changed:
            self._wait(timeout_s)
            self._woken = False
            if self._closed:
                raise QueueClosed("this source is closed")
            self._ledger.check()
            events = list(self._events)
            self._events.clear()
            ready = list(self._ready)
        if ready:
            events += self._fetch(ready, records_max)
            self._read_again_s = self._clock.monotonic_s() + READ_EVERY_S
        return events

    def _wait(self, timeout_s: float) -> None:
        """For anything to return; for records not before it is time to read again."""
        gather_s = min(timeout_s, self._read_again_s - self._clock.monotonic_s())
        if gather_s > 0:
            self._gathering = True
            self._changed.wait_for(self._called, gather_s)
            self._gathering = False
            timeout_s -= gather_s
        self._changed.wait_for(lambda: self._called() or self._ready, timeout_s)

    def _called(self) -> bool:
        return bool(self._woken or self._events or self._closed or self._ledger.failure)

    def _fetch(self, ready: Sequence[Shard], records_max: int) -> list[Event]:
        """Every shard gets an equal share of the room, and what the ones before it left."""
        fetched: list[Event] = []
        bytes_max = POLL_BYTES_MAX
        for turn, shard in enumerate(ready):
            shards_left = len(ready) - turn
            if records_max <= 0 or bytes_max <= 0:
                break
            found = self._fetch_shard(shard, -(-records_max // shards_left), -(-bytes_max // shards_left))
            if found is not None:
                fetched.append(found)
            if isinstance(found, Fetched):
                records_max -= len(found.records)
                bytes_max -= sum(len(body) for _, _, body in found.records)
        return fetched

    def _fetch_shard(
        self, shard: Shard, records_max: int, bytes_max: int
    ) -> Fetched | OutOfRange | Unreadable | None:
        with self._changed:
            reader = self._readers.get(shard)
            if reader is None or reader.offset is None:
                return None
            offset, start, end = reader.offset, reader.partition.start, reader.partition.end
            if not start <= offset <= end:
                reader.offset = None
                self._look(shard)
                return OutOfRange(shard, f"{'.'.join(shard)}: {offset} is not within {start}..{end}")
        try:
            records = self._read(reader.partition, offset, end, records_max, bytes_max)
        except QueueUnavailable as error:
            if self._storage.trouble() is None:
                raise
            return self._unreadable(reader, shard, str(error))
        if not records:
            return None  # overtaken by a trim: the next poll sees that the offset is out of range
        with self._changed:
            reader.offset = records[-1].offset + 1
            self._ready.pop(shard, None)  # to the end of the row, where more is left
            self._look(shard)
        return Fetched(shard, records, reader.offset)

    def _read(self, log: Partition, offset: int, end: int, records_max: int, bytes_max: int) -> list[LogRecord]:
        """What stands before damage is read, record by record. Raises QueueUnavailable."""
        try:
            return self._storage.read(log, offset, end, records_max, bytes_max)
        except QueueUnavailable:
            return self._storage.read(log, offset, end, 1, 1)

    def _unreadable(self, reader: _Reader, shard: Shard, detail: str) -> Unreadable:
        """The other shards go on, and what was fetched of them in this very poll is not lost."""
        with self._changed:
            reader.offset = None
            self._look(shard)
        return Unreadable(shard, f"{'.'.join(shard)}: {detail}")

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify()

    def seek(self, shard: Shard, offset: int) -> None:
        self._change(shard, offset=offset)

    def pause_fetch(self, shard: Shard) -> None:
        self._change(shard, paused=True)

    def resume_fetch(self, shard: Shard) -> None:
        self._change(shard, paused=False)

    def _change(self, shard: Shard, *, offset: int | None = None, paused: bool | None = None) -> None:
        """A shard that is lost already, of which the caller has not heard yet, is let be."""
        with self._changed:
            reader = self._readers.get(shard)
            if reader is None:
                return
            if offset is not None:
                reader.offset = offset
            if paused is not None:
                reader.paused = paused
            self._look(shard)

    def release(self, shards: Sequence[Shard]) -> None:
        with self._changed:
            for shard in shards:
                self._readers.pop(shard, None)
                self._ready.pop(shard, None)

    def log_end(self, shard: Shard) -> int:
        with self._changed:
            reader = self._readers.get(shard)
            return 0 if reader is None else reader.partition.end

    def now_ms(self, shard: Shard) -> int:
        """The clock that stamps is this one; a stamp is never before it (`Group.append`)."""
        return self._clock.now_ms()

    def clock_offset(self, shard: Shard) -> ClockOffset | None:
        return None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._readers.clear()
            self._ready.clear()
            self._changed.notify()


class LocalSink:
    """Sink of one worker."""

    def __init__(
        self,
        ledger: Ledger,
        committer: Committer,
        source: LocalSource,
        record_bytes_max: int,
        group_topic: Callable[[str, TopicInfo], Topic],
    ) -> None:
        """`group_topic` gives a consumer group's topic, made like that other one where it is missing."""
        self._ledger = ledger
        self._committer = committer
        self._source = source
        self._record_bytes_max = record_bytes_max
        self.group_topic = group_topic
        self._closed = False

    def commit(self, batch: DispatchBatch) -> None:
        if self._closed:
            raise CommitAborted("this sink is closed")
        if len({part.shard for part in batch}) != len(batch):
            raise Bug("a shard twice in one dispatch batch")
        try:
            runs = [run for part in batch for run in self._runs(part)]
            progress = [self._progress(part) for part in batch]
        except TopicUnknown as error:
            if gone := [part.shard for part in batch if self._is_gone(part.shard)]:
                raise Fenced(gone) from error  # their topic was deleted: nobody owns them
            raise
        self._committer.submit(CommitStep(self._source, progress, runs)).result()

    def close(self) -> None:
        self._closed = True

    def _is_gone(self, shard: Shard) -> bool:
        return self._ledger.names.buffer(shard.topic) not in self._ledger.topics

    def _progress(self, part: ShardBatch) -> Progress:
        return Progress(part.shard, self._buffer(part.shard), part.cursor, part.alone)

    def _buffer(self, shard: Shard) -> Partition:
        """Raises TopicUnknown, PartitionUnknown."""
        return self._ledger.topic(self._ledger.names.buffer(shard.topic)).partition(shard.partition)

    def _runs(self, part: ShardBatch) -> list[Run]:
        """What the shard writes where. The record limit is that of clients: what a worker writes about a record
        (audit, dead letter, re-append) is a little larger than the record, and refusing it would not help."""
        names, shard = self._ledger.names, part.shard
        runs: list[Run] = []
        if part.deliveries:
            runs.append(self._deliveries(shard, part.deliveries))
        if part.appends:
            runs.append(Run(self._buffer(shard), part.appends))
        if part.audit:
            runs.append(Run(_spread(self._ledger.topic(names.audit), shard), part.audit))
        if part.dead:
            runs.append(Run(_spread(self._ledger.topic(names.dead), shard), part.dead))
        if part.purged:
            runs.append(Run(_spread(self._ledger.topic(names.purged), shard), part.purged))
        runs += [Run(self._cross_partition(shard, append), [append.body]) for append in part.cross_partition]
        return runs

    def _cross_partition(self, shard: Shard, append: Append) -> Partition:
        """Where it goes. Raises DeliveryRefused."""
        topic, name, body = append
        try:
            if topic == self._ledger.names.buffer(shard.topic):
                return self._ledger.topic(topic).partition(name)
            if len(body) > self._record_bytes_max:
                raise RecordTooLarge(f"a record of {len(body)} bytes, the limit is {self._record_bytes_max}")
            partitions = self.group_topic(topic, self._ledger.topic(shard.topic).info).partitions
            return partitions[int(name) % len(partitions)]
        except (TopicUnknown, PartitionUnknown, RecordTooLarge) as error:
            raise DeliveryRefused(shard, str(error), of_record=not isinstance(error, PartitionUnknown)) from error

    def _deliveries(self, shard: Shard, deliveries: Sequence[tuple[bytes, int | None]]) -> Run:
        """Hot: once per delivered message."""
        # The target is made before its buffer, and never removed.
        partition = self._ledger.topic(shard.topic).partition(shard.partition)
        bodies, times_ms = zip(*deliveries, strict=True)
        if (largest := max(map(len, bodies))) > self._record_bytes_max:
            reason = f"a record of {largest} bytes, the limit is {self._record_bytes_max}"
            raise DeliveryRefused(shard, reason, of_record=True)
        return Run(partition, bodies, None if times_ms.count(None) == len(times_ms) else times_ms)


def _spread(topic: Topic, shard: Shard) -> Partition:
    return topic.partitions[spread(shard, len(topic.partitions))]
