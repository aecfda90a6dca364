"""Group commit: one thread turns everything that waits into one write and one fsync.

While the disk works, the next group gathers; the busier the queue, the larger its groups. RocksDB's own group commit
cannot do this here, because a write with sync=True would hold the interpreter's lock during the fsync.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Condition, Lock, Thread

from delayline.clock import Clock
from mq.errors import QueueUnavailable
from mq.local.ledger import Ledger
from mq.local.steps import AwaitedStep, Step, T_co, carry_out
from mq.local.storage import Storage

BACKLOG_RECORDS_MAX = 100_000
BACKLOG_BYTES_MAX = 64 << 20
"""Clients' records that may wait for the disk. Beyond it they are refused at once instead of being kept waiting for
longer than a second on a disk that writes 64 MB/s."""

GROUP_BYTES_MAX = 1 << 20
"""Clients' bodies in one group. RocksDB copies about 250 MB/s while it holds the interpreter's lock: 1 MiB keeps that
to 4 ms. A single larger step has a group to itself."""


class GroupWriter:
    """Committer with a thread of its own. A failed write or fsync ends it for good: what the disk holds is unknown
    until the queue is opened again, and a second fsync would report success for pages that were dropped."""

    def __init__(self, ledger: Ledger, storage: Storage, clock: Clock) -> None:
        self._ledger = ledger
        self._storage = storage
        self._clock = clock
        self._waiting: deque[Step] = deque()
        self._records = 0
        self._bytes = 0
        self._ended: str | None = None
        self._changed = Condition(Lock())
        self._thread = Thread(target=self._run, name="embedded-queue-writer", daemon=True)
        self._thread.start()

    def submit(self, step: AwaitedStep[T_co]) -> "Future[T_co]":
        self.submit_all([step])
        return step.future

    def submit_all(self, steps: Sequence[Step]) -> None:
        with self._changed:
            ended = self._ended
            refused = [(step, refusal) for step in steps if (refusal := ended or self._queued(step)) is not None]
            self._changed.notify()
        for step, refusal in refused:
            if ended is not None:
                step.fail(refusal)
            else:
                step.refuse(QueueUnavailable(refusal))

    def _queued(self, step: Step) -> str | None:
        """Why it does not wait now, if it does not."""
        refusal = self._backlog(step)
        if refusal is None:
            self._waiting.append(step)
            self._records += step.records
            self._bytes += step.bytes
        return refusal

    def _backlog(self, step: Step) -> str | None:
        """Only steps with clients' records are ever refused: without the others nothing would move."""
        records, size = self._records + step.records, self._bytes + step.bytes
        if step.records == 0 or (records <= BACKLOG_RECORDS_MAX and size <= BACKLOG_BYTES_MAX):
            return None
        return f"{self._records} records ({self._bytes >> 20} MiB) wait for the disk already"

    def close(self) -> None:
        with self._changed:
            self._ended = self._ended or "the queue is closed"
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while steps := self._take():
            try:
                placed = carry_out(steps, self._ledger, self._storage, self._clock.now_ms())
            except BaseException as error:  # noqa: BLE001 - a panic in RocksDB's binding is no Exception
                self._poison(steps, error)
                return
            for step in placed:
                step.finish()

    def _take(self) -> Sequence[Step]:
        """The next group, in order; empty when the queue is closed and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            group: list[Step] = []
            size = 0
            while self._waiting and (not group or size + self._waiting[0].bytes <= GROUP_BYTES_MAX):
                step = self._waiting.popleft()
                group.append(step)
                size += step.bytes
                self._records -= step.records
                self._bytes -= step.bytes
            return group

    def _poison(self, steps: Sequence[Step], error: BaseException) -> None:
        """Whatever it was, the disk's state is unknown; and callers that wait must get an error, or they wait for
        ever."""
        reason = f"writing to the queue's log failed, and what was under way may or may not be stored: {error}"
        with self._changed:
            self._ended = reason
            steps = [*steps, *self._waiting]
            self._waiting.clear()
        self._ledger.fail(reason)
        for step in steps:
            if not step.is_ended:
                step.fail(reason)
