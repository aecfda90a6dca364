"""A queue small enough to hold still: one log per shard, client transactions, epochs, and commits that can hang.

It keeps the promises of `mq.contract` and uses every liberty that they leave: offsets have holes, also at the end; a
record behind an open transaction is durable but not readable; the clock that stamps records may jump back; a commit
that has been sent can arrive at any later moment, unless a takeover has fenced its sender.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from delayline.buffer.cursor import Cursor
from delayline.records.message import Shard
from mq.contract import DispatchBatch, Handover, LogRecord, ShardBatch
from mq.errors import DeliveryRefused, Fenced, OffsetOutOfRange

START_MS = 1_767_225_600_000


class Spoilt(Exception):
    """What stands next cannot be read."""


@dataclass(slots=True)
class Partition:
    """One shard's buffer. `open` are the first offsets of client transactions that have not ended."""

    topic_id: bytes
    records: list[LogRecord] = field(default_factory=list)
    start: int = 0
    end: int = 0
    open: set[int] = field(default_factory=set)
    damaged: list[tuple[int, int]] = field(default_factory=list)  # what cannot be read, for now
    cursor: bytes | None = None
    fenced_epoch: int = 0
    fenced_number: int = 0

    def committed(self) -> Cursor | None:
        return Cursor.decode(self.cursor) if self.cursor else None

    @property
    def stable_end(self) -> int:
        """What is readable ends at the first open transaction (Kafka's last stable offset)."""
        return min(self.open) if self.open else self.end

    def append(self, at_ms: int, body: bytes) -> int:
        offset = self.end
        self.records.append(LogRecord(offset, at_ms, body))
        self.end = offset + 1
        return offset

    def erase(self, offsets: Sequence[int]) -> None:
        """An aborted transaction: its offsets become holes."""
        gone = set(offsets)
        self.records = [record for record in self.records if record.offset not in gone]

    def read(self, offset: int, records_max: int) -> tuple[list[LogRecord], int]:
        """Readable records from `offset` on, and up to where there is nothing else."""
        if offset < self.start:
            raise OffsetOutOfRange(f"{offset} is below the log's start {self.start}")
        if any(start <= offset < end for start, end in self.damaged):
            raise Spoilt(f"{offset} cannot be read")
        stable_end = min([self.stable_end, *(start for start, _ in self.damaged if start > offset)])
        first = bisect_left(self.records, offset, key=_offset)
        found = [record for record in self.records[first : first + records_max] if record.offset < stable_end]
        if len(found) < records_max:
            return found, max(stable_end, offset)
        return found, found[-1].offset + 1


def _offset(record: LogRecord) -> int:
    return record.offset


@dataclass(slots=True)
class Request:
    """A commit on its way. `number` orders requests and takeovers; `sent_ms` is what the broker's clock showed to the
    one who took it."""

    batch: DispatchBatch
    number: int
    sent_ms: int


Applied = Callable[[ShardBatch, Cursor | None, list[LogRecord], int], None]


class Broker:
    """The partitions and the clock. `on_applied` hears each shard's part of a commit, the cursor before it, the
    buffer records that it wrote, and the moment at which it was sent."""

    def __init__(self, shards: Sequence[Shard], on_applied: Applied, refuses: Callable[[bytes], bool]) -> None:
        self.partitions = {shard: Partition(b"topic-%d" % number + b"." * 9) for number, shard in enumerate(shards)}
        self.now_ms = START_MS
        self._on_applied = on_applied
        self._refuses = refuses
        self._number = 0

    def takeover(self, shard: Shard) -> Handover:
        """From now on nothing that was sent earlier, and nothing of the last owner, can be applied."""
        partition = self.partitions[shard]
        cursor = partition.committed()
        partition.fenced_number = self._next_number()
        partition.fenced_epoch = cursor.owner_epoch if cursor else 0
        return Handover(cursor, partition.topic_id)

    def log_range(self, shard: Shard) -> tuple[int, int]:
        partition = self.partitions[shard]
        return partition.start, partition.end

    def send(self, batch: DispatchBatch, sent_ms: int) -> Request:
        return Request(batch, self._next_number(), sent_ms)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def arrive(self, request: Request) -> None:
        """Apply all of a request or nothing. Raises Fenced and DeliveryRefused."""
        fenced = [part.shard for part in request.batch if not self._may_write(part, request.number)]
        if fenced:
            raise Fenced(fenced)
        for part in request.batch:
            if any(self._refuses(body) for body, _ in part.deliveries):
                raise DeliveryRefused(part.shard, "too large", of_record=True)
        for part in request.batch:
            self.apply(part, request.sent_ms)

    def _may_write(self, part: ShardBatch, number: int) -> bool:
        """An epoch belongs to one writer: of two that claim the same one, the first has it."""
        partition = self.partitions[part.shard]
        epoch, writer = part.cursor.owner_epoch, part.cursor.writer
        if number < partition.fenced_number or epoch <= partition.fenced_epoch:
            return False
        stored = partition.committed()
        if stored is None or epoch != stored.owner_epoch:
            return epoch == (stored.owner_epoch if stored else 0) + 1
        return writer == stored.writer

    def apply(self, part: ShardBatch, sent_ms: int) -> None:
        partition = self.partitions[part.shard]
        before = partition.committed()
        written = [LogRecord(partition.append(self.now_ms, body), self.now_ms, body) for body in part.appends]
        partition.cursor = part.cursor.encode()
        self._on_applied(part, before, written, sent_ms)

    def trim(self, shard: Shard, low_offset: int) -> None:
        partition = self.partitions[shard]
        partition.start = max(partition.start, low_offset)
        partition.records = partition.records[bisect_left(partition.records, low_offset, key=_offset) :]
