"""Answers from the worker that owns a shard (`delayline.questions.inquiry.Owners`): about single messages here,
about many in `delay_service.query.finding`.

What the worker knows is asked in its own thread and never waits for the queue; what only the log holds is read in
a thread of the inquiry, so that a question never holds up a delivery.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Protocol, TypeVar

from delay_service.core.history import History
from delay_service.core.shard import Shard
from delay_service.query import finding
from delay_service.worker.decisions import Decisions
from delay_service.worker.loop import Worker
from delay_service.worker.owned import Owned
from delayline.names import Names
from delayline.questions.inquiry import (
    WAITING,
    DueCounts,
    DueQuery,
    Found,
    Gone,
    Held,
    Listing,
    OwnerUnavailable,
    Query,
    RequestedNames,
    Resolution,
    ShardFigures,
    Skip,
    StallReport,
    State,
)
from delayline.records.message import MessageId
from delayline.records.message import Shard as ShardId
from mq.contract import Client, LogRecord
from mq.errors import OffsetOutOfRange, PartitionUnknown, QueueError, TopicUnknown

T = TypeVar("T")
THREADS_MAX = 4
WALKS_MAX = 2
"""Lists wait for each other, and not single messages for them."""

ANSWER_WITHIN_S = 4.0
"""What the worker's thread gets for a question: it is at work, and a takeover may take a while."""


SHOWN_BYTES = 4096
"""Of a record at which a shard has stalled."""


class HasWorker(Protocol):
    """Where the worker will be, once the queue has let it in."""

    worker: Worker | None


class WorkerInquiry:
    """Asks one worker. To be used as a context manager."""

    def __init__(self, host: HasWorker, client: Client, names: Names, history: History, decisions: Decisions) -> None:
        self._host = host
        self._client = client
        self._names = names
        self._history = history
        self._decisions = decisions
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="inquiry")
        self._walks = ThreadPoolExecutor(WALKS_MAX, thread_name_prefix="walk")

    def __enter__(self) -> "WorkerInquiry":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for threads in (self._threads, self._walks):
            threads.shutdown(wait=False, cancel_futures=True)

    @property
    def writer(self) -> str:
        """The worker's name; empty before there is one. Any thread."""
        worker = self._host.worker
        return worker.writer if worker is not None else ""

    def owns(self, shard: ShardId) -> bool:
        """Whether the shard is the worker's right now. Any thread."""
        worker = self._host.worker
        return worker is not None and worker.owns(shard)

    def find(self, message_id: MessageId) -> "Future[Found | Gone | None]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._threads.submit(self._find, message_id)

    def decided(self, shard: ShardId, offset: int) -> "Future[Resolution]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._decisions.ask(shard, offset)

    def all_decided(self, shard: ShardId, offsets: Sequence[int]) -> "Future[list[Resolution]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._decisions.ask_all(shard, offsets)

    def held(self, shard: ShardId, requested: Sequence[RequestedNames]) -> "Future[list[Held]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._threads.submit(self._held, shard, requested)

    def _held(self, shard: ShardId, requested: Sequence[RequestedNames]) -> list[Held]:
        return self._ask(lambda worker: [self._core(worker, shard).messages.held(names) for names in requested])

    def page(self, shards: Sequence[ShardId], query: Query) -> "Future[list[Listing]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._walks.submit(self._page, shards, query)

    def _page(self, shards: Sequence[ShardId], query: Query) -> list[Listing]:
        with suppress(OwnerUnavailable):
            return [finding.page(self._ask, self._history, shards, query)]
        return []

    def due_counts(self, shards: Sequence[ShardId], query: DueQuery) -> "Future[list[DueCounts]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._walks.submit(self._due_counts, shards, query)

    def _due_counts(self, shards: Sequence[ShardId], query: DueQuery) -> list[DueCounts]:
        with suppress(OwnerUnavailable):
            return finding.due_counts(self._ask, shards, query)
        return []

    def stall(self, shard: ShardId) -> "Future[StallReport]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._threads.submit(self._stall, shard)

    def skip(self, shard: ShardId, skip: Skip) -> "Future[StallReport]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._threads.submit(self._skip, shard, skip)

    def _stall(self, shard: ShardId) -> StallReport:
        report = self._ask(lambda worker: worker.way_out.report(_owned(worker, shard)))
        return replace(report, record=self._record(shard, report.offset)[:SHOWN_BYTES])

    def _skip(self, shard: ShardId, skip: Skip) -> StallReport:
        body = self._record(shard, skip.offset)
        return self._ask(lambda worker: worker.way_out.skip(_owned(worker, shard), skip, body))

    def _record(self, shard: ShardId, offset: int) -> bytes:
        """What can be read there; nothing where nothing can be."""
        with suppress(QueueError):
            records = self._client.read(self._names.buffer(shard.topic), shard.partition, offset, 1)
            return records[0].body if records and records[0].offset == offset else b""
        return b""

    def figures(self) -> "Future[list[ShardFigures]]":
        """See `delayline.questions.inquiry.Owners`."""
        worker = self._host.worker
        return _done([] if worker is None else [finding.figures(status) for status in worker.statuses])

    def _find(self, message_id: MessageId) -> Found | Gone | None:
        if message_id.occurrence is not None:
            return self._find_occurrence(message_id)
        try:
            known = self._ask(lambda worker: self._known(self._core(worker, message_id.shard), message_id))
            if known is not None:
                return known
            evidence = self._read(message_id)
            return self._ask(lambda worker: self._judge(self._core(worker, message_id.shard), message_id, evidence))
        except OwnerUnavailable:
            if self.exists(message_id.shard):
                raise
            return None

    def _find_occurrence(self, message_id: MessageId) -> Found | Gone | None:
        """The one that waits is answered like a message. The outcomes of those before it are not kept, and of those
        behind it it is unknown whether there will be any."""
        series = self._find(message_id._replace(occurrence=None))
        if not isinstance(series, Found) or series.state not in WAITING:
            return None if series is None else Gone()
        repeats = series.terms.series if series.terms else None
        waiting, asked = repeats.occurrence if repeats else 0, message_id.occurrence or 0
        if asked == waiting:
            return replace(series, id=message_id)
        return Gone() if 0 < asked < waiting else None

    def _ask(self, question: Callable[[Worker], T]) -> T:
        """Raises OwnerUnavailable."""
        worker = self._host.worker
        if worker is None:
            raise OwnerUnavailable("the worker is waiting for the queue")
        try:
            return worker.call(lambda: question(worker)).result(ANSWER_WITHIN_S)
        except TimeoutError as error:
            raise OwnerUnavailable("the worker did not answer in time") from error

    # --- from the log

    def exists(self, shard: ShardId) -> bool:
        """Whether there is such a shard at all. Any thread; on Kafka it asks the broker."""
        try:
            self._client.offsets(self._names.buffer(shard.topic), shard.partition)
        except (TopicUnknown, PartitionUnknown):
            return False
        return True

    def _read(self, message_id: MessageId) -> LogRecord | Gone | None:
        """The record that the message was accepted with; Gone where the log has been trimmed beyond its place, and
        None where nothing has ever stood there. Raises OwnerUnavailable while a transaction may hide it."""
        found = self._look(message_id)
        if found is None:
            shard = message_id.shard
            if not self._client.is_stable(self._names.buffer(shard.topic), shard.partition, 0.0):
                raise OwnerUnavailable("a transaction is open that may hide the message")
            found = self._look(message_id)  # it may have ended between the two questions
        return found

    def _look(self, message_id: MessageId) -> LogRecord | Gone | None:
        (topic, partition), offset = message_id.shard, message_id.offset
        buffer = self._names.buffer(topic)
        try:
            records = self._client.read(buffer, partition, offset, 1)
        except OffsetOutOfRange:
            return Gone() if offset < self._client.offsets(buffer, partition)[0] else None
        return records[0] if records and records[0].offset == offset else None

    # --- in the worker's thread

    @staticmethod
    def _core(worker: Worker, shard: ShardId) -> Shard:
        """Raises OwnerUnavailable, also before everything is read that an earlier owner can have decided: until then
        a message may seem to wait that has been delivered."""
        core = worker.core(shard)
        if core is None or not core.caught_up:
            why = "is being taken over" if worker.owns(shard) else "belongs to another worker"
            raise OwnerUnavailable(f"shard {'.'.join(shard)} {why}")
        return core

    def _known(self, core: Shard, message_id: MessageId) -> Found | None:
        shard, offset, due_ms, _ = message_id
        found = self._pending(core, message_id) or self._history.find(shard, offset, due_ms)
        return None if found is None else self._history.with_events(found)

    @staticmethod
    def _pending(core: Shard, message_id: MessageId) -> Found | None:
        pending = core.messages.find(message_id)
        if pending is None:
            return None
        _, key, record, accepted_at_ms, version, terms = pending
        return Found(
            message_id,
            State.PENDING,
            accepted_at_ms,
            key.due_ms,
            version,
            record.key,
            record.value,
            tuple(record.headers),
            terms=terms,
        )

    def _judge(self, core: Shard, message_id: MessageId, evidence: LogRecord | Gone | None) -> Found | Gone | None:
        """Not indexed and not remembered: still on its way from the log, gone, or never accepted. Meanwhile it may
        have been indexed."""
        if (known := self._known(core, message_id)) is not None:
            return known
        if evidence is None or isinstance(evidence, Gone):
            return Gone() if message_id.offset < core.cursor.low_offset else evidence
        if core.due_ms(evidence) != message_id.due_ms:
            return None
        return Gone() if message_id.offset < core.position else _accepted(message_id, evidence)


def _owned(worker: Worker, shard: ShardId) -> Owned:
    """Raises OwnerUnavailable."""
    owned = worker.owned(shard)
    if owned is None:
        raise OwnerUnavailable(f"shard {'.'.join(shard)} belongs to another worker")
    return owned


def _accepted(message_id: MessageId, record: LogRecord) -> Found:
    return Found(message_id, State.ACCEPTED, record.appended_at_ms, message_id.due_ms)


def _done(answer: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(answer)
    return future
