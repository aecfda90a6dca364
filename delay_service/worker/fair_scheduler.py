"""Whose turn it is in a dispatch batch, and how much of its room that shard may take up.

A shard is *backlogged* when it took everything that its last turn allowed: more of it is due. Then:

  1. A shard that is not backlogged comes first, and gets at most an equal part of the budget that is left: one of as
  many as there are shards that still want something, the backlogged ones included. So a few due messages are in every
  batch, however many thousands of another shard, or of another topic, are due beside them. Who took least the last
  time is first: what the small ones leave over is there for the larger ones.
  2. The backlogged ones get the rest, everything that is left to the one that has waited longest. A commit at full
  load thus touches few partitions, which is what makes it cheap.

No shard starves. One that is not backlogged takes less than an equal part by definition, so something is left for the
backlogged; of those, one that has had a turn goes behind all the others. Where the budget is less than the shards
need, one that got nothing is before all who got something, for those are backlogged now.

A budget is also time: what costs more than a plain message, such as a repeat, is taken in smaller parts
(`pace.py`).
"""

from collections.abc import Callable, Collection, Iterator
from operator import attrgetter
from typing import NamedTuple

from delay_service.core.pace import Pace
from delay_service.worker.owned import Owned
from mq.contract import ShardBatch


class BatchBudget(NamedTuple):
    """What fits in: so many records, and bytes of what is sent."""

    records: int
    bytes: int

    def part(self, of: int) -> "BatchBudget":
        """One of so many equal parts; of records one at least, which the index gives however large it is."""
        return BatchBudget(max(1, self.records // of), self.bytes // of)

    def scaled(self, share: float) -> "BatchBudget":
        """As much of it; of records one at least."""
        return self if share >= 1.0 else BatchBudget(max(1, int(self.records * share)), int(self.bytes * share))

    def without(self, taken: "BatchBudget") -> "BatchBudget":
        return BatchBudget(self.records - taken.records, self.bytes - taken.bytes)

    def is_filled_by(self, taken: "BatchBudget") -> bool:
        """Whether one more record, of the mean size of those that were taken, would have been too much."""
        records, size = taken
        return self.records <= records or self.bytes * records < size * (records + 1)


class FairScheduler:
    """Called from the worker's thread: `of_batch`, and `took` for each turn that was used before the next one."""

    def __init__(self, is_due: Callable[[Owned], bool], now_s: Callable[[], float]) -> None:
        self._is_due = is_due
        self._now_s = now_s
        self._began_s = 0.0
        self._budget = self._left = BatchBudget(0, 0)
        self._latest = 0  # number of the latest turn

    def of_batch(self, shards: Collection[Owned], budget: BatchBudget) -> Iterator[tuple[Owned, BatchBudget]]:
        """Shards and what they may take at most, while there is room. `shards` have been taken over."""
        self._budget = self._left = budget
        self._began_s = self._now_s()
        backlogged = sorted(
            (owned for owned in shards if owned.turns.backlogged_since), key=attrgetter("turns.backlogged_since")
        )
        others = sorted(
            (owned for owned in shards if not owned.turns.backlogged_since), key=attrgetter("turns.took_part")
        )
        wanting = {owned.id for owned in shards if not owned.held and self._is_due(owned)}
        for owned in others:
            if not self._has_budget:
                return
            yield owned, self._paced(owned, self._left.part(max(1, len(wanting))).scaled(owned.bounds.share))
            wanting.discard(owned.id)
        for owned in backlogged:
            if not self._has_budget:
                return
            yield owned, self._paced(owned, self._left.scaled(owned.bounds.share))

    def _paced(self, owned: Owned, budget: BatchBudget) -> BatchBudget:
        pace = owned.turns.pace
        if pace is None:
            pace = owned.turns.pace = Pace(self._now_s)
        pace.begin()
        return BatchBudget(pace.bound(budget.records, self._now_s() - self._began_s), budget.bytes)

    def took(self, owned: Owned, allowed: BatchBudget, part: ShardBatch | None, *, cut: bool = False) -> None:
        """The shard has taken `part` of what it was `allowed`. What a rate limit or a refusing target kept it from
        taking makes no shard backlogged; `cut`: more was due than fits."""
        self.passed(owned)
        if part is None:  # most of many shards
            return
        taken = _size(part)
        if owned.turns.pace is not None:
            owned.turns.pace.did(max(taken.records - len(part.appends), len(part.appends)))  # a repeat is in both
        self._left = self._left.without(taken)
        self._latest += 1
        owned.turns.backlogged_since = self._latest if cut or allowed.is_filled_by(taken) else 0
        owned.turns.took_part = max(taken.records / self._budget.records, taken.bytes / self._budget.bytes)

    def passed(self, owned: Owned) -> None:
        """The shard wants nothing of this batch."""
        owned.turns.backlogged_since, owned.turns.took_part = 0, 0.0

    @property
    def _has_budget(self) -> bool:
        return min(self._left) > 0


def _size(part: ShardBatch) -> BatchBudget:
    records = len(part.deliveries) + len(part.dead) + len(part.purged) + len(part.appends) + len(part.cross_partition)
    return BatchBudget(records, part.written_bytes)
