"""What a batch takes because it is due, in which order, and what is too late to be delivered.

`Shard.take` fills a batch in this order, as far as its bytes reach:

    1. operations that the log asks for, in log order, in half of the bytes (`operations.py`)
    2. late records that an operation must not pass, and while there are any, nothing of 3
    3. what is due, by (due, offset): expired records first and by themselves, else at most `records_max`, without
       what 1 ends and without conditional messages that are not decided yet
    4. of a paused shard instead of 2 and 3: late records that an operation waits for, which go on in a new record
    5. records that are re-appended so that they no longer pin the log (`rolls.py`)

2 to 4 are here, and only here. A purge under way holds back 2 and 3. `batch_draft.py` decides how each record ends.

A message *expires* instead of being delivered when it is taken more than `late_max` after its due time: after an
outage, or behind more than `rate_max` lets out. Its offset and key end it, as a delivery would.
"""

from collections.abc import Sequence
from typing import NamedTuple

from delay_service.core.batch_draft import BatchDrafter
from delay_service.core.late import LateRecords
from delay_service.core.operations import BEHIND_ALL, DECIDED_MAX, NOTHING, Decided
from delay_service.core.pending_record import PendingRecord
from delay_service.core.weight import fitting, weight
from delayline.buffer.record import is_conditional
from delayline.records.message import Key
from store.index import PlainEntry, ShardIndex

EXPIRED_MAX = 5000
"""Of one commit: an outcome row each."""


class Limits(NamedTuple):
    """Of one batch: what is due at `now_ms`, and expired if it was due before `expired_before_ms`."""

    now_ms: int
    expired_before_ms: int
    records_max: int
    bytes_max: int


class Due(NamedTuple):
    """`entries` end in the batch, as `batch_draft.py` decides; `carried_on` go on in another record each. `cut`:
    something that is due did not fit; `starved`: nothing of it fitted beside what was decided. `bytes_left` of the
    batch, before `entries`."""

    entries: list[PlainEntry]
    carried_on: list[PendingRecord]
    cut: bool
    starved: bool
    bytes_left: int


class DueRecords:
    """Chooses for one shard. It changes nothing but `late`: with what a batch passes and leaves."""

    def __init__(self, index: ShardIndex, late: LateRecords, drafter: BatchDrafter) -> None:
        self._index = index
        self._late = late
        self._drafter = drafter
        self._cut = False

    def select(self, limits: Limits, decided: Decided, delivered_key: Key, *, paused: bool) -> Due:
        """What is due beside what is `decided`. `delivered_key` is D before this batch."""
        self._cut = False
        # rule held: a paused shard would deliver, or deliver what a purge is about to cancel.
        held = paused or decided.purged_to is not None
        entries = [] if held else self._deliverable(limits, decided, delivered_key)
        # rule pause-late: a late record would keep O below a resume: the pause would never end.
        blocking = self._blocking(limits, decided, delivered_key) if paused else []
        starved = self._cut and not entries and bool(decided.bytes)
        # rule pause-dead: an unreadable late record would keep O below a resume, too.
        entries += [(*pending.key, pending.value) for pending in blocking if pending.is_dead]
        carried_on = [pending for pending in blocking if not pending.is_dead]
        bytes_left = limits.bytes_max - sum(weight(pending.value) for pending in blocking)
        return Due(entries, carried_on, self._cut, starved, bytes_left)

    def _deliverable(self, limits: Limits, decided: Decided, delivered_key: Key) -> list[PlainEntry]:
        """Nothing that is decided to end, and no conditional message that waits. Late records that an operation waits
        for come first."""
        undecided = decided.undecided
        if self._late and undecided < BEHIND_ALL and (late := self._late_below(limits, decided, delivered_key)):
            return self._fitting(late[: limits.records_max], limits.bytes_max, decided)
        # rule due: a later moment would deliver early.
        due = take_due(self._index, limits.now_ms, limits.expired_before_ms, limits.records_max, limits.bytes_max)
        due = self._fitting(due, limits.bytes_max, decided)
        if decided is NOTHING or not due:
            return due
        # rule conditional-turn: a message that is not decided yet may turn out to be a duplicate: delivered twice.
        waiting = [
            Key(due_ms, offset) for due_ms, offset, value in due if offset >= undecided and is_conditional(value)
        ]
        # rule op-ends: what an operation ends would be delivered in the same commit.
        skipped = decided.ended.union(waiting)
        entries = [entry for entry in due if entry[:2] not in skipped]
        if entries:
            last = entries[-1][:2]
            # rule conditional-late: D passes the conditional message, and O would, too: lost.
            self._late.add(key for key in waiting if key < last)
        return entries

    def _blocking(self, limits: Limits, decided: Decided, delivered_key: Key) -> list[PendingRecord]:
        """Late records of a paused shard that operations wait for. They cannot be delivered, and without them nothing
        could be cancelled or resumed: they are carried on behind those operations, or dead-lettered if unreadable."""
        if not self._late or decided.undecided == BEHIND_ALL:
            return []
        late = self._late_below(limits, decided, delivered_key)[:DECIDED_MAX]
        late = self._fitting(late, limits.bytes_max, decided)
        return [self._drafter.pending_record(Key(due_ms, offset), value) for due_ms, offset, value in late]

    def _late_below(self, limits: Limits, decided: Decided, delivered_key: Key) -> list[PlainEntry]:
        """Late records below the first operation that waits, up to D, and never one that is not due: the clock may
        have gone back since D."""
        last = min(delivered_key, Key(limits.now_ms, BEHIND_ALL))
        keys = self._late.below(decided.undecided, last, decided.ended)
        values = ((key, self._index.get(key)) for key in keys)
        return [(*key, value) for key, value in values if value is not None]

    def _fitting(self, entries: Sequence[PlainEntry], bytes_max: int, decided: Decided) -> list[PlainEntry]:
        """A record that is larger than every batch goes alone."""
        found = fitting(entries, bytes_max, alone=not decided.bytes)
        self._cut = len(found) < len(entries)
        return found


def take_due(
    index: ShardIndex, now_ms: int, expired_before_ms: int, records_max: int, bytes_max: int
) -> list[PlainEntry]:
    """What is due at `now_ms`, at most `records_max` (0: none). What was due before `expired_before_ms` comes first
    and by itself: it is no delivery, and need not wait for what bounds those."""
    bytes_max = max(0, bytes_max)
    if expired_before_ms > 0 and (expired := index.due(expired_before_ms - 1, EXPIRED_MAX, bytes_max)):
        return expired
    return index.due(now_ms, records_max, bytes_max)
