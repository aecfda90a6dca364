"""The order in which a worker takes over a shard, and what it may reuse. Pure decisions; `acquisition` calls.

    1. handover = admin.takeover(shard)      fences the last owner, then reads a cursor that can no longer change
    2. claim(handover, ...) is committed     from here on every commit of an earlier epoch is refused
    3. admin.log_range(shard)                recorded after the claim: whatever an earlier owner wrote lies below it
    4. plan(...)                             reuse the local index, or start empty at the low offset
    5. read to the recorded end, obeying the cursor and names; only then decide and dispatch

Skipping 5 delivers twice (a decision record above the cursor was not obeyed), doing 3 before 2 as well.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from delay_service.core.errors import BufferRecreated, BufferTruncated, CursorLost
from delay_service.core.rules_log import RulesLog
from delayline.buffer.cursor import Cursor
from delayline.errors import UnknownFormat
from mq.contract import Handover
from store.index import Checkpoint, Covered, ShardIndex


class Accepted(NamedTuple):
    """An operator has ordered to go on where a takeover stalls with this reason; without a cursor, at `begin`."""

    reason: str
    begin: int


def claim(handover: Handover, log_range: tuple[int, int], writer: str, accepted: Accepted | None = None) -> Cursor:
    """The cursor of a new owner's first commit: nothing moves but the owner.

    A shard without a cursor has never been owned; that is only believable while its log is whole, and where cursors
    are kept as well. A log that ends before what the cursor has seen is another one.
    What an operator has `accepted` is no reason to stall any more. Raises CursorLost, BufferRecreated.
    """
    reason, begin = accepted or Accepted("", 0)
    log_start, log_end = log_range
    cursor = handover.cursor
    if cursor is None:
        if log_start > 0 and reason != CursorLost.reason:
            raise CursorLost(f"the buffer was trimmed up to {log_start}, but there is no cursor")
        # rule cursor-kept: the whole log would be delivered once more.
        if handover.may_be_lost and log_end > 0 and reason != CursorLost.reason:
            raise CursorLost("what cursors are kept in was made anew: the last one is lost")
        cursor = _beginning(handover.topic_id, begin if reason == CursorLost.reason else 0)
    # rule log-whole: a log that was deleted where it is kept would seem to hold nothing that waits: lost.
    if cursor.topic_id != handover.topic_id or cursor.next_offset > log_end:
        if reason != BufferRecreated.reason:
            other = cursor.topic_id != handover.topic_id
            shorter = f"the log ends at {log_end}, and the cursor has seen it up to {cursor.next_offset}"
            raise BufferRecreated("the cursor belongs to an earlier buffer topic of this name" if other else shorter)
        new = _beginning(handover.topic_id, log_start)
        cursor = replace(new, owner_epoch=cursor.owner_epoch, paused=cursor.paused)
    if reason == BufferTruncated.reason and log_start > cursor.low_offset:
        cursor = replace(cursor, low_offset=log_start, next_offset=max(cursor.next_offset, log_start))
    # rule epoch: commits of the last owner would still be accepted, or a skip forgotten: delivered twice.
    return replace(cursor, owner_epoch=cursor.owner_epoch + 1, writer=writer)


def _beginning(topic_id: bytes, offset: int) -> Cursor:
    return Cursor(topic_id=topic_id, next_offset=offset, low_offset=offset)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to bring the index up to date: from `resume_offset` to `read_to`, on top of what is reused. `run` is the
    log's."""

    cursor: Cursor
    reuse: bool
    resume_offset: int
    read_to: int
    rules: RulesLog
    run: bytes = b""


def log_id(cursor: Cursor, run: bytes) -> bytes:
    """What an index belongs to: the buffer topic, and the run of its log."""
    return cursor.topic_id + run


def plan(cursor: Cursor, log_range: tuple[int, int], checkpoint: Checkpoint | None, run: bytes = b"") -> Plan:
    """Decide what the claimed `cursor` and the index's own `checkpoint` allow. Raises BufferTruncated.

    The local index is reused if it speaks of this very topic, in this run of its log, and its checkpoint lies between
    the low offset (below it, records it lacks may be gone from the log) and the cursor's next offset (above it, it
    would know more than the queue does: a restored backup). One that reaches behind an offset that was skipped may
    hold what stood there.
    """
    log_start, log_end = log_range
    if log_start > cursor.low_offset:
        raise BufferTruncated(f"the log starts at {log_start}, records may be pending from {cursor.low_offset} on")
    usable = (
        checkpoint is not None
        # rule reuse-topic: an index of an earlier topic of this name knows other records: lost, or delivered again.
        # One of an earlier run has let go of what a commit ended that the broker may have lost since: lost.
        and checkpoint.topic_id == log_id(cursor, run)
        # rule reuse-low: below L, records that the index lacks may be gone from the log: lost.
        and cursor.low_offset <= checkpoint.offset <= min(cursor.next_offset, log_end)
        and all(checkpoint.offset <= start for start, _ in cursor.skipped)
    )
    if checkpoint is not None and usable:
        with suppress(UnknownFormat):  # another version's index: it is a cache, and is made anew
            # rule reuse-from: records and rules between the checkpoint and O would be missed: lost, or at a wrong
            # time.
            return Plan(cursor, True, checkpoint.offset, log_end, RulesLog.decode(checkpoint.state), run)
    return Plan(cursor, False, cursor.low_offset, log_end, RulesLog(cursor.low_offset, cursor.rules), run)


def preparing(index: ShardIndex, plan: Plan) -> Iterator[None]:
    """Leave in the index exactly the records below the resume offset that the cursor does not end, in steps of a few
    milliseconds. Raises StoreFull."""
    if not plan.reuse:
        index.reset()
        return
    cursor = plan.cursor
    # rule reuse-covered: the index would keep what the cursor has ended meanwhile: delivered twice.
    covered = Covered(cursor.next_offset, cursor.delivered_key)
    yield from index.retaining(cursor.low_offset, plan.resume_offset, covered)


def prepare(index: ShardIndex, plan: Plan) -> None:
    """All steps at once."""
    deque(preparing(index, plan), maxlen=0)
