"""Which windows can be judged. Pure.

A window of due times is closed when every shard of its topic reports it: by a low-water mark above its end, or by
having nothing pending at all. What a closed window lacks is missing; what an open one lacks may still come. A
topic with a shard that reports nothing for too long is `stalled`: one alarm, and not a million missing messages.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from reconcile.logic.ledger import HOUR_MS, WINDOW_MS
from reconcile.logic.manifest import Marks
from reconcile.logic.plan import Range

SETTLED_ALWAYS = (1 << 63) - 1
SETTLED_NEVER = 0

WaitsSince = Callable[[int, Range], int | None]
"""When the first record of this part of a shard's buffer was appended (epoch ms); None where it has none."""


class View(NamedTuple):
    """A shard at the end of a run: what the queue holds of it, where its ledger begins, its marks."""

    held: Range
    start: int
    marks: Marks

    @property
    def is_complete(self) -> bool:
        """Everything that it has ever taken is terminal, and the audit that was read records it. A shard that had
        nothing to be read since the first run owes nothing."""
        if self.held.end <= self.start:
            return True
        mark = self.marks.last
        return mark is not None and mark.next >= self.held.end and mark.pending == 0

    def watermark_ms(self, at_ms: int) -> int:
        """Everything due before is terminal; `at_ms` is when the queue was looked at."""
        if self.is_complete:
            return at_ms
        return min(self.marks.last.low_ms, at_ms) if self.marks.last else 0

    @property
    def beyond_marks(self) -> Range:
        """The part of the buffer of which no mark speaks."""
        return Range(max(self.start, self.marks.last.next if self.marks.last else 0), self.held.end)

    @property
    def has_nothing_pending(self) -> bool:
        """Whether all that the last mark speaks of is terminal, and it waits for nothing but what has come since."""
        return self.marks.last is None or self.marks.last.pending == 0

    @property
    def settled_before(self) -> int:
        """An outcome row before this offset of the audit is older than the last mark but one: what its commit
        appended to the buffer has been read."""
        if self.is_complete:
            return SETTLED_ALWAYS
        return self.marks.before.audit_offset if self.marks.before else SETTLED_NEVER


class Closing(NamedTuple):
    """How far a topic is closed. `until_ms` never goes back; `now_ms` does, when a message with a due time in the
    past has just come in and waits."""

    until_ms: int
    now_ms: int
    is_stalled: bool


def close(
    views: Mapping[int, View], before_ms: int, at_ms: int, stalled_after_ms: int, waits_since: WaitsSince
) -> Closing:
    """By shard. `before_ms`: how far the topic was closed; `at_ms`: when the queue was looked at."""
    watermark_ms = min((view.watermark_ms(at_ms) for view in views.values()), default=at_ms)
    now_ms = watermark_ms // WINDOW_MS * WINDOW_MS
    until_ms = max(before_ms, now_ms)
    silent_ms = at_ms - stalled_after_ms
    is_stalled = until_ms < silent_ms and any(
        _is_silent(number, view, silent_ms, at_ms, waits_since) for number, view in views.items()
    )
    return Closing(until_ms, now_ms, is_stalled)


def _is_silent(number: int, view: View, since_ms: int, at_ms: int, waits_since: WaitsSince) -> bool:
    """Whether the shard has had something pending since then, and has not reported what it did with it. Its first
    mark after it was idle comes some time after the first message: that alone is no silence."""
    if view.is_complete or view.watermark_ms(at_ms) >= since_ms:
        return False
    if not view.has_nothing_pending:
        return True
    first_ms = waits_since(number, view.beyond_marks)
    return first_ms is not None and first_ms < since_ms


class Due(NamedTuple):
    """What a run judges of a topic: windows that begin in `[from_ms, until_ms)`, and `again`, which lie before.
    `later`: they cannot be judged now and wait for the next run."""

    from_ms: int
    until_ms: int
    again: list[int]
    later: list[int]


def to_judge(closing: Closing, before_ms: int, touched: Collection[int], rejudge: Collection[int]) -> Due:
    """`touched`: windows that this run has rows of; `rejudge`: those that the last run could not settle."""
    again = sorted({window for window in {*touched, *rejudge} if window < before_ms})
    ready = [window for window in again if window + WINDOW_MS <= closing.now_ms]
    later = [window for window in again if window + WINDOW_MS > closing.now_ms]
    return Due(before_ms, closing.until_ms, ready, later)


def hours_of(due: Mapping[str, Due], known: Iterable[int]) -> list[int]:
    """The hours since the epoch, among those that have rows, in which something is to be judged."""
    again = {window // HOUR_MS for one in due.values() for window in one.again}
    spans = [(one.from_ms // HOUR_MS, one.until_ms) for one in due.values() if one.from_ms < one.until_ms]
    return [
        hour for hour in known if hour in again or any(first <= hour and hour * HOUR_MS < end for first, end in spans)
    ]
