"""Which pending records to re-append, so that a one-year message does not keep a year of buffer.

The buffer can be trimmed only up to the low offset, which the oldest pending record pins. A record is worth rolling
when the log behind the low offset is mostly dead: longer than `SPAN_MIN` and than four times what is pending. Then
those in the older half are re-appended. Like the cleaning of a log-structured file system (Rosenblum and Ousterhout,
1992), this bounds the log to a multiple of what is alive, and a record is rolled again only after that much traffic:
rolling everything that is merely old would roll for ever.

Records are found by walking the index in due order, a stretch at a time: there is no index by offset.
"""

from dataclasses import dataclass

from delay_service.core.shard import Shard
from delayline.records.message import BEFORE_ALL, Key
from store.index import ShardIndex

SPAN_MIN = 1_000_000
LIVE_SHARE = 4
SCANNED_MAX = 2000
"""Records looked at per call: about 2 ms, twice a second, and only while there is something to gain."""
DUE_AFTER_MS = 3_600_000
"""What is due sooner pins the log for no longer than that. And a record that was rolled is out of the index until it
is read back: where reading is held up, for instance by a full disk, that must not make it late."""


@dataclass(slots=True)
class Roller:
    """One shard's walk. `step` is called now and then."""

    span_min: int = SPAN_MIN
    _after: Key = BEFORE_ALL

    def step(self, core: Shard, index: ShardIndex, now_ms: int) -> None:
        """Look at the next stretch of pending records, and ask `core` to roll those that pin too much."""
        span = core.position - core.cursor.low_offset
        allowed = max(self.span_min, LIVE_SHARE * index.pending())
        if span <= allowed or not core.caught_up:
            self._after = BEFORE_ALL
            return
        keys = index.keys(max(self._after, Key(now_ms + DUE_AFTER_MS, 0)), SCANNED_MAX)
        core.rolls.ask(key for key in keys if key.offset < core.position - allowed // 2)
        self._after = keys[-1] if len(keys) == SCANNED_MAX else BEFORE_ALL
