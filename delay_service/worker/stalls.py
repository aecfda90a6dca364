"""Shards that stop and go on: when they are tried again, and the log lines about them: a line per change and
reason, however many shards there are.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from delay_service.core.errors import COMMIT, ShardStalled
from delay_service.core.shard import Shard as Core
from delay_service.worker.owned import (
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    OUTAGE_BACKOFF_MAX_S,
    Owned,
    Progress,
    ReadState,
)
from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard
from mq.errors import QueueError, QueueUnavailable
from store.errors import StoreDamaged, StoreError

TARGET = "target"
NEAR_FULL = "near_full"
TAKEOVER = "takeover"
COMMIT_UNKNOWN = "commit_unknown"
UNAVAILABLE = "unavailable"
OUT_OF_RANGE = "out_of_range"
"""Reading has ended: what stands next in the log is not there."""

log = logs.get(__name__)


class Stalls:
    """The only writer of `Progress` and `LogReading`. Called from one thread. Lines are gathered until `write`.

    A target that has taken nothing for `stall_max_s` has what is due dead-lettered; 0: never."""

    def __init__(self, clock: Clock, stall_max_s: float) -> None:
        self._clock = clock
        self._stall_max_s = stall_max_s
        self._last_success_s = clock.monotonic_s()
        self._stalled: dict[str, dict[Shard, str]] = {}
        self._gone_on: dict[Shard, str] = {}
        self._troubles: set[str] = set()

    # --- when it is tried again

    def success(self) -> None:
        """A commit was written: the queue is there."""
        self._last_success_s = self._clock.monotonic_s()

    def start(self, owned: Owned, core: Core) -> None:
        """waiting -> running, once `recover` has followed."""
        owned.progress.core = core

    def stall(self, owned: Owned, reason: str, detail: str) -> None:
        """running, stalled -> stalled; waiting -> waiting. Nothing is tried before the backoff is over. Where the
        queue does not answer, and nothing has gone well since the shard stalled, it is not the shard's own trouble:
        try again soon."""
        progress = owned.progress
        if progress.stalled != reason:
            self.stalled(owned.id, reason, detail)
        alone = progress.stalled is not None and progress.stalled_since_s < self._last_success_s
        own = alone or reason not in (UNAVAILABLE, TAKEOVER, COMMIT)
        self._back_off(progress, reason, detail, BACKOFF_MAX_S if own else OUTAGE_BACKOFF_MAX_S)

    def _back_off(self, progress: Progress, reason: str, detail: str, backoff_max_s: float = BACKOFF_MAX_S) -> None:
        now_s = self._clock.monotonic_s()
        if progress.stalled != reason:
            progress.stalled_since_s = now_s
        progress.stalled, progress.detail = reason, detail
        progress.backoff_s = min(progress.backoff_s, backoff_max_s)
        progress.retry_at_s = now_s + progress.backoff_s
        progress.backoff_s = min(progress.backoff_s * 2, backoff_max_s)

    def lose(self, owned: Owned, reason: str, detail: str) -> None:
        """running, stalled -> waiting: everything taken from the shard is void, it must be taken over anew."""
        self.stalled(owned.id, reason, detail)
        self.void(owned, reason, detail)

    def void(self, owned: Owned, reason: str, detail: str) -> None:
        """The same without a line of its own, where an operator waits for the answer."""
        owned.progress.core = None
        self.read_on(owned)
        self._back_off(owned.progress, reason, detail)

    def recover(self, owned: Owned) -> None:
        """stalled -> running: what it stalled on went well this time. One that has stalled because of its log has not
        read yet: the distance of its tries still grows."""
        progress, was = owned.progress, owned.progress.stalled
        if was is not None:
            self.gone_on(owned.id, was)
        progress.stalled, progress.retry_at_s = None, 0.0
        progress.backoff_s = progress.backoff_s if was == OUT_OF_RANGE else BACKOFF_FIRST_S
        progress.refused_since_s = None
        progress.detail = progress.detail if owned.reading.stalled else ""

    def retry_now(self, owned: Owned) -> None:
        """The next try is due."""
        owned.progress.retry_at_s = self._clock.monotonic_s()

    def retry_at_once(self, owned: Owned) -> None:
        """An operator waits for it."""
        owned.progress.retry_at_s = 0.0

    def begin_anew(self, owned: Owned) -> None:
        """Another batch is tried next, not the same one again."""
        owned.progress.backoff_s = BACKOFF_FIRST_S

    # --- a target that refuses

    def suspect_target(self, owned: Owned) -> None:
        """The target, or another partition of it, has refused: it is looked at before the next delivery."""
        if owned.progress.refused_since_s is None:
            owned.progress.refused_since_s = self._clock.monotonic_s()

    def refuse(self, owned: Owned, reason: str) -> None:
        """The target takes nothing: wait, or dead-letter what is due where it has been so for too long."""
        now_s = self._clock.monotonic_s()
        self.suspect_target(owned)
        self.stall(owned, TARGET, reason)
        owned.progress.dead_lettering = 0 < self._stall_max_s <= now_s - (owned.progress.refused_since_s or 0.0)

    def dead_lettered(self, owned: Owned) -> None:
        """A batch was committed, with what was to be dead-lettered."""
        owned.progress.dead_lettering = False

    # --- reading

    def stop_reading(self, owned: Owned, reason: str, detail: str, *, backs_off: bool) -> None:
        """any -> stopped: what is indexed is still delivered."""
        reading, now_s = owned.reading, self._clock.monotonic_s()
        reading.state, reading.stalled, owned.progress.detail = ReadState.STOPPED, reason, detail
        reading.retry_at_s = now_s + reading.backoff_s if backs_off else now_s
        reading.backoff_s = min(reading.backoff_s * 2, BACKOFF_MAX_S)

    def fill(self, owned: Owned) -> None:
        """reading, retrying -> full."""
        owned.reading.state, owned.reading.stalled = ReadState.FULL, NEAR_FULL

    def resume_reading(self, owned: Owned) -> None:
        """full, fetch-paused -> reading; stopped -> retrying."""
        reading = owned.reading
        is_stopped = reading.state is ReadState.STOPPED
        reading.state = ReadState.RETRYING if is_stopped else ReadState.READING
        reading.stalled = reading.stalled if is_stopped else None

    def read_on(self, owned: Owned) -> None:
        """What stood next has been read, or is read anew. full, stopped -> fetch-paused; retrying -> reading."""
        reading = owned.reading
        reading.state = ReadState.FETCH_PAUSED if reading.is_fetch_paused else ReadState.READING
        reading.stalled, reading.backoff_s, reading.retry_at_s = None, BACKOFF_FIRST_S, 0.0

    def skip(self, owned: Owned) -> None:
        """The same, because an operator had it skipped: there is nothing to report any more."""
        self.read_on(owned)
        owned.progress.detail = ""

    @contextmanager
    def stalling(self, owned: Owned) -> Iterator[None]:
        """What the outside may answer to a takeover stalls the shard, with the reason."""
        try:
            yield
        except ShardStalled as error:
            self.stall(owned, error.reason, str(error))
        except UnknownFormat as error:
            self.stall(owned, "unknown_format", str(error))
        except StoreDamaged:
            raise  # the process ends, and the index is rebuilt by the next one
        except QueueUnavailable as error:
            self.stall(owned, UNAVAILABLE, str(error))
        except (QueueError, StoreError) as error:
            self.stall(owned, TAKEOVER, str(error))

    # --- log lines

    def stalled(self, shard: Shard, reason: str, detail: str) -> None:
        self._gone_on.pop(shard, None)
        self._stalled.setdefault(reason, {})[shard] = detail

    def gone_on(self, shard: Shard, reason: str) -> None:
        """It was stalled for `reason`, and is not any more. What was not written yet is not worth a line."""
        if self._stalled.get(reason, {}).pop(shard, None) is None:
            self._gone_on[shard] = reason

    def trouble(self, what: str, detail: str) -> None:
        """Something that concerns all shards goes wrong: a line, and no other before it has gone well again."""
        if what not in self._troubles:
            self._troubles.add(what)
            log.warning(what, detail=detail)

    def well(self, what: str) -> None:
        """It goes well."""
        if what in self._troubles:
            self._troubles.remove(what)
            log.info(f"{what}: over")

    def write(self) -> None:
        """A line for every reason for which shards have stalled, and one for those that go on."""
        for reason, shards in self._stalled.items():
            if shards:
                log.warning("shards stalled", reason=reason, shards=len(shards), **_first(shards))
        if self._gone_on:
            log.info("shards go on", shards=len(self._gone_on), first=".".join(next(iter(self._gone_on))))
        self._stalled, self._gone_on = {}, {}


def _first(shards: Mapping[Shard, str]) -> dict[str, str]:
    shard, detail = next(iter(shards.items()))
    return {"first": ".".join(shard), "detail": detail}


def fields(shard: Shard) -> dict[str, Any]:
    """What log lines call a shard."""
    return {"topic": shard.topic, "partition": shard.partition}
