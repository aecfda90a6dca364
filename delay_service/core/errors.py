"""Why a shard cannot go on. Each is shown as the shard's `stalled` reason; nothing is guessed.

ShardStalled
├── CursorLost        the buffer holds records that a worker must have owned, and no cursor shows how far
├── BufferRecreated   the cursor belongs to a buffer topic that was deleted; this one is another
└── BufferTruncated   the log starts behind the first record that may still be pending
"""

from delayline.errors import DelaylineError

STORE_FULL, UNKNOWN_FORMAT, UNREADABLE = "store_full", "unknown_format", "unreadable_log"
"""Why reading has stopped, and not the shard: no room; a record of a later version; one that cannot be read."""


COMMIT = "commit"
"""Why nothing is delivered: commits fail."""


class ShardStalled(DelaylineError):
    """The shard stays as it is until an operator removes the cause. `reason` is a metric label."""

    reason = "stalled"


class CursorLost(ShardStalled):
    """Records, but no cursor."""

    reason = "cursor_lost"


class BufferRecreated(ShardStalled):
    """The cursor speaks of another topic of the same name."""

    reason = "buffer_recreated"


class BufferTruncated(ShardStalled):
    """Records that may still be pending are no longer in the buffer."""

    reason = "buffer_truncated"
