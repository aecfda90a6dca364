"""What a worker asks its queue without hurry, in a thread of its own, so that nobody who is due waits for the answer:
trims, whether a buffer topic is still the same, and whether a target that has refused would take something again.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from delay_service.owned import LookedAfter, Owned
from delayline import logs
from delayline.cursor import Cursor
from delayline.message import Shard as ShardId
from mq.contract import Admin
from mq.errors import QueueError, TopicUnknown

log = logs.get(__name__)


class Attendant:
    """Called from the worker's thread; never blocks it. One question per shard and kind is under way at most."""

    def __init__(self, admin: Admin, wake: Callable[[], None]) -> None:
        self._admin = admin
        self._wake = wake
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="attend")

    def close(self) -> None:
        """What has not begun is left out: the next owner does the same again."""
        self.executor.shutdown(cancel_futures=True)

    # --- the buffer

    def look_after(self, owned: Owned, cursor: Cursor) -> LookedAfter | None:
        """Have the shard's buffer trimmed up to its committed low offset. Returns what was found the last time, where
        there is an answer since."""
        if owned.tending is None:
            owned.tending = self.executor.submit(self._look_after, owned.id, cursor, owned.looked_after)
            return None
        if not owned.tending.done():
            return None
        found, owned.tending = owned.tending.result(), None
        if found is not None:
            owned.looked_after = found
        return found

    def _look_after(self, shard: ShardId, cursor: Cursor, last: LookedAfter | None) -> LookedAfter | None:
        """In the attendant's thread. Another topic of the same name is never trimmed; one that is gone has no
        identity."""
        low_offset = cursor.low_offset
        try:
            _, partitions, topic_id = self._admin.buffer(shard)
            if topic_id != cursor.topic_id:
                return LookedAfter(topic_id, partitions, low_offset, None)
            if last is not None and last.low_offset == low_offset and last.appended_at_ms is not None:
                return last._replace(partitions=partitions)
            if low_offset > (last.low_offset if last else 0):
                self._admin.trim(shard, low_offset)
            return LookedAfter(topic_id, partitions, low_offset, self._admin.appended_at_ms(shard, low_offset))
        except TopicUnknown:
            return LookedAfter(b"", (), low_offset, None)
        except QueueError as error:
            log.debug("buffer not looked after", topic=shard.topic, partition=shard.name, detail=str(error))
            return None

    # --- the target

    def takes_again(self, owned: Owned) -> str | None:
        """What is wrong with the target of a shard that it has refused; "" where nothing shows, and None where there
        is no answer yet (the worker is woken by it). Finding out by a delivery would cost every shard a commit that
        fails, which takes up to the transaction's timeout."""
        if owned.looking is None:
            owned.looking = self.executor.submit(self._admin.target_trouble, owned.id)
            owned.looking.add_done_callback(lambda _: self._wake())
            return None
        if not owned.looking.done():
            return None
        looking, owned.looking = owned.looking, None
        try:
            return looking.result() or ""
        except QueueError as error:
            return str(error)
