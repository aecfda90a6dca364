"""What a worker knows about a shard that was assigned to it.

    waiting   assigned, takeover to be tried at `retry_at_s`; `stalled` says why the last try failed
    running   taken over: records are read, due ones dispatched; `stalled` says why dispatch waits, if it does, and
              `reading_stalled` why reading does: each goes on without the other; `skewed` that the clocks of this
              machine and of the broker are too far apart to say what is due

Every stall has a reason (a metric label), a sentence for the log, and a next try with growing distance. While the
queue cannot be reached the distance stays small, so that work goes on soon after it is back.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from delay_service.core.dead import Refusal
from delay_service.core.errors import COMMIT
from delay_service.core.pace import Pace
from delay_service.core.roller import Roller
from delay_service.core.shard import Shard
from delay_service.core.takeover import Accepted
from delayline.records.message import Key
from delayline.records.message import Shard as ShardId
from mq.contract import ClockOffset
from store.index import Buckets, ShardIndex

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
OUTAGE_BACKOFF_MAX_S = 4.0
BACKLOG_COUNTED_MAX = 1000
"""Of the running minute; what has been due for longer is counted by the minute, and all of it."""

SHARE_MIN = 1 / (1 << 20)
"""Of the largest batch that can be configured, a record: nothing goes before the bytes of one do."""
SHARE_GROWS = 1.1
"""Seven commits double it."""

TARGET = "target"
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
    there was appended, None where there is none; and up to where it was trimmed: not up to the low offset while the
    reconcile job has not read what lies before."""

    topic_id: bytes
    partitions: Sequence[str]
    low_offset: int
    appended_at_ms: int | None
    trimmed_to: int

    @property
    def held(self) -> int:
        """Offsets that nobody needs but the reconcile job."""
        return max(0, self.low_offset - self.trimmed_to)


@dataclass(slots=True)
class Owned:
    """One assigned shard. Times are monotonic seconds."""

    id: ShardId
    core: Shard | None = None
    stalled: str | None = None
    detail: str = ""
    stalled_since_s: float = 0.0
    backoff_s: float = BACKOFF_FIRST_S
    retry_at_s: float = 0.0
    reading_stalled: str | None = None
    reading_backoff_s: float = BACKOFF_FIRST_S
    read_at_s: float = 0.0
    paused: bool = False
    last_commit_s: float = 0.0
    checked_s: float = 0.0  # when it was last asked how far it is
    take_max: int | None = None
    share: float = 1.0  # of a whole batch that it takes: commits of more were not heard of in time
    hungry_since: int = 0  # number of the turn that did not suffice it; 0: the last one did (`fair_scheduler.py`)
    took_part: float = 0.0  # what its last turn took up, of a whole batch
    pace: Pace | None = None  # of its turns
    clock: ClockOffset | None = None
    skewed: bool = False
    alone: bool = False  # its commit has failed without any other shard in it
    suspect: Suspect | None = None
    buried: dict[Key, Refusal] = field(default_factory=dict)  # what an operator has skipped, and is not committed
    refused_since_s: float | None = None  # since when the target has taken nothing, or may have
    looking: "Future[str | None] | None" = None  # whether the target would take something again
    burying: bool = False  # the next batch goes to the dead letters
    rate_max: int | None = None  # deliveries per second of its whole topic
    rate_limited: bool = False  # messages that are due wait for that
    tending: "Future[LookedAfter | None] | None" = None
    looked_after: LookedAfter | None = None
    accepted: Accepted | None = None  # what an operator has said of the next takeover
    roller: Roller = field(default_factory=Roller)

    def stall(self, reason: str, detail: str, now_s: float, backoff_max_s: float = BACKOFF_MAX_S) -> None:
        """running, waiting -> the same, but nothing is tried before the backoff is over."""
        if self.stalled != reason:
            self.stalled_since_s = now_s
        self.stalled, self.detail = reason, detail
        self.backoff_s = min(self.backoff_s, backoff_max_s)
        self.retry_at_s = now_s + self.backoff_s
        self.backoff_s = min(self.backoff_s * 2, backoff_max_s)

    def lose(self, reason: str, detail: str, now_s: float) -> None:
        """running -> waiting: what was taken from the shard is void, it must be taken over anew."""
        self.core = None
        self.read_on()
        self.stall(reason, detail, now_s)

    def suspect_target(self, now_s: float) -> None:
        """Another partition of its target has refused: this one is looked at before the next delivery."""
        if self.refused_since_s is None:
            self.refused_since_s = now_s

    def stop_reading(self, reason: str, detail: str, now_s: float, *, backs_off: bool) -> None:
        """running: what is indexed is still delivered."""
        self.paused, self.reading_stalled, self.detail = True, reason, detail
        self.read_at_s = now_s + self.reading_backoff_s if backs_off else now_s
        self.reading_backoff_s = min(self.reading_backoff_s * 2, BACKOFF_MAX_S)

    def read_on(self) -> None:
        """What stood next has been read."""
        self.reading_stalled, self.reading_backoff_s, self.read_at_s = None, BACKOFF_FIRST_S, 0.0

    def recover(self, *, read: bool = True) -> None:
        """What it stalled on went well this time. One that has stalled because of its log has not read yet: the
        distance of its tries still grows."""
        self.stalled, self.retry_at_s = None, 0.0
        self.backoff_s = BACKOFF_FIRST_S if read else self.backoff_s
        self.refused_since_s = None
        self.detail = self.detail if self.reading_stalled else ""

    def shrink(self) -> None:
        """A commit failed, or its end is unknown, perhaps because it took longer than a transaction may: the next one
        is half as large, down to the single record."""
        self.share = max(self.share / 2, SHARE_MIN)

    def grow(self) -> None:
        """A commit went well. Slowly, so that where only the size was wrong, few commits fail."""
        self.share = min(self.share * SHARE_GROWS, 1.0)

    def ready(self, now_s: float) -> bool:
        return self.retry_at_s <= now_s

    @property
    def held(self) -> bool:
        """Whether dispatch waits for something that is not a moment: its clock, a look at its target, a resume."""
        return self.skewed or self.looking is not None or (self.core is not None and self.core.cursor.paused)

    @property
    def reason(self) -> str | None:
        """Why it stands still, in one word."""
        if self.is_convicted:
            return COMMIT
        return self.stalled or self.reading_stalled or (CLOCK_SKEW if self.skewed else None)

    @property
    def is_convicted(self) -> bool:
        """Whether one record is why nothing is delivered, as far as can be seen."""
        return self.suspect is not None and self.suspect.tries >= SUSPECTED_MIN

    def delivered(self) -> None:
        """A commit that ended records went well."""
        self.alone, self.suspect = False, None
        if self.buried and self.core is not None:
            self.buried = {key: why for key, why in self.buried.items() if key in self.core.refusals}


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """A shard as metrics and health checks see it. `repeats` are the pending messages that repeat; `backlog` are
    messages that are due and not delivered, of the running minute at most BACKLOG_COUNTED_MAX; `low_appended_at_ms`
    is when the record at `low_offset` was appended; `retry_s` how long until a stalled shard tries again;
    `rate_limited` that what is due waits for its topic's rate; `dispatch_paused` that nothing is delivered before
    somebody resumes the topic; `held` are offsets below `low_offset` that are kept for the reconcile job."""

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
    dispatch_paused: bool = False
    held: int = 0
    repeats: int = 0


def backlog(index: ShardIndex, now_ms: int) -> int:
    """Pending records that are due; see `ShardStatus`."""
    first_ms = index.next_due_ms()
    if first_ms is None or first_ms > now_ms:
        return 0
    minute = now_ms // _MINUTE_MS
    passed = 0
    if first_ms // _MINUTE_MS < minute:
        passed, _ = index.histogram(Buckets(minute, 1, 0))
    after = Key(max(first_ms, minute * _MINUTE_MS) - 1, _BEHIND_ALL)
    return passed + sum(key.due_ms <= now_ms for key in index.keys(after, BACKLOG_COUNTED_MAX))
