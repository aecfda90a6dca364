"""A shard's journal: the records that its owners write about claims and steps, in a queue of its own.

The journal of shard `broker-a:3` of `orders` is queue 3 of `delayline%cursor%orders` on broker-a. A record is `dlj`,
the version's byte and MessagePack, one of the structures below. Page: docs/formats/journal.md.

    Claimed    the shard is this session's from here on (the first claim of a term counts)
    ShardStep  what a commit is going to write, and rows that earlier ones may not have written yet
    Done       all of it is written
    Kept       nothing is open, and this is the cursor
    Released   the session has released the shard, with nothing open

`replay` derives the shard's state from them. A record of a session behind the claim of a later term does not count:
it was in flight when the session ended, and no caller was answered that it is stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from delayline.errors import UnknownFormat
from delayline.process import logs
from mq.errors import QueueUnavailable
from mq.rocketmq.body import marked
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.gaps import deleted, gap_in
from rocketmq.client.broker import BrokerRequests
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue
from rocketmq.wire.stored import StoredMessage

MAGIC = b"dlj"
VERSION = 2
TAIL_RECORDS = 64
"""Read at once, from the end backwards."""
EMPTY_PULLS_MAX = 100
"""One after the other; each waits for 0.1 s at its broker. A topic made again may show the old one's offsets."""
LATE_RECORDS_MAX = 16
"""A session has one step of a shard in flight. If it lands late, it is at most so many records behind the claim that
makes it void; between the two are claims that came too late."""


class Write(msgspec.Struct, array_like=True, frozen=True):
    """Messages for one queue, all of them or none. The first has the `mark`, which is looked for from `since` on.
    Without `members` they are in none but the queue itself: whether they are there decides whether the step
    happened."""

    topic: str
    broker: str
    queue_id: int
    since: int
    mark: str
    members: tuple[tuple[bytes, str], ...] | None
    born_ms: int | None = None

    @property
    def queue(self) -> Queue:
        return Queue(self.topic, self.broker, self.queue_id)

    @property
    def batch(self) -> list[BatchMember]:
        """The members, the first of them with the mark."""
        assert self.members is not None, "they are in their queue"
        return marked([BatchMember(body, text) for body, text in self.members], self.mark)


class Claimed(msgspec.Struct, tag="claimed", frozen=True):
    term: int
    session: str


class ShardStep(msgspec.Struct, tag="step", frozen=True):
    """`before` is the cursor where the step has not happened, `cursor` where it has. `owed` are rows of earlier
    steps, which have happened; the rows may not be stored yet."""

    term: int
    number: int
    session: str
    before: bytes | None
    cursor: bytes
    writes: tuple[Write, ...]
    owed: tuple[Write, ...] = ()

    @property
    def decides(self) -> Write | None:
        """The write whose presence decides; None where the step has happened by being written down."""
        return next((write for write in self.writes if write.members is None), None)


class Done(msgspec.Struct, tag="done", frozen=True):
    term: int
    number: int


class Kept(msgspec.Struct, tag="kept", frozen=True):
    term: int
    session: str
    cursor: bytes | None


class Released(msgspec.Struct, tag="released", frozen=True):
    term: int


Record: TypeAlias = Claimed | ShardStep | Done | Kept | Released

_HEAD = MAGIC + bytes((VERSION,))
log = logs.get(__name__)
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Claimed | ShardStep | Done | Kept | Released)


def encode(record: Record) -> BatchMember:
    """As a message."""
    return BatchMember(_HEAD + msgspec.msgpack.encode(record))


def decode(body: bytes) -> Record:
    """Of a message that `is_record`. Raises UnknownFormat."""
    head, packed = body[: len(_HEAD)], body[len(_HEAD) :]
    if head != _HEAD:
        raise UnknownFormat(f"a journal record of version {head[3:].hex() or 'none'}, this program knows {VERSION}")
    try:
        return _decoder.decode(packed)
    except msgspec.DecodeError as error:
        raise UnknownFormat(f"a journal record that cannot be read: {error}") from error


def is_record(body: bytes) -> bool:
    """Whether a message of a journal is one of ours, of whatever version. Others are no business of the shard's."""
    return body.startswith(MAGIC)


@dataclass(frozen=True, slots=True)
class State:
    """The state of a shard at the end of its journal. `session` has the term, and may have ended. `step` has no
    `Done` yet; it is of an earlier term until the present owner has finished it."""

    term: int = 0
    session: str = ""
    released: bool = True
    cursor: bytes | None = None
    step: ShardStep | None = None
    end: int = 0

    @property
    def known_cursor(self) -> bytes | None:
        """The cursor by the journal alone: before a step whose first deliveries decide, behind any other."""
        if self.step is None:
            return self.cursor
        return self.step.before if self.step.decides is not None else self.step.cursor


def replay(records: Iterable[Record], end: int = 0) -> State:
    """What follows from a journal's last records, which may begin anywhere."""
    state = State()
    for record in records:
        state = _after(state, record)
    return replace(state, end=end)


def _after(state: State, record: Record) -> State:
    match record:
        case Claimed(term, session) if term > state.term:
            return replace(state, term=term, session=session, released=False)
        # rule journal-late: what a fenced session still had on its way would count: a step that is never done.
        case ShardStep() if record.term >= state.term:
            return State(record.term, record.session, False, record.before, record)
        case Kept() if record.term >= state.term:
            return State(record.term, record.session, False, record.cursor)
        case Done(term, number) if state.step and (state.step.term, state.step.number) == (term, number):
            return replace(state, cursor=state.step.cursor, step=None)
        case Released(term) if term == state.term:
            return replace(state, released=True)
    return state


class Journals:
    """Reads and writes them. Raises as `RocketmqCluster` does, and UnknownFormat."""

    def __init__(self, cluster: RocketmqCluster, reader: BrokerRequests) -> None:
        self._cluster = cluster
        self._reader = reader
        self._recalled: dict[Queue, State] = {}  # bounded by the shards
        self._warned: dict[Queue, int] = {}  # up to where foreign messages are reported; bounded by the shards

    def recall(self, queue: Queue) -> State:
        """The state as it was read last, if the journal's end has not moved: one request. Good enough to find an
        owner, which then checks its ownership itself. Never take over by it: a log that lost its end and grew back
        to the same length looks unchanged."""
        known = self._recalled.get(queue)
        with self._cluster.translated_errors(f"reading the journal {queue.topic}"):
            if known is not None and known.end == self._reader.max_offset(queue):
                return known
        self._recalled[queue] = state = self.state(queue)
        return state

    def state(self, queue: Queue, end_min: int = 0) -> State:
        """As far as it can be read now, and at least up to `end_min`, which is stored already."""
        with self._cluster.translated_errors(f"reading the journal {queue.topic}"):
            end = max(self._reader.max_offset(queue), end_min)
            start = self._reader.min_offset(queue)
        records: list[Record] = []
        at = end
        while at > start and not _is_enough(records):
            begin = max(start, at - TAIL_RECORDS)
            records = [*self._records(queue, begin, at), *records]
            at = begin
        return replay(records, end)

    def _records(self, queue: Queue, begin: int, end: int) -> list[Record]:
        messages = read_messages_between(self._cluster, self._reader, queue, begin, end)
        # rule journal-foreign: one message that another program wrote there would stop its shard for good.
        ours = [message for message in messages if is_record(message.body)]
        if len(ours) < len(messages):
            self._warn(queue, [message.queue_offset for message in messages if not is_record(message.body)])
        return [decode(message.body) for message in ours]

    def _warn(self, queue: Queue, foreign: list[int]) -> None:
        """Once of each."""
        if foreign[-1] >= self._warned.get(queue, 0):
            self._warned[queue] = foreign[-1] + 1
            place = f"{queue.broker}:{queue.queue_id}"
            log.warning("messages of others in a journal", topic=queue.topic, queue=place, offsets=foreign[:10])


def _is_enough(records: Sequence[Record]) -> bool:
    """Whether earlier records would change nothing."""
    return any(isinstance(record, ShardStep | Kept) for record in records[LATE_RECORDS_MAX:])


def read_messages_between(
    cluster: RocketmqCluster, reader: BrokerRequests, queue: Queue, begin: int, end: int
) -> list[StoredMessage]:
    """All of them, waiting for those that are stored and cannot be pulled yet. Raises QueueUnavailable; where the
    queue does not have all of them any more as well, or does not show what it has."""
    what = f"{queue.topic}, {queue.broker}:{queue.queue_id}"
    found: list[StoredMessage] = []
    empty = 0
    while begin < end:
        if empty > EMPTY_PULLS_MAX:
            raise QueueUnavailable(f"{what}: {begin} is stored, and cannot be read")
        with cluster.translated_errors(f"reading {what}"):
            pulled = reader.pull(queue, begin, wait_s=0.1)
        # rule read-whole: what is in the gap would count as never written: delivered twice.
        if (gap := gap_in(begin, pulled)) is not None and gap.start < end:
            raise QueueUnavailable(f"{deleted(what, gap)}, and what was delivered there cannot be known any more")
        found += [one for one in pulled.messages if one.queue_offset < end]
        begin = pulled.messages[-1].queue_offset + 1 if pulled.messages else begin
        empty = 0 if pulled.messages else empty + 1
    return found
