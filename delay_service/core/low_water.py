"""Low-water marks: rows in the audit that record how far a shard is done. Readers close windows of due time by them.

A mark is written in a commit and is true as of that commit: every record below `next` with a due time before `low` is
terminal, and `pending` records that the shard has read are not. The last one of a shard that goes idle has nothing
pending below the end of its log, so that its readers need no further mark.
"""

from collections.abc import Collection, Sequence

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import encode_low_water
from mq.contract import ShardBatch
from store.index import PlainEntry, ShardIndex

LastMark = tuple[Cursor, int]
"""The cursor of a mark, and what was pending."""


class LowWater:
    """The marks of one shard."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._last_at_ms = 0
        self._last: LastMark | None = None

    def is_time(self, now_ms: int) -> bool:
        """Whether the last mark is old enough for another one, or of a clock that has been set back."""
        return not 0 <= now_ms - self._last_at_ms < self._interval_ms

    def is_news(self, cursor: Cursor, pending: int) -> bool:
        """Whether a mark would differ from the last one: what waits falls due without a change of the cursor."""
        # rule low-news: a reader would never learn that the last pending record has ended.
        return pending > 0 or (cursor, pending) != self._last

    def pending_to_report(
        self, cursor: Cursor, index: ShardIndex, gone: Collection[tuple[int, int]], now_ms: int, *, last: bool
    ) -> int | None:
        """How much is pending as of this commit, which ends `gone`; None where no mark is needed."""
        if not (last or self.is_time(now_ms)):
            return None
        # rule low-pending: what this commit ends would count as pending, or twice as ended.
        pending = index.pending() - len(set(gone))
        return pending if self.is_news(cursor, pending) else None

    def committed(self, cursor: Cursor, pending: int, at_ms: int) -> None:
        """A mark has been committed."""
        self._last_at_ms, self._last = at_ms, (cursor, pending)


def add_mark(batch: ShardBatch, index: ShardIndex, entries: Sequence[PlainEntry], pending: int, at_ms: int) -> None:
    """Below O nothing is pending that is due before D, nor before the first record still indexed. `entries` are
    still there: what the batch ends leaves the index after the commit."""
    cursor = batch.cursor
    first_due_ms = entries[0][0] if entries else index.next_due_ms()
    # rule low-due: a reader would close a window whose messages are still pending.
    low_ms = at_ms if first_due_ms is None else min(first_due_ms, at_ms)
    low_ms = max(low_ms, cursor.delivered_key.due_ms)
    # rule low-offset: above O something may be undecided that the mark would call ended.
    mark = encode_low_water(batch.shard, cursor.owner_epoch, at_ms, cursor.next_offset, low_ms, pending)
    batch.audit.append(mark)
