"""Questions about messages and shards, and who answers them: the owner of the shard.

What is asked and answered is plain data, because the owner may be another process. A question about many messages
names shards that several processes may own: each answers with a list, about those of the shards that it owns and has
read to the end, and lists of several processes are put one behind the other. What no owner answers for is missing,
and the caller reports it.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from delayline.buffer.outcome import Outcome
from delayline.records.message import Header, MessageId, Shard
from delayline.schedule.terms import Terms


class State(StrEnum):
    """Where a message is. accepted -> pending -> one of the terminal ones."""

    ACCEPTED = "accepted"  # durable in the buffer, not indexed yet
    PENDING = "pending"  # indexed, waiting for its due time
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DEAD = "dead"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"  # another message has replaced it, under the same own id


WAITING = frozenset({State.ACCEPTED, State.PENDING})


@dataclass(frozen=True, slots=True)
class Ending:
    """How a message ended. `lateness_ms` is done minus due, for deliveries."""

    outcome: Outcome
    at_ms: int
    lateness_ms: int | None = None
    reason: str | None = None


class Event(NamedTuple):
    """Something that happened to a message, through whom (`client` or `worker`), and its version from then on."""

    at_ms: int
    what: str
    by: str
    version: int


@dataclass(frozen=True, slots=True)
class Found:
    """A message as its owner knows it. Key, value, headers and terms are there while it is pending; `history` is what
    its owner remembers, oldest first, and not part of lists."""

    id: MessageId
    state: State
    accepted_at_ms: int
    due_ms: int
    version: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    ending: Ending | None = None
    terms: Terms | None = None
    history: tuple[Event, ...] = ()

    @property
    def own_id(self) -> str | None:
        return None if self.terms is None else self.terms.own_id


@dataclass(frozen=True, slots=True)
class Gone:
    """The message was accepted once and is terminal; how it ended is not kept any more."""


LAST_OFFSET = (1 << 63) - 1
LAST_MS = (1 << 63) - 1


class Place(NamedTuple):
    """Where a row is in a list. What waits is in order of its due time: `rank` is that, epoch ms; what has ended
    comes newest first: `rank` is the moment, negative. `offset` is that of the record that carries the message, or of
    its first one where it has ended."""

    rank: int
    shard: Shard
    offset: int


@dataclass(frozen=True, slots=True)
class Query:
    """Messages in one state, with this key or own id if one is given, due from `due_from_ms` on and before
    `due_until_ms`; at most `limit` of them, behind the place `after`."""

    state: State = State.PENDING
    key: bytes | None = None
    due_from_ms: int = 0
    due_until_ms: int = LAST_MS
    after: Place | None = None
    limit: int = 100
    own_id: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A message of a list, without value and headers."""

    place: Place
    found: Found


@dataclass(frozen=True, slots=True)
class Listing:
    """What one process has found in `shards`, in order: everything up to the place `upto` (None: to the end), among
    `looked` messages that wait."""

    shards: tuple[Shard, ...]
    rows: tuple[Row, ...]
    upto: Place | None
    looked: int = 0


@dataclass(frozen=True, slots=True)
class DueQuery:
    """Stretches of due time, in epoch minutes: `number` of them, `width` minutes each, from `start` on."""

    start: int
    width: int
    number: int


@dataclass(frozen=True, slots=True)
class DueCounts:
    """Pending messages of a shard by due time: before the first stretch, in each, behind the last."""

    shard: Shard
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """How a shard stood half a second ago at most. `ready`: it has been read to the end. `stalled` is in a word why
    it cannot go on, `detail` in a sentence, `retry_ms` when it tries again. The other fields mean nothing
    while it is being taken over (`owner_epoch` is 0 then); `next_due_ms` is the lowest due time of what is pending,
    `repeats` how many of it repeat. While it is `paused`, nothing is delivered."""

    shard: Shard
    ready: bool
    stalled: str | None = None
    detail: str = ""
    retry_ms: int = 0
    pending: int = 0
    backlog: int = 0
    next_due_ms: int | None = None
    ingest_lag: int = 0
    owner_epoch: int = 0
    next_offset: int = 0
    low_offset: int = 0
    paused: bool = False
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class Suspected:
    """The one record that was in every commit that failed, `tries` of them since then. `bytes` is what is to be
    delivered of it."""

    message_id: str
    due_ms: int
    bytes: int
    since_ms: int
    tries: int


@dataclass(frozen=True, slots=True)
class StallReport:
    """Why a shard has stalled, and what skipping would do and lose: empty where nothing can be skipped. `offset` is
    where it stands, the log holds `[first, end)`, and the cursor's offsets are 0 where it has none. `record` is the
    beginning of what can be read at `offset`. After a skip, `refused` has the reason why nothing was done. `suspect`
    is the record whose commit keeps failing, and `offset` its own then."""

    shard: Shard
    reason: str | None = None
    detail: str = ""
    offset: int = 0
    first: int = 0
    end: int = 0
    does: str = ""
    loses: str = ""
    record: bytes = b""
    refused: str = ""
    suspect: Suspected | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """What an operator has seen, and wants: the shard has stalled at `offset` with this reason, and shall go on
    behind `through`; where it stalls at its takeover, from `through` on."""

    reason: str
    offset: int
    through: int
    by: str = ""


VERSION_MISMATCH = "version-mismatch"
"""The reason of an operation whose message has another version than it wants."""

OWN_ID, IDEMPOTENCY, IDEMPOTENCY_REUSED = "own-id", "idempotency", "idempotency-reused"
"""Reasons of a duplicate: a pending message has its own id; the same request was accepted before; another one was,
with the same key."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of a record that asked for something. An operation: `applied`, or `unmatched` with the reason.
    A message that wanted a name for itself: `applied`, or `duplicate` of the message `successor`. Of a purge, `count`
    is how many messages it cancelled, as its last owner has counted."""

    outcome: Outcome
    reason: str | None = None
    successor: str | None = None
    count: int = 0


class RequestedNames(NamedTuple):
    """The names that a conditional message asks for."""

    own_id: str | None = None
    idempotency_key: str | None = None


class Held(StrEnum):
    """Who has one of the requested names already."""

    FREE = "free"  # nobody that is known
    REQUEST = "request"  # a request with this idempotency key was accepted
    MESSAGE = "message"  # a pending message has this own id
    REPEAT = "repeat"  # a pending message that repeats has it


class Owners(Protocol):
    """Finds the owner of a message and asks it."""

    def find(self, message_id: MessageId) -> Future[Found | Gone | None]:
        """None: there never was such a message, or it was lost, and that accepted. The future may raise
        OwnerUnavailable."""

    def decided(self, shard: Shard, offset: int) -> Future[Resolution]:
        """The outcome of the record that is there and asks for something, once it is decided. It may never be
        heard of here, so it is to be waited for with a limit."""

    def all_decided(self, shard: Shard, offsets: Sequence[int]) -> Future[list[Resolution]]:
        """The same of many records of a shard, in the order of `offsets`, once all of them are decided."""

    def held(self, shard: Shard, requested: Sequence[RequestedNames]) -> Future[list[Held]]:
        """Who has these names, in the order of `requested`: a message that is refused for its names, or replaces
        another, adds none to those that wait."""

    def page(self, shards: Sequence[Shard], query: Query) -> Future[list[Listing]]:
        """Messages of these shards. One listing per process."""

    def due_counts(self, shards: Sequence[Shard], query: DueQuery) -> Future[list[DueCounts]]:
        """How many messages of these shards are due when. Exact."""

    def stall(self, shard: Shard) -> Future[StallReport]:
        """Why the shard has stalled, and the way out."""

    def skip(self, shard: Shard, skip: Skip) -> Future[StallReport]:
        """Take the way out, if the shard stands as the operator has seen it: asking twice skips once. How it stands
        behind that."""

    def figures(self) -> Future[list[ShardFigures]]:
        """How all shards stand that anybody owns. Cheap: nothing is counted for it."""


class OwnerUnavailable(Exception):
    """No worker owns the message's shard right now, or it did not answer; ask again."""


def merge(listings: Sequence[Listing], limit: int) -> tuple[list[Row], Place | None]:
    """The first `limit` rows of several processes' listings, and the place behind which the list goes on; None at its
    end. Rows behind a place that some process has not looked at wait for the next page."""
    border = min((listing.upto for listing in listings if listing.upto is not None), default=None)
    rows = sorted((row for listing in listings for row in listing.rows), key=lambda row: row.place)
    known = rows if border is None else [row for row in rows if row.place <= border]
    if len(known) > limit:
        return known[:limit], known[limit - 1].place
    return known, border
