"""What is taken when something is due, and what is too late to be delivered (`late_max` of a topic's rule).

`Shard.take` puts into a batch, in this order and as far as its bytes reach:

    1. operations that the log asks for, in log order, in half of the bytes (`operations.py`)
    2. late records that an operation must not pass, and while there are any, nothing of 3
    3. what is due, by (due, offset): expired records first and by themselves (`take_due`), else at most
       `records_max`, without what 1 ends and without claims whose names are not decided yet
    4. of a paused shard instead of 2 and 3: late records that an operation waits for, which go on in a new record
    5. records that are re-appended so that they no longer pin the log (`Shard.roll`)

A purge under way holds back 2 and 3. `draft.py` says for each record of 2 and 3 how it ends.

A message expires instead of being delivered when it is taken so long after its due time: after an outage, or behind
more than `rate_max` lets out. Its offset and key end it, as a delivery would.
"""

from store.index import PlainEntry, ShardIndex

NEVER_MS = 1 << 62
"""Later than this no message can be."""

EXPIRED_MAX = 5000
"""Of one commit: an outcome row each."""


def take_due(
    index: ShardIndex, now_ms: int, expired_before_ms: int, records_max: int, bytes_max: int
) -> list[PlainEntry]:
    """What is due at `now_ms`, at most `records_max` (0: none). What was due before `expired_before_ms` comes first
    and by itself: it is no delivery, and need not wait for what bounds those."""
    if expired_before_ms > 0 and (late := index.due(expired_before_ms - 1, EXPIRED_MAX, bytes_max)):
        return late
    return index.due(now_ms, records_max, bytes_max)
