"""A queue in memory: the embedded queue's twin, for tests, simulations and users' own experiments.

The same Client, Admin, Source and Sink over lists instead of RocksDB. There is no thread: an append or commit has
taken effect when the call returns. Nothing outlives the object.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from itertools import accumulate, repeat, takewhile
from threading import Lock
from uuid import uuid4

from delayline.clock import Clock
from delayline.names import installation
from delayline.records.message import Shard
from mq.audited import Positions
from mq.contract import Audited, LogRecord
from mq.group_topic_limit import GROUP_TOPICS_MAX
from mq.local.group import Batch, Group
from mq.local.ledger import Ledger
from mq.local.queue import RECORD_BYTES_MAX, TOPICS_MAX, LocalLimits, LocalQueue
from mq.local.steps import AwaitedStep, Step, T_co, carry_out
from mq.local.storage import StoredTopic
from mq.local.topic import Partition

BYTES_MAX = 1 << 30


class MemoryQueue(LocalQueue):
    """See the module docstring. Raises ConfigError.

    `bytes_max` bounds the bodies held: above it clients' appends are refused. `audit_positions` are for those who
    play the reconcile job."""

    def __init__(
        self,
        *,
        namespace: str,
        clock: Clock,
        partitions: int = 4,
        record_bytes_max: int = RECORD_BYTES_MAX,
        topics_max: int = TOPICS_MAX,
        group_topics_max: int = GROUP_TOPICS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self.audit_positions: dict[Shard, Audited] = {}
        ledger = Ledger(installation(namespace))
        storage = MemoryStorage(bytes_max)
        committer = DirectCommitter(ledger, storage, clock)
        limits = LocalLimits(partitions, record_bytes_max, topics_max, group_topics_max)
        super().__init__(ledger, storage, committer, clock, limits)

    def _positions(self) -> Positions:
        last_ms = max((position.at_ms for position in self.audit_positions.values()), default=None)
        return Positions(self.audit_positions, last_ms)


class DirectCommitter:
    """Each step is a group of its own, carried out by the thread that hands it in."""

    def __init__(self, ledger: Ledger, storage: "MemoryStorage", clock: Clock) -> None:
        self._ledger = ledger
        self._storage = storage
        self._clock = clock
        self._turn = Lock()

    def submit(self, step: AwaitedStep[T_co]) -> "Future[T_co]":
        self._carry_out(step)
        return step.future

    def submit_all(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._carry_out(step)

    def _carry_out(self, step: Step) -> None:
        if self._ledger.failure is not None:
            step.fail(self._ledger.failure)
            return
        with self._turn:
            placed = carry_out([step], self._ledger, self._storage, self._clock.now_ms())
        for done in placed:  # outside the lock: whoever hears of it may hand in the next step at once
            done.finish()

    def close(self) -> None:
        return None


class MemoryStorage:
    """One list of records per partition."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = Lock()
        self._identity = uuid4().hex
        self._logs: dict[Partition, tuple[int, list[LogRecord]]] = {}  # offset of the first record, records

    def load(self) -> Iterable[StoredTopic]:
        return ()

    def write(self, group: Group) -> None:
        with self._lock:
            for partition, batch in group.batches.items():
                self._logs.setdefault(partition, (0, []))[1].extend(_records(batch))
                self._bytes += sum(map(len, batch.bodies))
            for partition, low_offset in group.trims.items():
                self._trim(partition, low_offset)
            for partition in (part for topic in group.deletes for part in topic.partitions):
                _, records = self._logs.pop(partition, (0, []))
                self._bytes -= sum(len(record.body) for record in records)

    def _trim(self, partition: Partition, low_offset: int) -> None:
        first, records = self._logs[partition]
        self._bytes -= sum(len(record.body) for record in records[: low_offset - first])
        self._logs[partition] = (low_offset, records[low_offset - first :])

    def read(self, partition: Partition, offset: int, end: int, records_max: int, bytes_max: int) -> list[LogRecord]:
        with self._lock:
            first, records = self._logs.get(partition, (0, []))
            if offset < first:
                return []
            found = records[offset - first : min(end, offset + records_max) - first]
        sizes = accumulate(len(record.body) for record in found)
        within = sum(1 for _ in takewhile(lambda size: size <= bytes_max, sizes))
        return found[: max(1, within)]

    def identity(self) -> str:
        return self._identity

    def trouble(self) -> str | None:
        return None

    def full(self) -> str | None:
        if self._bytes < self._bytes_max:
            return None
        return f"the queue holds {self._bytes} bytes in memory, its limit is {self._bytes_max}"

    def close(self) -> None:
        return None


def _records(batch: Batch) -> Iterable[LogRecord]:
    times_ms = repeat(batch.appended_at_ms) if batch.times_ms is None else batch.times_ms
    offsets = range(batch.base_offset, batch.base_offset + len(batch.bodies))
    return map(LogRecord, offsets, times_ms, batch.bodies)
