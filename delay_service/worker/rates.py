"""How fast a topic's messages leave, where a rule sets `rate_max`: a token bucket per topic, one token a delivery.

Workers know nothing of each other's buckets. One that owns k of a topic's n partitions lets out k/n of its rate, so
that all together keep to it however the shards are shared. A bucket holds the tokens of a second, and is full when
its first shard is taken over: so much may leave at once after a quiet time or a start. What is over waits in the
index.

Tokens are given out in steps of a twentieth of a second: else a limited backlog would make a commit of every message.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from delay_service.worker.owned import Owned
from delayline.records.message import Shard

BURST_S = 1.0
STEP_S = 0.05


@dataclass(slots=True)
class _Bucket:
    """`rate` is this worker's share, per second; `turn` whose turn it is where there are fewer tokens than shards."""

    rate: float
    tokens: float
    filled_s: float
    turn: int = 0

    @property
    def step(self) -> float:
        """Fewer are not given out."""
        return max(1.0, self.rate * STEP_S)

    def fill(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self.tokens = min(max(1.0, rate * BURST_S), self.tokens + rate * (now_s - self.filled_s))
        self.filled_s = now_s

    def share(self, shards: Sequence[Owned]) -> dict[Shard, int]:
        """Equal parts for shards with something due. What one does not take is there the next time."""
        whole = int(self.tokens) if self.tokens >= self.step else 0
        each, rest = divmod(whole, len(shards)) if shards else (0, 0)
        more = {(self.turn + number) % len(shards) for number in range(rest)}
        self.turn += rest
        return {owned.id: each + (number in more) for number, owned in enumerate(shards)}


class Rates:
    """Called from the worker's thread. A round is one batch: `begin`, then for each shard `allowed` and `took`."""

    def __init__(self, is_due: Callable[[Owned], bool]) -> None:
        self._is_due = is_due
        self._buckets: dict[str, _Bucket] = {}  # of limited topics with a shard here
        self._given: dict[Shard, int] = {}

    def begin(self, shards: Collection[Owned], now_s: float) -> None:
        """Fill the buckets of these shards' topics and share out what they hold; buckets of other topics are gone."""
        limited = [owned for owned in shards if _rate_max(owned) is not None]
        before, self._buckets, self._given = self._buckets, {}, {}
        for topic, found in groupby(sorted(limited, key=_topic), _topic):
            group = list(found)
            rate = _part(group)
            bucket = self._buckets[topic] = before.get(topic) or _Bucket(rate, max(1.0, rate * BURST_S), now_s)
            bucket.fill(rate, now_s)
            self._given |= bucket.share([owned for owned in group if self._is_due(owned)])

    def allowed(self, owned: Owned) -> int | None:
        """How many deliveries of the shard may join this round; None: as many as like."""
        is_limited = _rate_max(owned) is not None and not owned.progress.dead_lettering
        return self._given.get(owned.id, 0) if is_limited else None

    def took(self, owned: Owned, allowed: int | None, deliveries: int) -> None:
        """So many did. A commit that fails has used its tokens up all the same: they may have been delivered."""
        if allowed is None:
            return
        self._buckets[owned.id.topic].tokens -= deliveries
        if allowed == 0:  # else the next round decides
            owned.rate.limited = owned.id in self._given

    def wait_s(self, owned: Owned) -> float:
        """How long until the shard's topic has something to give."""
        bucket = self._buckets.get(owned.id.topic) if _rate_max(owned) is not None else None
        return 0.0 if bucket is None else max(0.0, (bucket.step - bucket.tokens) / bucket.rate)


def _topic(owned: Owned) -> str:
    return owned.id.topic


def _rate_max(owned: Owned) -> int | None:
    """Deliveries per second of its whole topic, while it is taken over."""
    return None if owned.core is None else owned.core.rate_max


def _part(shards: Sequence[Owned]) -> float:
    """This worker's part of a topic's rate. It hears of new partitions later than of those it is given."""
    partitions = max(len(shards), *(len(owned.core.partitions) for owned in shards if owned.core is not None))
    return (_rate_max(shards[0]) or 0) * len(shards) / partitions
