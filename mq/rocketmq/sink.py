"""Sink: a shard's part of a commit is a step, written down before it is carried out.

RocketMQ stores a batch in one queue wholly or not at all, and nothing over several queues. So a part is

    1. the *step* in the shard's journal: the next cursor, and all that is to be written but the first deliveries
    2. the first deliveries, in one batch: with them the step has happened. Without deliveries it has with 1
    3. everything else, in the order of `batches`; rows of the audit possibly later (`rows`)
    4. `done`, in the journal, when no rows are owed; the commit does not wait for it

After a crash at any point `ownership` finishes the step, or finds that it has not happened. The parts of several
shards are sent side by side; each happens or not by itself, and a failed one does not affect the others. A request of
unknown fate ends the session: the broker then takes nothing more from it, and what it has stored is read back. If one
of several brokers does not answer, only its own shards wait for it (`Session.check_answers`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from delayline.clock import Clock
from delayline.errors import Bug, UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard
from mq.contract import DispatchBatch, ShardBatch
from mq.errors import (
    CommitAborted,
    CommitError,
    CommitUnknown,
    Fenced,
    PartitionUnknown,
    QueueError,
    QueueUnavailable,
    TopicUnknown,
)
from mq.rocketmq.batches import Batches, QueueBatch
from mq.rocketmq.body import BATCH_BYTES_MAX, marked
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.journal import ShardStep, Write, encode
from mq.rocketmq.ownership import Holding
from mq.rocketmq.parts import Part, PartSender, going
from mq.rocketmq.rows import LaterRows
from mq.rocketmq.stamps import Stamped
from rocketmq.client.broker import Sent
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue

ENDS_FRESH_S = 30.0
"""How long the end of a queue is remembered. Then it is asked for again, so that a takeover reads back little."""

log = logs.get(__name__)


class RocketmqSink:
    """Sink of one worker. One thread at a time."""

    def __init__(
        self,
        writer: str,
        cluster: RocketmqCluster,
        batches: Batches,
        hold: Callable[[Shard], Holding | None],
        clock: Clock,
        stamped: Stamped,
        patience_s: Callable[[], float | None],
        sender: PartSender,
        rows: LaterRows,
    ) -> None:
        """`hold` takes a shard that is assigned to the worker, unless it has it, and returns it; None for others.
        `patience_s` is how long a broker's answer is waited for before other brokers' shards go on; None if there are
        no others."""
        self._writer = writer
        self._cluster = cluster
        self._batches = batches
        self._hold = hold
        self._clock = clock
        self._stamped = stamped
        self._patience_s = patience_s
        self._sender = sender
        self._rows = rows
        self._began_s = 0.0
        self._closed = False

    def start(self) -> None:
        """From now on rows behind which no commit follows are stored as well, in a thread of their own."""
        self._rows.start()

    def commit(self, batch: DispatchBatch) -> None:
        if self._closed:
            raise CommitAborted("this sink is closed")
        if len({part.shard for part in batch}) != len(batch):
            raise Bug("a shard twice in one dispatch batch")
        held, failures = self._held(batch)
        with ExitStack() as locks:
            for shard in sorted(held):
                locks.enter_context(held[shard].lock)
            self._check(batch, held, failures)
            parts = [
                Part(held[part.shard], self._batches.rounds(part), part.cursor.encode())
                for part in batch
                if part.shard not in failures
            ]
            self.carry_out(parts)
        failures |= {part.shard: part.failure for part in parts if part.failure is not None}
        if failures:
            raise CommitUnknown(str(next(iter(failures.values()))), failures.keys())

    def close(self) -> None:
        self._closed = True
        self._rows.close()

    # --- who may commit

    def _held(self, batch: DispatchBatch) -> tuple[dict[Shard, Holding], dict[Shard, Exception]]:
        """The shards that are held, and why the others cannot be taken now. Raises Fenced, CommitAborted."""
        held: dict[Shard, Holding] = {}
        failures: dict[Shard, Exception] = {}
        fenced: list[Shard] = []
        for shard in (part.shard for part in batch):
            try:
                holding = self._hold(shard)
            except (TopicUnknown, PartitionUnknown):
                fenced.append(shard)
            except (QueueError, UnknownFormat) as error:
                failures[shard] = error
            else:
                held |= {} if holding is None else {shard: holding}
                fenced += [shard] if holding is None else []
        if fenced:
            raise Fenced(fenced)
        if failures and not held:
            raise CommitAborted(str(next(iter(failures.values()))))
        return held, failures

    def _check(self, batch: DispatchBatch, held: Mapping[Shard, Holding], failures: dict[Shard, Exception]) -> None:
        """Raises Fenced, CommitUnknown."""
        parts = [part for part in batch if part.shard in held]
        if fenced := [part.shard for part in parts if not self._may_commit(part, held[part.shard])]:
            raise Fenced(fenced)
        for shard, holding in held.items():
            # rule recovered-first: a step that is not done would be forgotten behind the next one: rows and records
            # lost.
            if not holding.is_recovered:
                failures[shard] = QueueUnavailable("an earlier commit has not been read back yet")

    def _may_commit(self, part: ShardBatch, holding: Holding) -> bool:
        cursor, last = part.cursor, holding.last
        if not holding.is_ours or cursor.writer != self._writer:
            return False
        if last is not None and (last.owner_epoch, last.writer) == (cursor.owner_epoch, cursor.writer):
            return True
        return part.alone and cursor.owner_epoch == (0 if last is None else last.owner_epoch) + 1

    # --- the step

    def carry_out(self, parts: Sequence[Part]) -> None:
        """Parts of shards that are ours and recovered, whose locks the caller holds. Those that failed have a
        `failure` afterwards. Raises CommitError if nothing was written."""
        try:
            self._write_down(parts)
            for number in range(max((len(part.rounds) for part in parts), default=0)):
                self._round(parts, number)
            for part in going(parts):
                part.holding.cursor = part.cursor
                self._rows.owe(part)
            self._rows.store_due(going(parts))
        except CommitError:
            raise
        except BaseException:
            for part in parts:
                part.holding.is_recovered = False
            raise

    def _write_down(self, parts: Sequence[Part]) -> None:
        self._began_s = self._clock.monotonic_s()
        sends = []
        for part in parts:
            try:
                part.step = self._step(part)
                sends.append((part, QueueBatch(part.holding.journal, [_record(part.step)])))
            except QueueError as error:
                part.failure = error
        if parts and not sends:
            raise CommitAborted(str(parts[0].failure))
        for part, _ in sends:
            part.holding.number += 1  # also where it fails: no other step may have its number
        self._sender.send_all(parts, sends, self._noted)

    def _noted(self, part: Part, batch: QueueBatch, sent: Sent) -> None:
        assert part.step is not None
        part.happened = part.step.decides is None
        self._stamped(sent, batch.queue, self._began_s)

    def _step(self, part: Part) -> ShardStep:
        """Raises QueueError."""
        holding = part.holding
        if not holding.session.check_answers():
            raise QueueUnavailable(f"{part.shard.broker} has not answered an earlier commit")
        number, batches = holding.number + 1, [batch for some in part.rounds for batch in some]
        marks = [f"{holding.name}/{holding.term}/{number}/{index}" for index in range(len(batches))]
        writes = tuple(map(partial(self._write, holding), batches, marks))
        # rule rows-carried: the journal's last step alone is read back: rows of those before it would be lost.
        owed = tuple(holding.owed)
        return ShardStep(holding.term, number, holding.session.id, holding.cursor, part.cursor, writes, owed)

    def _write(self, holding: Holding, batch: QueueBatch, mark: str) -> Write:
        members = None if batch.decides else tuple((bytes(one.body), one.properties) for one in batch.members)
        return Write(*batch.queue, self._since(holding, batch.queue), mark, members, batch.born_ms)

    def _since(self, holding: Holding, queue: Queue) -> int:
        """The batch will not be stored before this offset. Raises QueueError."""
        known = holding.ends.get(queue)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known[1] < ENDS_FRESH_S:
            return known[0]
        with self._cluster.translated_errors(f"asking for the end of {queue.topic}"):
            asked = holding.session.requests.max_offset_later(queue)
            try:
                end = asked.result(self._patience_s())
            except TimeoutError:
                holding.session.leave_open(asked)
                raise QueueUnavailable(f"{queue.broker} has not answered where {queue.topic} ends") from None
        holding.ends[queue] = end, now_s
        return end

    def _round(self, parts: Sequence[Part], number: int) -> None:
        """Rows are not sent here."""
        sends = []
        for part in (part for part in going(parts) if number < len(part.rounds)):
            assert part.step is not None
            before = sum(len(batches) for batches in part.rounds[:number])
            for batch, write in zip(part.rounds[number], part.step.writes[before:], strict=False):
                if not batch.is_rows:
                    sends.append((part, batch._replace(members=marked(batch.members, write.mark))))
        self._sender.send_all(parts, sends, self._landed)

    def _landed(self, part: Part, batch: QueueBatch, sent: Sent) -> None:
        part.happened = part.happened or batch.decides
        end = sent.answer.queue_offset + len(batch.members)
        part.holding.ends[batch.queue] = end, self._clock.monotonic_s()
        self._cluster.stored(batch.queue, end)


def _record(step: ShardStep) -> BatchMember:
    """Raises CommitAborted."""
    record = encode(step)
    if len(record.body) > BATCH_BYTES_MAX - 1024:
        raise CommitAborted(f"a step of {len(record.body)} bytes does not fit into one request")
    return record
