"""Sink: a dispatch batch is one transaction.

Brokers check that a commit comes from a member of the group's current generation, and not that the member owns the
partition. So we check, before each transaction: the shard is ours, under the same tenure as when its claim was
committed, and its cursor carries our writer and the epoch of that claim. A claim is checked against the cursor that
is committed, read stable under the tenure that it is committed in: by the takeover, so that the commit is short, or
anew where that began under an earlier one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Lock

from confluent_kafka import TopicPartition

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import spread
from delayline.clock import Clock
from delayline.errors import Bug, UnknownFormat
from delayline.names import Names
from delayline.process import logs
from delayline.records.message import Shard
from delayline.records.record import encode_body
from mq.broker_clock import BrokerClock
from mq.contract import DispatchBatch, ShardBatch
from mq.errors import (
    CommitAborted,
    CommitError,
    CommitUnknown,
    DeliveryRefused,
    Fenced,
    QueueError,
    QueueUnavailable,
    Refused,
)
from mq.kafka.admin.cluster import Cluster
from mq.kafka.data_path.finishing import Finisher
from mq.kafka.data_path.producer import WireTransactions
from mq.kafka.data_path.sends import Aborted, Bulk, Send
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.producers import Failure
from mq.kafka.worker.commit_pacing import CommitPacing
from mq.kafka.worker.cross_partition import CrossPartitionAppends, Placed
from mq.kafka.worker.cursors import Cursors, encode_metadata
from mq.kafka.worker.membership import Membership, Standing
from mq.kafka.worker.mirror import shard_key

GENERATIONS_MAX = 3
"""Rebalances that one commit may meet and be repeated after, as long as its shards stay ours."""
REBALANCE_S = 2.0

log = logs.get(__name__)


class KafkaSink:
    """Sink of one worker. One thread at a time."""

    def __init__(
        self,
        names: Names,
        cluster: Cluster,
        cursors: Cursors,
        cross_partition: CrossPartitionAppends,
        membership: Membership,
        writer: str,
        clock: Clock,
        brokers: BrokerClock,
        transactions: Callable[[str], WireTransactions],
        finisher: Finisher,
        rest: CommitPacing,
    ) -> None:
        """`transactions` makes a producer for a transactional id."""
        self._names = names
        self._cluster = cluster
        self._cursors = cursors
        self._cross_partition = cross_partition
        self._membership = membership
        self._writer = writer
        self._clock = clock
        self._brokers = brokers
        self.transactional_id = writer  # our transactional id, until it is retired
        self._retired = 0
        self._finisher = finisher
        self._rest = rest
        self._make_transactions = transactions
        self.transactions = transactions(writer)
        own = (self._names.audit, self._names.dead, self._names.purged, self._names.cursor)
        self._rows = {topic: len(cluster.recall(topic).info.partitions) for topic in own}
        self._claims: dict[Shard, tuple[int, int]] = {}  # tenure and epoch under which we may go on
        self._read: dict[Shard, tuple[int, int]] = {}  # tenure and epoch, by a takeover: for one claim
        self._closed = False
        self._busy = Lock()
        cursors.add(self)

    def commit(self, batch: DispatchBatch) -> None:
        if self._closed:
            raise CommitAborted("this sink is closed")
        if len({part.shard for part in batch}) != len(batch):
            raise Bug("a shard twice in one dispatch batch")
        if not batch:
            return
        with self._busy:  # also what may go on: another thread may retire the id
            try:
                standing = self._write(batch)
            except CommitUnknown:
                for part in batch:
                    self._claims.pop(part.shard, None)
                raise
            for part in batch:
                self._claims[part.shard] = (standing.tenures[part.shard], part.cursor.owner_epoch)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._cursors.remove(self)
            self.transactions.close()

    # --- mq.kafka.worker.cursors.OwnWriter: what an outage has left, and what a takeover has read

    def end_abandoned(self, within_s: float) -> None:
        """Open a producer under the same id, which aborts the transaction of one that was given up. A commit that is
        under way needs none of this: the cursors become stable with its end. Raises QueueUnavailable."""
        with self._between_commits(within_s) as free, self._translated_errors():
            if free:
                try:
                    self.transactions.open()
                except Aborted as aborted:
                    if not trouble.unfinished(aborted.error):
                        raise
                    self._retire()

    def finish(self, within_s: float) -> None:
        """Write the markers of our last commit that brokers forgot in an outage. Without them its offsets stay
        pending and its records hidden. A commit that is under way does this itself. Raises QueueUnavailable."""
        with self._between_commits(within_s) as free:
            if free and self._finisher.recover(self.transactional_id):
                self.transactions.close()  # fenced with it; the next commit opens them again

    def tenure(self, shard: Shard) -> int | None:
        return self._membership.standing().tenures.get(shard)

    def has_read(self, shard: Shard, tenure: int | None, epoch: int) -> None:
        if tenure is not None:
            self._read[shard] = tenure, epoch

    @contextmanager
    def _between_commits(self, within_s: float) -> Iterator[bool]:
        """Holds off commits. False if one is still under way and `within_s` is 0, or if this sink is closed."""
        free = not self._closed and self._busy.acquire(timeout=within_s)
        if within_s and not free and not self._closed:
            raise QueueUnavailable(
                f"{self.transactional_id}: a commit is under way that takes longer than {within_s:.0f} s"
            )
        try:
            yield free
        finally:
            if free:
                self._busy.release()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except Aborted as aborted:
            raise trouble.queue_error(aborted.error, "ending what was cut off") from aborted
        except CommitUnknown as unknown:
            raise QueueUnavailable(str(unknown)) from unknown

    def _retire(self) -> None:
        """Go on under another transactional id, for which every shard must be claimed anew.

        A transaction that holds a partition with too few replicas in sync, or without a leader, can be ended in no
        way before it has them again, because its markers are written with acks=all; and the coordinator takes nothing
        else from its id until then. It cannot be committed, for its producer is gone and has not asked for that; or
        where the answer was lost, the shards it is about have no stable cursor, and wait."""
        self._retired += 1
        self.transactional_id = f"{self._writer}@{self._retired + 1}"
        self.transactions.close()
        self.transactions = self._make_transactions(self.transactional_id)
        self._claims.clear()
        log.warning("a transaction that cannot be ended is left to itself", now=self.transactional_id)

    # --- who may commit

    def _standing(self, batch: DispatchBatch) -> Standing:
        """Our standing, under which every shard of the batch may be committed. Raises Fenced, CommitAborted."""
        standing = self._membership.standing()
        try:
            fenced = [part.shard for part in batch if not self._may_commit(part, standing)]
        except (QueueError, UnknownFormat) as error:
            raise CommitAborted(f"the cursors cannot be read: {error}") from error
        if fenced:
            raise Fenced(fenced)
        return standing

    def _may_commit(self, part: ShardBatch, standing: Standing) -> bool:
        tenure = standing.tenures.get(part.shard)
        if tenure is None or standing.metadata is None or part.cursor.writer != self._writer:
            return False
        if self._claims.get(part.shard) == (tenure, part.cursor.owner_epoch):
            return True
        if not part.alone:
            return False
        if self._read.pop(part.shard, None) == (tenure, part.cursor.owner_epoch - 1):
            return True
        return self._cursors.epoch(part.shard) + 1 == part.cursor.owner_epoch

    # --- what is written

    def _write(self, batch: DispatchBatch) -> Standing:
        """The standing under which it was written. Raises CommitError."""
        for _ in range(GENERATIONS_MAX):
            standing = self._standing(batch)
            placed = self._cross_partition.place(batch)
            try:
                self._transact(batch, placed, standing)
                return standing
            except Aborted as aborted:
                if trouble.unfinished(aborted.error):
                    self._retire()
                    raise Fenced([part.shard for part in batch]) from aborted
                if not trouble.old_generation(aborted.error):
                    raise self._refusal(batch, placed, aborted) from aborted
            self._membership.wait_newer(standing, REBALANCE_S)
        raise CommitAborted("the worker group keeps being rebalanced")

    def _transact(self, batch: DispatchBatch, placed: Placed, standing: Standing) -> None:
        offsets = [self._offset(part) for part in batch]
        sends = (send for part in batch for send in self._sends(part, placed.get(part.shard, ())))
        with self._rest.before():
            self.transactions.run(sends, offsets, standing.metadata)

    def _offset(self, part: ShardBatch) -> TopicPartition:
        buffer = self._names.buffer(part.shard.topic)
        metadata = encode_metadata(self._signed(part.cursor))
        return TopicPartition(buffer, int(part.shard.partition), part.cursor.next_offset, metadata=metadata)

    def _signed(self, cursor: Cursor) -> Cursor:
        """With the id that the next owner has to fence."""
        return replace(cursor, writer=self.transactional_id) if self._retired else cursor

    def _sends(self, part: ShardBatch, cross_partition: Iterable[Send]) -> Iterator[Send | Bulk]:
        shard, number = part.shard, int(part.shard.partition)
        buffer = self._names.buffer(shard.topic)
        yield Bulk(shard.topic, number, part.deliveries)
        yield from cross_partition
        names = self._names
        for topic, bodies in ((names.audit, part.audit), (names.dead, part.dead), (names.purged, part.purged)):
            if bodies:
                row = self._row(topic, shard)
                yield from (Send(topic, row, body) for body in bodies)
        for body in part.appends:
            yield Send(buffer, number, body)
        yield self._mirror(part)

    def _mirror(self, part: ShardBatch) -> Send:
        """The cursor in its compacted topic. The broker stamps it, which gives us the time there."""
        topic, row = self._names.cursor, self._row(self._names.cursor, part.shard)
        body = encode_body(shard_key(part.shard), self._signed(part.cursor).encode())
        return Send(topic, row, body, None, partial(self._stamped, topic, row, self._clock.monotonic_s()))

    def _stamped(self, topic: str, partition: int, sent_s: float, _offset: int, stamped_at_ms: int) -> None:
        self._brokers.measured(self._cluster.leader(topic, partition), stamped_at_ms, sent_s)

    def _row(self, topic: str, shard: Shard) -> int:
        return spread(shard, self._rows[topic])

    # --- what became of it

    def _refusal(self, batch: DispatchBatch, placed: Placed, aborted: Aborted) -> CommitError:
        """Nothing was written: why, and whose fault it is."""
        if trouble.not_a_member(aborted.error) or trouble.fenced(aborted.error):
            return Fenced([part.shard for part in batch])
        by_target = {(send.topic, send.partition): shard for shard, sends in placed.items() for send in sends}
        by_target |= {(part.shard.topic, int(part.shard.partition)): part.shard for part in batch}
        if aborted.silent:
            refused = self._guilty_target(batch, placed)
            if refused:
                self._retire()
            return refused or CommitAborted(str(aborted))
        if own := self._own_record(batch, aborted.failures):
            return own
        strangers = [failure for failure in aborted.failures if failure[:2] not in by_target]
        if strangers or not aborted.failures:
            return CommitAborted(_sentence(strangers[0]) if strangers else str(aborted))
        guilty = next((failure for failure in aborted.failures if self._of_record(failure)), aborted.failures[0])
        shard = by_target[guilty.topic, guilty.partition]
        return DeliveryRefused(shard, _sentence(guilty), of_record=self._of_record(guilty))

    def _own_record(self, batch: DispatchBatch, failures: Sequence[Failure]) -> DeliveryRefused | None:
        """A dead letter, or a record that carries a message on, that is larger than its topic takes. Where shards
        share a partition of dead letters, the largest one is it."""
        for failure in failures:
            if not trouble.too_large(failure.error):
                continue
            what, sizes = Refused.DEAD_LETTER, {}
            if failure.topic == self._names.dead:
                sizes = {
                    part.shard: part.dead for part in batch if self._row(failure.topic, part.shard) == failure[1]
                }
            else:
                what = Refused.APPEND
                sizes = {part.shard: part.appends for part in batch if self._buffer_of(part) == failure[:2]}
            found = {shard: max(map(len, bodies)) for shard, bodies in sizes.items() if bodies}
            if found:
                shard = max(found, key=lambda one: found[one])
                return DeliveryRefused(shard, _sentence(failure), of_record=True, refused=what)
        return None

    def _buffer_of(self, part: ShardBatch) -> tuple[str, int]:
        return self._names.buffer(part.shard.topic), int(part.shard.partition)

    def _of_record(self, failure: Failure) -> bool:
        if self._names.is_own(failure.topic):
            return self._cross_partition.is_of_record(failure)
        return trouble.of_record(failure.error)

    def _guilty_target(self, batch: DispatchBatch, placed: Placed) -> DeliveryRefused | None:
        """Where the library does not report which record made it give up: a target that would take nothing. A cluster
        that does not answer is no target's fault."""
        with suppress(QueueError):
            for part in batch:
                seen = self._cluster.target_trouble(*part.shard) if part.deliveries else None
                seen = seen or self._cross_partition.trouble(placed.get(part.shard, ()))
                if seen:
                    return DeliveryRefused(part.shard, seen, of_record=False)
        return None


def _sentence(failure: Failure) -> str:
    return f"{failure.topic}, partition {failure.partition}: {failure.error.str()}"
