"""A commit that keeps failing narrows down: to one shard, and then to one record, which has a name.

A commit fails for all of its shards, whichever is why: a record that the broker has no memory for, or one that takes
longer than a transaction may. So after one that failed

  - half as many shards share the next one; a shard whose commit has failed alone is tried alone, every other time,
    until it goes well, and holds up no other
  - each takes half as much, down to one record. Where that fails again and again, it is the *suspect*: an operator
    sees it, and may have it go to the dead letters (`way_out.py`)

What a broker reports about a single record needs no operator: `mq.errors.DeliveryRefused`.
"""

from collections.abc import Sequence
from typing import Protocol

from delay_service.core.dead import Refusal
from delay_service.core.errors import COMMIT
from delay_service.core.shard import Shard
from delay_service.worker.owned import Owned, Suspect
from delay_service.worker.stalls import COMMIT_UNKNOWN, Stalls
from delayline.buffer.facts import message_id
from delayline.buffer.record import decode_value
from delayline.clock import Clock
from delayline.records.message import Key
from mq.contract import ShardBatch
from mq.errors import CommitAborted, CommitError, CommitUnknown, DeliveryRefused, Fenced, GroupTopicsBound, Refused
from store.index import TimeIndex

SHARE_MIN = 1 / (1 << 20)
"""Of the largest batch that can be configured, a record: nothing goes before the bytes of one do."""
SHARE_GROWS = 1.1
"""Seven commits double it."""


class HalvingObserver(Protocol):
    """Hears that a batch is taken again in halves, and why, and what was found by that."""

    def halved(self, reason: str) -> None:
        """Its commit was `aborted`, its end is `unknown`, or a record of it was `refused`."""

    def group_topic_refused(self, topic: str) -> None:
        """A message from this topic of users has no group's topic to go to, because of the bound on how many are
        made: once for each message."""


class Narrowing:
    """The only writer of `BatchBounds`. Called from the worker's thread."""

    def __init__(self, index: TimeIndex, stalls: Stalls, clock: Clock, observer: HalvingObserver) -> None:
        self._index = index
        self._stalls = stalls
        self._clock = clock
        self._observer = observer
        self._most: int | None = None  # shards of one batch; None: any number
        self._alone_next = False

    # --- who goes together

    def company(self, running: list[Owned], *, last: bool) -> list[Owned]:
        """Those of the shards that may share the next batch, or the one that goes alone."""
        alone = [owned for owned in running if owned.bounds.alone]
        if not alone:
            return running
        others = [owned for owned in running if not owned.bounds.alone]
        self._alone_next = not (self._alone_next or last)
        if others and not self._alone_next:
            return others
        return [min(alone, key=lambda owned: owned.commits.last_commit_s)]

    def is_full(self, batch: Sequence[ShardBatch]) -> bool:
        """Whether no other shard may join it."""
        return self._most is not None and len(batch) >= self._most

    # --- how its commit ended

    def went_well(self) -> None:
        """A commit was written."""
        if self._most is not None:
            self._most = None if self._most > 1 << 10 else 2 * self._most

    def succeeded(self, owned: Owned, core: Shard, *, ends: bool, delivers: bool) -> None:
        """The shard's part of it was: one that `ends` records, or `delivers` some."""
        bounds = owned.bounds
        bounds.take_max = None if bounds.take_max is None or not delivers else 2 * bounds.take_max
        self.grow(owned)
        suspect = bounds.suspect
        if ends or (suspect is not None and self._index.shard(owned.id).get(suspect.key) is None):  # cancelled
            bounds.suspect = None
            bounds.dead_lettered = {key: why for key, why in bounds.dead_lettered.items() if key in core.refusals}
        bounds.alone = bounds.suspect is not None

    def dead_letter(self, owned: Owned, key: Key, why: Refusal) -> None:
        """An operator has this suspect skipped."""
        owned.bounds.dead_lettered[key] = why

    def shrink(self, owned: Owned) -> None:
        """A commit failed, or its end is unknown, perhaps because it took longer than a transaction may: the next one
        is half as large, down to the single record."""
        owned.bounds.share = max(owned.bounds.share / 2, SHARE_MIN)

    def grow(self, owned: Owned) -> None:
        """A commit went well. Slowly, so that where only the size was wrong, few commits fail."""
        owned.bounds.share = min(owned.bounds.share * SHARE_GROWS, 1.0)

    def failed(self, owned: Owned, core: Shard, batch: Sequence[ShardBatch], error: CommitError) -> None:
        """Nothing is guessed: a batch that was not written is taken again, one of unknown fate is read back."""
        if isinstance(error, CommitUnknown | CommitAborted):
            self._narrow(owned, core, batch, "unknown" if isinstance(error, CommitUnknown) else "aborted")
        match error:
            case CommitUnknown():
                self._stalls.lose(owned, COMMIT_UNKNOWN, str(error))
                if not owned.bounds.is_convicted:
                    self._stalls.retry_now(owned)
            case Fenced(shards=shards) if owned.id in shards:
                self._stalls.lose(owned, "fenced", str(error))
            case DeliveryRefused(shard=shard) if owned.id == shard:
                self._refused(owned, core, error)
            case DeliveryRefused(shard=shard, of_record=False) if owned.id.topic == shard.topic:
                core.aborted()
                self._stalls.suspect_target(owned)
            case CommitAborted():
                core.aborted()
                self._stalls.stall(owned, COMMIT, str(error))
            case _:
                core.aborted()

    def _narrow(self, owned: Owned, core: Shard, batch: Sequence[ShardBatch], reason: str) -> None:
        together = len(batch)
        if together > 1:
            self._most = max(1, together // 2)
        else:
            owned.bounds.alone = True
        if _ended(core) > 1 or together > 1:
            self._stalls.begin_anew(owned)
        if _ended(core) > 1:
            self._observer.halved(reason)
        self.shrink(owned)
        key, bounds = _only_key(core), owned.bounds
        if together == 1 and key is not None:
            bounds.suspect = self._suspected(owned, key)
            if bounds.is_convicted and key in bounds.dead_lettered:
                bounds.dead_lettered[key] = bounds.dead_lettered[key]._replace(
                    left_out=True
                )  # not even its dead letter goes through

    def _suspected(self, owned: Owned, key: Key) -> Suspect:
        last = owned.bounds.suspect
        if last is not None and last.key == key:
            return last._replace(tries=last.tries + 1)
        meta, packed = decode_value(self._index.shard(owned.id).get(key) or b"\x00")
        return Suspect(key, message_id(owned.id, key, meta), len(packed), self._clock.now_ms())

    def _refused(self, owned: Owned, core: Shard, error: DeliveryRefused) -> None:
        """One record that cannot be written is found by halving what is taken; alone, it is dead-lettered, without
        its body where its dead letter is what was refused."""
        if not error.of_record:
            core.aborted()
            self._stalls.refuse(owned, error.reason)
            return
        if _ended(core) > 1:
            self._observer.halved("refused")
        owned.bounds.take_max = max(1, _ended(core) // 2)
        code = "refused-by-target" if error.refused is not Refused.APPEND else "refused-by-buffer"
        key = _only_key(core)
        is_new = key is not None and key not in core.refusals  # what is halved or tried again is the same message
        if is_new and isinstance(error.__cause__, GroupTopicsBound):
            self._observer.group_topic_refused(owned.id.topic)
        if not core.refused(code, error.reason, error.refused):
            self._stalls.stall(owned, COMMIT, error.reason)


def _ended(core: Shard) -> int:
    """How many records the batch in flight ends; 0 also for one that only moves the cursor."""
    return len(core.in_flight.ended) if core.in_flight is not None else 0


def _only_key(core: Shard) -> Key | None:
    return core.in_flight.only_key if core.in_flight is not None else None
