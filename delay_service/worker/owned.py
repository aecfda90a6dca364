"""What a worker knows about a shard that was assigned to it.

Dispatch (`State`) and reading (`ReadState`) stall apart: each goes on without the other. A third reason to wait is
`skewed`: the clocks of this machine and of the broker are too far apart to know what is due.

Every stall has a reason (a metric label), a sentence for the log, and a next try with growing distance. While the
queue cannot be reached the distance stays small, so that work goes on soon after it is back.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from delay_service.core.dead import Refusal
from delay_service.core.errors import COMMIT
from delay_service.core.pace import Pace
from delay_service.core.roller import Roller
from delay_service.core.shard import Shard
from delay_service.core.takeover import Accepted
from delayline.records.message import Key
from delayline.records.message import Shard as ShardId
from mq.clock_offset import ClockOffset
from store.index import Buckets, ShardIndex

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
OUTAGE_BACKOFF_MAX_S = 4.0
BACKLOG_COUNTED_MAX = 1000
"""Of the running minute; what has been due for longer is counted by the minute, and all of it."""

CLOCK_SKEW = "clock_skew"
_MINUTE_MS = 60_000
_BEHIND_ALL = (1 << 63) - 1


SUSPECTED_MIN = 3
"""A record whose commits have failed so often, each of it alone, is shown as what its shard stands at."""


class Suspect(NamedTuple):
    """The only record of a commit that failed, and how often; since when (epoch ms)."""

    key: Key
    message_id: str
    bytes: int
    since_ms: int
    tries: int = 1


class LookedAfter(NamedTuple):
    """What was found of a shard's buffer: its topic's identity and partitions, the low offset and when the record
    there was appended, None where there is none; up to where it was trimmed: not up to the low offset while the
    reconcile job has not read what lies before; and for how long the queue keeps records at most, None where that has
    no end."""

    topic_id: bytes
    partitions: Sequence[str]
    low_offset: int
    appended_at_ms: int | None
    trimmed_to: int
    kept_s: float | None = None

    @property
    def held(self) -> int:
        """Offsets that only the reconcile job needs."""
        return max(0, self.low_offset - self.trimmed_to)


class State(Enum):
    """How an assigned shard stands. Revoked or lost, it leaves in any of them."""

    WAITING = "waiting"  # assigned -> waiting: takeover is tried at `retry_at_s`; reason in `stalled`
    RUNNING = "running"  # waiting -> running: taken over; stalled -> running: what it stalled on went well
    STALLED = "stalled"  # running -> stalled: due records wait until `retry_at_s`; running, stalled -> waiting: lost


class ReadState(Enum):
    """Whether the log of a running shard is read."""

    READING = "reading"  # fetch-paused -> reading: resumed; retrying -> reading: what stood next has been read
    FULL = "full"  # reading, retrying -> full: near-due records fill their share of memory, and the fetch is paused
    STOPPED = "stopped"  # any -> stopped: what stands next cannot be indexed, and the fetch is paused
    RETRYING = "retrying"  # stopped -> retrying: the fetch is resumed, and what stands next is not read yet
    FETCH_PAUSED = "fetch-paused"  # full, stopped -> fetch-paused: nothing speaks against reading; not resumed yet


@dataclass(slots=True)
class Progress:
    """What `Stalls` writes: the running core, and why and until when dispatch waits."""

    core: Shard | None = None
    stalled: str | None = None
    detail: str = ""  # also of reading
    stalled_since_s: float = 0.0
    backoff_s: float = BACKOFF_FIRST_S
    retry_at_s: float = 0.0
    refused_since_s: float | None = None  # since when the target has taken nothing, or may have
    dead_lettering: bool = False  # the next batch goes to the dead letters

    @property
    def state(self) -> State:
        if self.core is None:
            return State.WAITING
        return State.RUNNING if self.stalled is None else State.STALLED


@dataclass(slots=True)
class LogReading:
    """What `Stalls` writes about reading; `stalled` is the reason of FULL, STOPPED and RETRYING."""

    state: ReadState = ReadState.READING
    stalled: str | None = None
    backoff_s: float = BACKOFF_FIRST_S
    retry_at_s: float = 0.0

    @property
    def is_fetch_paused(self) -> bool:
        """Whether the source fetches nothing of it."""
        return self.state not in (ReadState.READING, ReadState.RETRYING)


@dataclass(slots=True)
class CommitTimes:
    """What `Checkpoints` writes."""

    last_commit_s: float = 0.0
    checked_s: float = 0.0  # when it was last asked how far it is


@dataclass(slots=True)
class FairShare:
    """What `FairScheduler` writes."""

    backlogged_since: int = 0  # number of the turn that did not suffice it; 0: the last one did
    took_part: float = 0.0  # what its last turn took up, of a whole batch
    pace: Pace | None = None  # of its turns


@dataclass(slots=True)
class BatchBounds:
    """What `Narrowing` writes."""

    take_max: int | None = None
    share: float = 1.0  # of a whole batch that it takes: commits of more were not heard of in time
    alone: bool = False  # its commit has failed without any other shard in it
    suspect: Suspect | None = None
    dead_lettered: dict[Key, Refusal] = field(default_factory=dict)  # skipped by an operator, not committed yet

    @property
    def is_convicted(self) -> bool:
        """Whether one record is why nothing is delivered, as far as can be seen."""
        return self.suspect is not None and self.suspect.tries >= SUSPECTED_MIN


@dataclass(slots=True)
class QueueAnswers:
    """What `BufferMaintenance` writes: its two questions that may be under way, and the last answer."""

    looking: "Future[str | None] | None" = None  # whether the target would take something again
    tending: "Future[LookedAfter | None] | None" = None
    looked_after: LookedAfter | None = None


@dataclass(slots=True)
class Upkeep:
    """What `ShardMaintenance` writes; the roller keeps its own place."""

    clock: ClockOffset | None = None
    skewed: bool = False
    roller: Roller = field(default_factory=Roller)


@dataclass(slots=True)
class RateLimit:
    """What `Rates` writes."""

    limited: bool = False  # messages that are due wait for their topic's rate


@dataclass(slots=True)
class OperatorWord:
    """What `Skipper` writes."""

    accepted: Accepted | None = None  # what an operator has ordered for the next takeover


@dataclass(frozen=True, slots=True, eq=False)
class Owned:
    """One assigned shard: a record for each class that writes about it, and no other class does. Times are monotonic
    seconds."""

    id: ShardId
    progress: Progress = field(default_factory=Progress)
    reading: LogReading = field(default_factory=LogReading)
    commits: CommitTimes = field(default_factory=CommitTimes)
    turns: FairShare = field(default_factory=FairShare)
    bounds: BatchBounds = field(default_factory=BatchBounds)
    queue: QueueAnswers = field(default_factory=QueueAnswers)
    upkeep: Upkeep = field(default_factory=Upkeep)
    rate: RateLimit = field(default_factory=RateLimit)
    operator: OperatorWord = field(default_factory=OperatorWord)

    @property
    def core(self) -> Shard | None:
        """The shard itself, while it is taken over."""
        return self.progress.core

    def ready(self, now_s: float) -> bool:
        """Whether nothing is waited for before the next try."""
        return self.progress.retry_at_s <= now_s

    @property
    def held(self) -> bool:
        """Whether dispatch waits for something that is not a moment: its clock, a look at its target, a resume."""
        core = self.progress.core
        return self.upkeep.skewed or self.queue.looking is not None or (core is not None and core.cursor.paused)

    @property
    def reason(self) -> str | None:
        """Why it stands still, in one word."""
        if self.bounds.is_convicted:
            return COMMIT
        return self.progress.stalled or self.reading.stalled or (CLOCK_SKEW if self.upkeep.skewed else None)


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """A shard as metrics and health checks see it. `repeats` are the pending messages that repeat; `backlog` are
    messages that are due and not delivered, of the running minute at most BACKLOG_COUNTED_MAX; `low_appended_at_ms`
    is when the record at `low_offset` was appended; `retry_s` how long until a stalled shard tries again;
    `rate_limited` that what is due waits for its topic's rate; `paused` that nothing is delivered before
    an operator resumes the topic; `held` are offsets below `low_offset` that are kept for the reconcile job; `kept_s`
    is for how long the queue keeps records of the buffer at most, None where that has no end."""

    id: ShardId
    ready: bool
    stalled: str | None
    detail: str
    pending: int = 0
    ingest_lag: int = 0
    oldest_due_ms: int | None = None
    owner_epoch: int = 0
    next_offset: int = 0
    low_offset: int = 0
    backlog: int = 0
    low_appended_at_ms: int | None = None
    clock: ClockOffset | None = None
    retry_s: float = 0.0
    rate_limited: bool = False
    paused: bool = False
    held: int = 0
    repeats: int = 0
    kept_s: float | None = None


def backlog(index: ShardIndex, now_ms: int) -> int:
    """Pending records that are due; see `ShardStatus`."""
    first_ms = index.next_due_ms()
    if first_ms is None or first_ms > now_ms:
        return 0
    minute = now_ms // _MINUTE_MS
    passed = 0
    if first_ms // _MINUTE_MS < minute:
        passed, _ = index.histogram(Buckets(minute, 1, 0))
    return passed + _due_in(index, Key(max(first_ms, minute * _MINUTE_MS) - 1, _BEHIND_ALL), now_ms)


def _due_in(index: ShardIndex, after: Key, now_ms: int) -> int:
    """Records above `after` that are due, counted in portions: mostly few of many that wait are."""
    counted, portion = 0, 16
    while counted < BACKLOG_COUNTED_MAX:
        found = index.keys(after, min(portion, BACKLOG_COUNTED_MAX - counted))
        due = sum(key.due_ms <= now_ms for key in found)
        counted += due
        if due < portion:
            break
        after, portion = found[-1], 4 * portion
    return counted
