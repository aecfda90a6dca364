"""Shards that stop and go on: when they are tried again, and what the log says about them: a line per change and
reason, however many shards there are.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from delay_service.core.errors import COMMIT, ShardStalled
from delay_service.worker.owned import BACKOFF_MAX_S, OUTAGE_BACKOFF_MAX_S, Owned
from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard
from mq.errors import QueueError, QueueUnavailable
from store.errors import StoreDamaged, StoreError

TAKEOVER = "takeover"
COMMIT_UNKNOWN = "commit_unknown"
UNAVAILABLE = "unavailable"
OUT_OF_RANGE = "out_of_range"
"""Reading has ended: what stands next in the log is not there."""

log = logs.get(__name__)


class Stalls:
    """Called from one thread. Lines are gathered until `write`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_success_s = clock.monotonic_s()
        self._stalled: dict[str, dict[Shard, str]] = {}
        self._gone_on: dict[Shard, str] = {}
        self._troubles: set[str] = set()

    # --- when it is tried again

    def success(self) -> None:
        """A commit was written: the queue is there."""
        self._last_success_s = self._clock.monotonic_s()

    def stall(self, owned: Owned, reason: str, detail: str) -> None:
        """Nothing is tried before the backoff is over. Where the queue does not answer, and nothing has gone well
        since the shard stalled, it is not the shard's own trouble: try again soon."""
        if owned.stalled != reason:
            self.stalled(owned.id, reason, detail)
        alone = owned.stalled is not None and owned.stalled_since_s < self._last_success_s
        own = alone or reason not in (UNAVAILABLE, TAKEOVER, COMMIT)
        owned.stall(reason, detail, self._clock.monotonic_s(), BACKOFF_MAX_S if own else OUTAGE_BACKOFF_MAX_S)

    def lose(self, owned: Owned, reason: str, detail: str) -> None:
        """Everything taken from the shard is void."""
        self.stalled(owned.id, reason, detail)
        owned.lose(reason, detail, self._clock.monotonic_s())

    def recover(self, owned: Owned) -> None:
        """What it stalled on went well this time."""
        if owned.stalled is not None:
            self.gone_on(owned.id, owned.stalled)
        owned.recover(read=owned.stalled != OUT_OF_RANGE)

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

    # --- what the log says

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
    return {"topic": shard.topic, "partition": shard.name}
