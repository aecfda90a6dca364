"""Sink: a shard's part of a commit is a step, written down before it is carried out.

RocketMQ stores a batch in one queue wholly or not at all, and nothing over several queues. So a part is

    1. the *step* in the shard's journal: the next cursor, and all that is to be written but the first deliveries
    2. the first deliveries, in one batch: with them the step has happened. Without deliveries it has with 1
    3. everything else, in the order of `batches`
    4. `done`, in the journal; the commit does not wait for it

A crash at any point leaves what `ownership` finds and finishes, or finds not to have happened. The parts of several
shards go side by side, each whole by itself. What is of unknown fate ends the session: then the broker takes
nothing more from it, and what has landed by then is read back.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from delayline.clock import Clock
from delayline.errors import Bug, UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard
from mq.contract import DispatchBatch, ShardBatch
from mq.errors import (
    CommitAborted,
    CommitError,
    CommitUnknown,
    DeliveryRefused,
    Fenced,
    PartitionUnknown,
    QueueError,
    TopicUnknown,
)
from mq.rocketmq import trouble
from mq.rocketmq.batches import Batches, QueueBatch, Rounds
from mq.rocketmq.body import BATCH_BYTES_MAX, marked
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.journal import Done, ShardStep, Write, encode
from mq.rocketmq.ownership import Holding
from mq.rocketmq.stamps import Stamped
from rocketmq.client.broker import Sent
from rocketmq.errors import RocketmqError
from rocketmq.wire.bodies import Queue

BUSY_S = 5.0
"""How long a broker may be too busy to take something before a commit gives up."""
BUSY_PAUSE_S = 0.02
ENDS_FRESH_S = 30.0
"""For so long, where a queue ended is remembered; then it is asked again, so that little is read back."""

log = logs.get(__name__)


class Sending(NamedTuple):
    """A batch on its way."""

    holding: Holding
    batch: QueueBatch
    future: "Future[Sent]"


@dataclass(slots=True)
class Part:
    """A shard's part, and how far it is. `happened`: it counts, whatever comes."""

    batch: ShardBatch
    holding: Holding
    rounds: Rounds
    step: ShardStep | None = None
    happened: bool = False

    @property
    def shard(self) -> Shard:
        return self.batch.shard


class RocketmqSink:
    """Sink of one worker. One thread at a time."""

    def __init__(
        self,
        writer: str,
        cluster: RocketmqCluster,
        batches: Batches,
        hold: Callable[[Shard], Holding | None],
        clock: Clock,
        rest: Callable[[float], object],
        stamped: Stamped,
    ) -> None:
        """`hold` gives a shard that is assigned to the worker, taken where it has not been; None for others."""
        self._writer = writer
        self._cluster = cluster
        self._batches = batches
        self._hold = hold
        self._clock = clock
        self._rest = rest
        self._stamped = stamped
        self._began_s = 0.0
        self._closed = False

    def commit(self, batch: DispatchBatch) -> None:
        if self._closed:
            raise CommitAborted("this sink is closed")
        if len({part.shard for part in batch}) != len(batch):
            raise Bug("a shard twice in one dispatch batch")
        holdings = self._holdings(batch)
        with ExitStack() as locks:
            for shard in sorted(holdings):
                locks.enter_context(holdings[shard].lock)
            self._check(batch, holdings)
            parts = [Part(part, holdings[part.shard], self._batches.rounds(part)) for part in batch]
            self.carry_out(parts)

    def close(self) -> None:
        self._closed = True

    # --- who may commit

    def _holdings(self, batch: DispatchBatch) -> dict[Shard, Holding]:
        """Raises Fenced, CommitAborted."""
        try:
            found = {part.shard: self._hold(part.shard) for part in batch}
        except (TopicUnknown, PartitionUnknown) as error:
            raise Fenced([part.shard for part in batch]) from error
        except (QueueError, UnknownFormat) as error:
            raise CommitAborted(str(error)) from error
        if missing := [shard for shard, holding in found.items() if holding is None]:
            raise Fenced(missing)
        return {shard: holding for shard, holding in found.items() if holding is not None}

    def _check(self, batch: DispatchBatch, holdings: Mapping[Shard, Holding]) -> None:
        """Raises Fenced, CommitUnknown."""
        if fenced := [part.shard for part in batch if not self._may_commit(part, holdings[part.shard])]:
            raise Fenced(fenced)
        # rule recovered-first: a step that is not done would be forgotten behind the next one: rows and records lost.
        if not all(holding.is_recovered for holding in holdings.values()):
            raise CommitUnknown("an earlier commit has not been read back yet")

    def _may_commit(self, part: ShardBatch, holding: Holding) -> bool:
        cursor, last = part.cursor, holding.last
        if not holding.is_ours or cursor.writer != self._writer:
            return False
        if last is not None and (last.owner_epoch, last.writer) == (cursor.owner_epoch, cursor.writer):
            return True
        return part.alone and cursor.owner_epoch == (0 if last is None else last.owner_epoch) + 1

    # --- the step

    def carry_out(self, parts: Sequence[Part]) -> None:
        """Parts of shards that are ours and recovered, whose locks the caller holds. Raises CommitError."""
        try:
            self._write_down(parts)
            for number in range(max((len(part.rounds) for part in parts), default=0)):
                self._round(parts, number)
        except CommitError:
            raise
        except BaseException:
            for part in parts:
                part.holding.is_recovered = False
            raise
        for part in parts:
            self._finished(part)

    def _write_down(self, parts: Sequence[Part]) -> None:
        self._began_s = self._clock.monotonic_s()
        sends = []
        for part in parts:
            part.step = self._step(part)
            record = encode(part.step)
            if len(record.body) > BATCH_BYTES_MAX - 1024:
                raise CommitAborted(f"a step of {len(record.body)} bytes does not fit into one request")
            sends.append((part, QueueBatch(part.holding.journal, [record])))
        for part in parts:
            part.holding.number += 1  # also where it fails: no other step may have its number
        self._send_all(parts, sends, self._noted)

    def _noted(self, part: Part, batch: QueueBatch, sent: Sent) -> None:
        assert part.step is not None
        part.happened = part.step.decides is None
        self._stamped(sent, batch.queue, self._began_s)

    def _step(self, part: Part) -> ShardStep:
        """Raises CommitAborted."""
        holding = part.holding
        writes = tuple(self._write(holding, batch) for batches in part.rounds for batch in batches)
        cursor = part.batch.cursor.encode()
        return ShardStep(holding.term, holding.number + 1, holding.session.id, holding.cursor, cursor, writes)

    def _write(self, holding: Holding, batch: QueueBatch) -> Write:
        members = None if batch.decides else tuple((bytes(one.body), one.properties) for one in batch.members)
        return Write(*batch.queue, self._since(holding, batch.queue), members, batch.born_ms)

    def _since(self, holding: Holding, queue: Queue) -> int:
        """An offset before which the batch will not stand. Raises CommitAborted."""
        known = holding.ends.get(queue)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known[1] < ENDS_FRESH_S:
            return known[0]
        try:
            with self._cluster.telling(f"asking for the end of {queue.topic}"):
                end = holding.session.requests.max_offset(queue)
        except QueueError as error:
            raise CommitAborted(str(error)) from error
        holding.ends[queue] = end, now_s
        return end

    def _round(self, parts: Sequence[Part], number: int) -> None:
        sends = []
        for part in (part for part in parts if number < len(part.rounds)):
            before = sum(len(batches) for batches in part.rounds[:number])
            for index, batch in enumerate(part.rounds[number], before):
                assert part.step is not None
                mark = part.step.mark(part.holding.name, index)
                sends.append((part, batch._replace(members=[marked(batch.members[0], mark), *batch.members[1:]])))
        self._send_all(parts, sends, self._landed)

    def _landed(self, part: Part, batch: QueueBatch, sent: Sent) -> None:
        part.happened = part.happened or batch.decides
        end = sent.answer.queue_offset + len(batch.members)
        part.holding.ends[batch.queue] = end, self._clock.monotonic_s()
        self._cluster.stored(batch.queue, end)

    def _finished(self, part: Part) -> None:
        assert part.step is not None
        holding = part.holding
        holding.cursor = part.step.cursor
        done = encode(Done(part.step.term, part.step.number))
        try:
            holding.session.requests.send_batch_later(holding.journal, [done])
        except RocketmqError as error:
            log.debug("a step is not noted as done", shard=part.shard.partition, detail=str(error))

    # --- sending

    def _send_all(
        self,
        parts: Sequence[Part],
        sends: Sequence[tuple[Part, QueueBatch]],
        landed: Callable[[Part, QueueBatch, Sent], None],
    ) -> None:
        """All at once; what is refused for busyness again. Raises CommitError."""
        until_s = self._clock.monotonic_s() + BUSY_S
        while sends:
            failed = self._attempt(sends, landed)
            trouble_found = [item for item in failed if not trouble.is_busy(item[2])]
            if trouble_found or (failed and self._clock.monotonic_s() > until_s):
                raise self._failure(parts, trouble_found or failed)
            sends = [(part, batch) for part, batch, _ in failed]
            if sends:
                self._rest(BUSY_PAUSE_S)

    def _attempt(
        self, sends: Sequence[tuple[Part, QueueBatch]], landed: Callable[[Part, QueueBatch, Sent], None]
    ) -> list[tuple[Part, QueueBatch, RocketmqError]]:
        """Those that failed, and why."""
        failed: list[tuple[Part, QueueBatch, RocketmqError]] = []
        under_way: list[tuple[Part, QueueBatch, Future[Sent]]] = []
        for part, batch in sends:
            try:
                requests = part.holding.session.requests
                under_way.append(
                    (part, batch, requests.send_batch_later(batch.queue, batch.members, born_ms=batch.born_ms))
                )
            except RocketmqError as error:
                failed.append((part, batch, error))
        for part, batch, future in under_way:
            try:
                landed(part, batch, future.result())
            except RocketmqError as error:
                failed.append((part, batch, error))
        return failed

    def _failure(
        self, parts: Sequence[Part], failed: Sequence[tuple[Part, QueueBatch, RocketmqError]]
    ) -> CommitError:
        """What the commit ends with. Nothing has happened where no part has, and every failure is a certain one."""
        unknown = [(part, error) for part, _, error in failed if not trouble.is_not_stored(error)]
        for part, _ in unknown:
            # rule unknown-ends: what is of unknown fate could land behind the reading back: delivered twice.
            part.holding.session.end()
        if unknown or any(part.happened for part in parts):
            for part in parts:
                part.holding.is_recovered = False
            return CommitUnknown(str((unknown or failed)[0][-1]))
        guilty, batch, error = failed[0]
        if batch.decides and trouble.is_refused(error):
            return DeliveryRefused(guilty.shard, str(error), of_record=trouble.is_of_record(error))
        return CommitAborted(str(error))
