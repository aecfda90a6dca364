"""What must never happen, done by hand to a queue whose server is stopped: the rows are those that a faulty worker
would have written."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from zlib import crc32

from delayline.buffer.decisions import encode_decision
from delayline.buffer.outcome import AuditRow, Outcome, decode_audit, encode_audit
from delayline.clock import Clock
from delayline.names import Names
from delayline.records.message import Key, MessageId
from delayline.records.record import decode_body
from demo.traffic import Chosen
from mq.contract import Append
from mq.embedded.queue import EmbeddedQueue
from reconcile.logic.ledger import Category

NAMESPACE = "delayline"
EPOCH = 1


def tamper(data: Path, clock: Clock, chosen: Chosen) -> dict[str, int]:
    """What the job ought to find, by category."""
    queue = EmbeddedQueue.open(data / "queue", namespace=NAMESPACE, clock=clock)
    try:
        return _Tampering(queue, clock.now_ms()).carry_out(chosen)
    finally:
        queue.close()


class _Tampering:
    def __init__(self, queue: EmbeddedQueue, now_ms: int) -> None:
        self._queue, self._now_ms = queue, now_ms
        self._names = Names(NAMESPACE)

    def carry_out(self, chosen: Chosen) -> dict[str, int]:
        first, second = islice(self._delivered(), 2)
        for message_id in (*chosen.to_be_lost, *chosen.to_be_early):
            self._drop(MessageId.parse(message_id))
        for early in chosen.to_be_early:
            self._deliver(MessageId.parse(early), self._now_ms)
        self._deliver(first, first.due_ms)
        nobodys = second._replace(due_ms=second.due_ms + 1)
        self._deliver(nobodys, nobodys.due_ms)
        for message_id in chosen.cancelled:
            cancelled = MessageId.parse(message_id)
            self._deliver(cancelled, cancelled.due_ms)
        return {
            Category.MISSING: len(chosen.to_be_lost),
            Category.EARLY: len(chosen.to_be_early),
            Category.DUPLICATED: 1,
            Category.ORPHAN: 1,
            Category.DELIVERED_AFTER_CANCEL: len(chosen.cancelled),
        }

    def _drop(self, message: MessageId) -> None:
        """A decision that names this message: its worker takes it for ended, and no row records how."""
        buffer = self._names.buffer(message.shard.topic)
        decision = encode_decision([Key(message.due_ms, message.offset)])
        self._append(Append(buffer, message.shard.partition, decision))

    def _deliver(self, message: MessageId, at_ms: int) -> None:
        """A row that records it, among the shard's rows."""
        row = AuditRow(message.offset, str(message), message.due_ms, self._now_ms, Outcome.DELIVERED)
        partition = str(crc32(".".join(message.shard).encode()) % self._partitions())
        for body in encode_audit(message.shard, EPOCH, at_ms, [row]):
            self._append(Append(self._names.audit, partition, body))

    def _delivered(self) -> Iterator[MessageId]:
        """Messages that have been delivered, in the record in which they were accepted; one of each audit record."""
        for partition in map(str, range(self._partitions())):
            for record in self._queue.read(self._names.audit, partition, 0, 1000):
                _, rows = decode_audit(decode_body(record.body).value or b"")
                yield from islice(filter(None, map(_delivered_as_accepted, rows)), 1)

    def _append(self, append: Append) -> None:
        self._queue.append([append]).result()

    def _partitions(self) -> int:
        return len(self._queue.topic(self._names.audit).partitions)


def _delivered_as_accepted(row: AuditRow) -> MessageId | None:
    if row.id is None or row.outcome is not Outcome.DELIVERED:
        return None
    message = MessageId.parse(row.id)
    return message if (message.offset, message.due_ms) == (row.offset, row.due_ms) else None
