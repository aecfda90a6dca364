"""A batch of the worker: which shards have a part in it, how much each may take, and what holds a shard back.

A shard has no part while its clock is skewed, while its target refuses (until maintenance has seen that it takes
records again), and while it has nothing to commit. The others share the batch by `fair_scheduler.py`, within their
topics' rates (`rates.py`) and the bounds that failed commits have set (`narrowing.py`).
"""

from delay_service.core.shard import Shard
from delay_service.worker.buffer_maintenance import BufferMaintenance
from delay_service.worker.checkpoints import Checkpoints
from delay_service.worker.fair_scheduler import BatchBudget, FairScheduler
from delay_service.worker.narrowing import Narrowing
from delay_service.worker.owned import Owned
from delay_service.worker.rates import Rates
from delay_service.worker.settings import WorkerSettings
from delay_service.worker.stalls import Stalls
from delayline.clock import Clock
from delayline.records.message import Key
from mq.contract import ShardBatch, Source
from store.index import TimeIndex

TARGET_REFUSES = "target-refuses"
"""Reason in the dead letters of messages that a target has refused for longer than `stall_max`."""


class Batching:
    """Called from the worker's thread. It decides nothing about single records: `Shard.take` does."""

    def __init__(
        self,
        source: Source,
        index: TimeIndex,
        clock: Clock,
        settings: WorkerSettings,
        buffer_maintenance: BufferMaintenance,
        stalls: Stalls,
        narrowing: Narrowing,
        checkpoints: Checkpoints,
    ) -> None:
        self._source = source
        self._index = index
        self._clock = clock
        self._settings = settings
        self._buffer_maintenance = buffer_maintenance
        self._stalls = stalls
        self._narrowing = narrowing
        self._checkpoints = checkpoints
        self.rates = Rates(self._is_due)
        self._turns = FairScheduler(self._is_due, clock.monotonic_s)

    def take(self, shards: list[Owned], *, last: bool = False) -> list[ShardBatch]:
        """The parts of the next batch; `last` also has those of shards that only report how far they are done."""
        batch: list[ShardBatch] = []
        now_s = self._clock.monotonic_s()
        self.rates.begin(shards, now_s)
        running = [
            owned for owned in shards if owned.core is not None and owned.ready(now_s) and not owned.upkeep.skewed
        ]
        wanting = running if last else [owned for owned in running if self._wants_turn(owned, now_s)]
        running = self._narrowing.company(wanting, last=last)
        budget = BatchBudget(self._settings.batch_records_max, self._settings.batch_bytes_max)
        for owned, allowed in self._turns.of_batch(running, budget):
            if owned.core is None or not self._target_takes(owned):
                continue
            part = self._take_from(owned, owned.core, allowed, now_s, last=last)
            self._turns.took(owned, allowed, part, cut=part is not None and owned.core.cut)
            if part is not None:
                batch.append(part)
                self._checkpoints.commits(owned, now_s)
            if self._narrowing.is_full(batch):
                break
        return batch

    def _wants_turn(self, owned: Owned, now_s: float) -> bool:
        """Whether its part of a batch may be more than nothing. Hot: most of many shards have nothing to commit."""
        assert owned.core is not None, "it is running"
        news = owned.core.has_news or owned.progress.refused_since_s is not None or self._is_due(owned)
        if not (news or self._checkpoints.is_due(owned, now_s)):
            self._turns.passed(owned)
            return False
        return True

    def _take_from(
        self, owned: Owned, core: Shard, allowed: BatchBudget, now_s: float, *, last: bool
    ) -> ShardBatch | None:
        checkpoint = last or self._checkpoints.is_due(owned, now_s)
        if checkpoint and core.caught_up:
            self._checkpoints.asked(owned, now_s)
        deliveries = self.rates.allowed(owned)
        records_max = min(
            bound for bound in (allowed.records, owned.bounds.take_max, deliveries) if bound is not None
        )
        now_ms = self._source.now_ms(owned.id)
        if owned.progress.dead_lettering:
            entries = self._index.shard(owned.id).due(now_ms, records_max, allowed.bytes)
            keys = (Key(due_ms, offset) for due_ms, offset, _ in entries)
            core.dead_letter(keys, TARGET_REFUSES, owned.progress.detail)
        part = core.take(now_ms, records_max, allowed.bytes, checkpoint=checkpoint, last=last)
        self.rates.took(owned, deliveries, len(part.deliveries) if part else 0)
        return part

    def _target_takes(self, owned: Owned) -> bool:
        """Whether a shard whose target has refused may be tried again: looked at first, and never by a delivery."""
        if owned.progress.refused_since_s is None:
            return True
        if owned.queue.looking is None and not self._is_due(owned):
            return True
        trouble = self._buffer_maintenance.takes_again(owned)
        if trouble:
            self._stalls.refuse(owned, trouble)
        return trouble == "" or (trouble is not None and owned.progress.dead_lettering)

    def _is_due(self, owned: Owned) -> bool:
        due_ms = self._index.shard(owned.id).next_due_ms()
        return due_ms is not None and due_ms <= self._source.now_ms(owned.id)
