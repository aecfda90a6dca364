"""The contract between Delayline and a message queue.

The roles, with one adapter each per queue; an adapter may let one object play several:

    Client   appends records for the frontends (api, proxies) and reads topics for them
    Source   gives a worker the buffer records of its shards, in order
    Sink     makes one dispatch batch true in one step
    Admin    topics, trimming, and the takeover of a shard
    Claim    appends as the only writer of a name, for a repair
    Queue    holds them: is Client and Admin, opens a worker's Source and Sink, and makes claims

Records cross as opaque *bodies* (`delayline.records.record`). `tests/contract/` runs one suite over every adapter.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, Protocol

from delayline.buffer.cursor import Cursor
from delayline.records.message import Shard
from delayline.schedule.rules import Rules
from mq.clock_offset import ClockOffset

HEADER_ROOM_BYTES = 4096
"""More than our headers: id and origin (512 each at most), a dead letter's reason (200), topic (249), and times."""


class Append(NamedTuple):
    """A body for one partition of a topic (`partition` is a shard's `name`)."""

    topic: str
    partition: str
    body: bytes


class Position(NamedTuple):
    """The place of an appended record, and the queue's own time of appending it (epoch ms)."""

    topic: str
    partition: str
    offset: int
    appended_at_ms: int


class AppendRequest(NamedTuple):
    """Records of one append; its end calls `ended`, once and from any thread, which neither blocks nor raises."""

    records: Sequence[Append]
    ended: Callable[[list[Position] | BaseException], None]


class LogRecord(NamedTuple):
    """A record of a partition. In a buffer topic `appended_at_ms` is the message's accepted_at."""

    offset: int
    appended_at_ms: int
    body: bytes


# --- events of a source, in the order in which they happened


class Assigned(NamedTuple):
    """These shards are the worker's from now on. Reading starts at the `seek` that follows the takeover."""

    shards: Sequence[Shard]


class Revoked(NamedTuple):
    """These shards go to another worker; the source waits for `Source.release` before it lets go."""

    shards: Sequence[Shard]


class Lost(NamedTuple):
    """The worker has lost these shards, without a chance to finish: it drops everything that it read from them."""

    shards: Sequence[Shard]


class Fetched(NamedTuple):
    """Records of one shard, plain tuples of the shape of LogRecord (because there are many), offsets ascending (with
    holes: aborted or control records). Everything below `next_offset` has been read, holes behind the last record
    included, so that a log that ends in a hole is read to its end; 0: the last record is the end of what was read."""

    shard: Shard
    records: Sequence[tuple[int, int, bytes]]
    next_offset: int = 0


class OutOfRange(NamedTuple):
    """The offset to be read next is not in the shard's log any more, or not yet. Nothing is skipped silently, and
    nothing is fetched before another `seek`."""

    shard: Shard
    detail: str


class Unreadable(NamedTuple):
    """The record at the offset to be read next cannot be read (a wrong checksum, an unknown format). Nothing is
    skipped silently, and nothing is fetched before another `seek`."""

    shard: Shard
    detail: str


Event = Assigned | Revoked | Lost | Fetched | OutOfRange | Unreadable


class Source(Protocol):
    """One worker's reading end. Called from the worker's thread only, except `wake`."""

    def poll(self, records_max: int, timeout_s: float) -> Sequence[Event]:
        """The next events, with at most `records_max` records in all. Waits up to `timeout_s` for the first one;
        returns early, perhaps empty, on `wake`. Raises QueueUnavailable, and QueueClosed if no retry can help."""

    def wake(self) -> None:
        """Let a `poll` that waits return. Any thread may call it; it is never lost."""

    def seek(self, shard: Shard, offset: int) -> None:
        """Read the shard from `offset` on. Nothing is fetched for an assigned shard before its first seek."""

    def pause_fetch(self, shard: Shard) -> None:
        """Fetch nothing for the shard until `resume_fetch`; other shards go on."""

    def resume_fetch(self, shard: Shard) -> None:
        """Undo `pause_fetch`."""

    def release(self, shards: Sequence[Shard]) -> None:
        """Everything of revoked shards has been finished or dropped; let them go."""

    def log_end(self, shard: Shard) -> int:
        """The offset behind the last record of the shard's log, as reading it has shown; 0 where that is unknown.
        For figures like the lag: it neither blocks nor raises, and may be a moment old."""

    def now_ms(self, shard: Shard) -> int:
        """Epoch ms, never ahead of the clock that stamps the shard's records: 'early' is defined against it."""

    def clock_offset(self, shard: Shard) -> ClockOffset | None:
        """Our clock against the one that stamps the shard's records, as measured not long ago; None where both are
        one, or nothing is known. Neither blocks nor raises."""

    def close(self) -> None:
        """Leave. Further polls are an error."""


class Delivery(NamedTuple):
    """A sealed body for the shard's target partition. `timestamp_ms` is the record's time; None lets the queue
    stamp it with the moment of delivery. A batch may hold plain pairs of the same shape, which cost
    less: read it by position, never by field name."""

    body: bytes
    timestamp_ms: int | None = None


_BODY = itemgetter(0)


@dataclass(slots=True)
class ShardBatch:
    """What one shard contributes to a commit; a cursor alone is a claim or a checkpoint."""

    shard: Shard
    cursor: Cursor
    deliveries: list[tuple[bytes, int | None]] = field(default_factory=list)  # into this partition of the target
    appends: list[bytes] = field(default_factory=list)  # re-appends, decisions, rules: into the buffer partition
    audit: list[bytes] = field(default_factory=list)  # into <ns>.audit
    dead: list[bytes] = field(default_factory=list)  # into <ns>.dead
    purged: list[bytes] = field(default_factory=list)  # into <ns>.purged
    cross_partition: list[Append] = field(default_factory=list)  # into groups' topics, or the rest of the buffer

    @property
    def written_bytes(self) -> int:
        """All bodies together. Hot: once per batch, over all."""
        own = sum(sum(map(len, bodies)) for bodies in (self.appends, self.audit, self.dead, self.purged))
        others = sum(len(append.body) for append in self.cross_partition)
        return own + sum(map(len, map(_BODY, self.deliveries))) + others

    @property
    def alone(self) -> bool:
        """Whether it is nothing but a cursor, as a claim has to be."""
        written = self.deliveries or self.appends or self.audit or self.dead or self.purged or self.cross_partition
        return not written


DispatchBatch = Sequence[ShardBatch]
"""At most one entry per shard."""


class Sink(Protocol):
    """One worker's writing end."""

    def commit(self, batch: DispatchBatch) -> None:
        """Write each shard's part of the batch atomically and once: all of it or nothing. Blocks until all are
        durable. After CommitUnknown parts may have been written: if it names shards, only theirs are in doubt, and
        the others have been written. After any other error nothing has been. (A transaction writes all parts or
        none; RocketMQ has no transactions.)

        Refused as Fenced unless the cursor carries the owner epoch and the writer of the shard's committed cursor, or
        claims the next epoch. (The epoch alone is not enough: two claimants may have read the same cursor, and the
        second one's claim would pass for the first one's checkpoint.) Raises CommitAborted, CommitUnknown, Fenced,
        DeliveryRefused.

        `cross_partition` may name two kinds of topics. A consumer group's (`Names.retry`, `Names.dlq`) is made where
        it is missing and topics may be made, with as many partitions as the shard's target; the record goes to the
        partition of the number that it names, modulo how many there are. Where there is no such topic and none can
        be made, or it may not be written, DeliveryRefused speaks of a record: others of the shard have other ways.
        In the shard's own buffer topic the partition must exist.
        """

    def close(self) -> None:
        """End; a commit that is not under way any more stays."""


class Client(Protocol):
    """The frontends' end. Any thread may call it."""

    def append(self, records: Sequence[Append]) -> Future[list[Position]]:
        """Store all the records or none, durably, before the future is done; positions are in their order.
        The future's exception may be QueueUnavailable, TopicUnknown, PartitionUnknown or RecordTooLarge. After
        QueueUnavailable it is unknown whether they are stored; on a queue without transactions (RocketMQ) some may
        be, where they go to several partitions or are more than one request holds."""

    def append_each(self, requests: Sequence[AppendRequest]) -> None:
        """`append` for each by itself, in their order; with fewer locks and wake-ups where the queue has groups."""

    def read(
        self, topic: str, partition: str, offset: int, records_max: int, bytes_max: int = 4 << 20
    ) -> list[LogRecord]:
        """Committed records of a partition from `offset` on; empty at the end. At least one record where there is
        one, however large. Raises TopicUnknown, PartitionUnknown, OffsetOutOfRange, QueueUnavailable."""

    def offsets(self, topic: str, partition: str) -> tuple[int, int]:
        """(first offset held, offset behind the last). Raises TopicUnknown, PartitionUnknown."""

    def wait(self, topic: str, positions: Mapping[str, int], timeout_s: float) -> bool:
        """Block until a partition of the topic holds something at or behind its offset in `positions` (partition
        name -> offset to read next); False where the time ran out first. What was appended between a read and this
        call counts, so that nothing is missed. Raises TopicUnknown, PartitionUnknown, QueueUnavailable."""

    def is_stable(self, topic: str, partition: str, timeout_s: float) -> bool:
        """Block until every record that is in the partition now can be read or was aborted, also those of other
        processes' transactions; False if `timeout_s` passes first. A caller that does not find a record may conclude
        that it is missing only after True. Raises TopicUnknown, PartitionUnknown, QueueUnavailable."""

    def record_bytes_max(self, topic: str) -> int:
        """The largest body that the topic takes. What Delayline adds to a message on its way (ids, times, reasons)
        takes at most `HEADER_ROOM_BYTES`, which the frontends keep free. Raises TopicUnknown."""


class Claim(Protocol):
    """Appends under a name (`Queue.claim`): only its last claim may append. One thread at a time."""

    def append(self, records: Sequence[Append]) -> None:
        """Store all the records or none, durably. Raises ClaimLost, QueueUnavailable (they may be stored or not),
        TopicUnknown, PartitionUnknown, RecordTooLarge. After a failure the claim takes nothing more."""

    def close(self) -> None:
        """Let go."""


class TopicInfo(NamedTuple):
    """`topic_id` is 16 bytes that change when a topic is made again. Partitions that are `down` take nothing now."""

    name: str
    partitions: tuple[str, ...]
    topic_id: bytes
    down: frozenset[str] = frozenset()

    @property
    def taking(self) -> Sequence[str]:
        """For what may go to any of them: those that take something, if there are such."""
        return [name for name in self.partitions if name not in self.down] or self.partitions


class Handover(NamedTuple):
    """A shard as its last writer left it, when none can write any more. `cursor` is None where it had none, or, where
    it `may_be_lost`, because its place was made anew. `run` changes whenever acknowledged records may have been lost
    (RocketMQ: its broker was started anew)."""

    cursor: Cursor | None
    topic_id: bytes
    run: bytes = b""
    may_be_lost: bool = False


class Owner(NamedTuple):
    """A worker by the name that its cursors carry, and where its process answers questions about its shards:
    "host:port", empty where it answers none."""

    writer: str
    address: str = ""


class Audited(NamedTuple):
    """The reconcile job has read the shard's buffer below `offset`; it wrote this at `at_ms` (by its own clock, epoch
    ms)."""

    offset: int
    at_ms: int


class Admin(Protocol):
    """Topics and takeovers. Any thread may call it."""

    def topics(self) -> Sequence[str]:
        """Topics of users: neither the queue's own nor those of this installation."""

    def topic(self, name: str) -> TopicInfo:
        """Raises TopicUnknown."""

    def ensure_topic(self, name: str) -> TopicInfo:
        """The topic, made where the queue lets topics be made on first use. Raises TopicUnknown elsewhere."""

    def create_topic(self, name: str, partitions: int | None = None) -> TopicInfo:
        """A new topic of users, with as many partitions as others where none are named. Raises TopicExists,
        TopicUnknown (no such name, or too many topics), NotDoneHere, QueueUnavailable."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic of users, what was delivered into it, and its buffer. Raises TopicBusy where messages may
        wait there (by the committed cursors, which follow within a second), TopicUnknown, NotDoneHere,
        QueueUnavailable."""

    def ensure_own(self) -> None:
        """The installation's own topics, made where they are missing. Raises TopicUnknown, QueueUnavailable."""

    def ensure_buffer(self, name: str, rules: Rules) -> TopicInfo:
        """The buffer topic of the target topic `name`, with as many partitions. Where it is made now and `rules` are
        not the default ones, a rules record is the first record of every partition."""

    def takeover(self, shard: Shard) -> Handover:
        """Fence the last owner, then read the cursor when it can no longer change.
        Raises QueueUnavailable, UnknownFormat, TopicUnknown."""

    def log_range(self, shard: Shard) -> tuple[int, int]:
        """(first offset held, offset behind the last) of the shard's buffer partition."""

    def trim(self, shard: Shard, low_offset: int) -> None:
        """Give back the buffer's room below `low_offset`, which must come from a committed cursor. This process does
        not see the records any more; a queue that deletes by age alone (RocketMQ) keeps them until then."""

    def identity(self) -> str:
        """The identity of this queue, which never changes and no other queue has. Raises QueueUnavailable."""

    def read_cursor_unfenced(self, shard: Shard) -> Cursor | None:
        """The shard's cursor as it is or was a moment ago: for readers that take nothing over. Raises
        QueueUnavailable, UnknownFormat, TopicUnknown."""

    def audited(self, shard: Shard) -> Audited | None:
        """How far the reconcile job has read the shard's buffer: offset 0 for a buffer that is newer than its last
        run; None if it has never run. May ask the queue over the network: not for every turn of a loop. Raises
        QueueUnavailable, TopicUnknown, UnknownFormat."""

    def buffer(self, shard: Shard) -> TopicInfo:
        """The shard's buffer topic as it is now, or was seconds ago: of another identity than its cursor's where
        the topic has been deleted and made again. Raises QueueUnavailable, TopicUnknown."""

    def target_trouble(self, shard: Shard) -> str | None:
        """Why the target takes no deliveries now, as far as that shows without one. Raises QueueUnavailable."""

    def reach(self) -> None:
        """Returns when a part of the queue that stores messages answers. Raises QueueUnavailable."""

    def trouble(self) -> str | None:
        """A failure of the queue itself that does not pass, so that it takes in nothing more; None if none is known.
        Neither blocks nor raises."""

    def owners(self) -> Mapping[Shard, Owner]:
        """The owner of each shard at this moment, without shards that are between two owners. May ask the queue over
        the network: not for every request. Raises QueueUnavailable if the owners are not known now."""

    def kept_s(self, shard: Shard) -> float | None:
        """For how long (seconds) the queue keeps a record of the shard's buffer at most, whatever waits there; None
        where it stays until it is trimmed. Raises QueueUnavailable."""

    def appended_at_ms(self, shard: Shard, offset: int) -> int | None:
        """When the first record at or behind `offset` of the shard's buffer was appended; None where there is none.
        Raises QueueUnavailable, TopicUnknown."""


class Queue(Client, Admin, Protocol):
    """A message queue as a process holds it: made once, closed at the end."""

    def open_worker(self, writer: str) -> tuple[Source, Sink]:
        """The two ends of a new worker. `writer` is the name that its cursors carry; it must be new with every start
        of a process. Raises QueueError; it may be tried again."""

    def claim(self, name: str) -> Claim:
        """Become the only process, on any machine, that appends under `name`. When this returns, earlier claims of
        the name can store nothing more; what they have stored can be read once `is_stable` is true. Raises
        QueueUnavailable; also while an earlier holder is there, on a queue that cannot end it (RocketMQ)."""

    def close(self) -> None:
        """Let go. Later calls raise QueueUnavailable; workers are closed by their opener."""
