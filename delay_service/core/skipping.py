"""What an operator has a stalled shard pass over, and what is lost by that. Page: docs/howto/stalled-shard.md.

A shard stalls only where going on could lose a message or deliver one twice. The operator who skips it all the same
has seen which, and the commit that does it leaves a dead letter with what could be read, and an outcome row.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from delay_service.core.batch_draft import BatchDraft
from delay_service.core.dead import as_it_came, encode_dead
from delay_service.core.errors import COMMIT, UNKNOWN_FORMAT, UNREADABLE, BufferRecreated, BufferTruncated, CursorLost
from delay_service.core.in_flight import InFlightBatch
from delay_service.core.operations import NOTHING
from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, encode_audit, encode_skipped
from delayline.records.message import Key, Shard
from mq.contract import ShardBatch

SKIPPED = "skipped"
"""Code of the dead letter, and reason in the outcome row."""


class WayOut(NamedTuple):
    """What skipping would do, and what is lost by that."""

    does: str
    loses: str


WAYS_OUT: Mapping[str, WayOut] = {
    UNKNOWN_FORMAT: WayOut(
        "passes over this record, for this owner and all later ones; it becomes a dead letter",
        "what a later version meant by it: a decision that is passed over delivers again what it names, rules give "
        "what stands behind them other due times, the message of a re-append is not delivered",
    ),
    UNREADABLE: WayOut(
        "passes over the offsets up to the one that is named, for this owner and all later ones",
        "the messages in that part: their number is unknown, and their bytes are not copied",
    ),
    COMMIT: WayOut(
        "has the record that no commit goes through with become a dead letter, without what it holds where not even "
        "that goes through; what is due behind it is delivered",
        "the delivery of this record, and what would follow of a message that repeats",
    ),
    CursorLost.reason: WayOut(
        "begins at the offset that is named, as if the shard had never been owned",
        "what waits before it; what stands from there on and has been delivered is delivered again",
    ),
    BufferRecreated.reason: WayOut(
        "takes the buffer topic as it is now for the shard's",
        "what waited in the topic that was deleted",
    ),
    BufferTruncated.reason: WayOut(
        "takes the first record that the log still has for the first that may be pending",
        "the messages that waited before it",
    ),
}
"""By the reason of a stall. What is not here ends by itself, or is repaired at the place that the reason names."""

AT_TAKEOVER = frozenset({CursorLost.reason, BufferRecreated.reason, BufferTruncated.reason})


def skip(
    shard: Shard, cursor: Cursor, where: tuple[int, int], body: bytes, now_ms: int, reason: str
) -> InFlightBatch:
    """The batch that passes over the first offset of `where` up to the last one, and moves nothing else. Its outcome
    row is that of the range, under the dead letter's id: what is there may have ended under another owner."""
    offset, through = where
    row_id = f"{shard.topic}.{shard.partition}.{offset}.{now_ms}"
    why = f"{reason}: an operator has had the offsets {offset} to {through} skipped"
    dead = encode_dead(shard, Key(now_ms, offset), row_id, SKIPPED, why, as_it_came(body))
    # rule skip-row: what ends without an outcome row counts as lost.
    rows = [AuditRow(offset, row_id, now_ms, now_ms, Outcome.DEAD, None, SKIPPED)]
    # rule skip-range: an earlier skip would be forgotten, or a record behind the range would be lost.
    passed = replace(cursor, skipped=(*cursor.skipped, (offset, through + 1)))
    audit = list(encode_audit(shard, cursor.owner_epoch, now_ms, rows))
    # rule skip-audit: the audit would not record which messages an operator gave up.
    audit.append(encode_skipped(shard, cursor.owner_epoch, now_ms, offset, through + 1))
    batch = ShardBatch(shard, passed, audit=audit, dead=[dead])
    return InFlightBatch(batch, [], {}, NOTHING, BatchDraft(rows=rows), now_ms, None)
