"""What a worker knows about a shard that was assigned to it.

    waiting   assigned, takeover to be tried at `retry_at_s`; `stalled` says why the last try failed
    running   taken over: records are read, due ones dispatched; `stalled` says why dispatch waits, if it does, and
              `reading_stalled` why reading does: each goes on without the other

Every stall has a reason (a metric label), a sentence for the log, and a next try with growing distance.
"""

from dataclasses import dataclass, field

from delay_service.roller import Roller
from delay_service.shard import Shard
from delayline.message import Shard as ShardId

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0


@dataclass(slots=True)
class Owned:
    """One assigned shard. Times are monotonic seconds."""

    id: ShardId
    core: Shard | None = None
    stalled: str | None = None
    detail: str = ""
    backoff_s: float = BACKOFF_FIRST_S
    retry_at_s: float = 0.0
    reading_stalled: str | None = None
    paused: bool = False
    last_commit_s: float = 0.0
    trimmed_to: int = 0
    take_max: int | None = None
    roller: Roller = field(default_factory=Roller)

    def stall(self, reason: str, detail: str, now_s: float) -> None:
        """running, waiting -> the same, but nothing is tried before the backoff is over."""
        self.stalled, self.detail = reason, detail
        self.retry_at_s = now_s + self.backoff_s
        self.backoff_s = min(self.backoff_s * 2, BACKOFF_MAX_S)

    def lose(self, reason: str, detail: str, now_s: float) -> None:
        """running -> waiting: what was taken from the shard is void, it must be taken over anew."""
        self.core = None
        self.stall(reason, detail, now_s)

    def recover(self) -> None:
        """What it stalled on went well this time."""
        self.stalled, self.backoff_s, self.retry_at_s = None, BACKOFF_FIRST_S, 0.0
        self.detail = self.detail if self.reading_stalled else ""

    def ready(self, now_s: float) -> bool:
        return self.retry_at_s <= now_s


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """A shard as metrics and health checks see it."""

    id: ShardId
    ready: bool
    stalled: str | None
    detail: str
    pending: int
    ingest_lag: int
    oldest_due_ms: int | None
    owner_epoch: int
    next_offset: int
    low_offset: int
