"""What a worker asks its queue without hurry, in a thread of its own, so that no message that is due waits for the
answer: trims, whether a buffer topic is still the same, and whether a target that has refused would take something
again.
"""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from delay_service.worker.owned import LookedAfter, Owned
from delayline.buffer.cursor import Cursor
from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard as ShardId
from mq.contract import Admin
from mq.errors import QueueError, TopicUnknown

log = logs.get(__name__)


class BufferMaintenance:
    """Called from the worker's thread; never blocks it. One question per shard and kind is under way at most.

    What the reconcile job has not read is not trimmed for `hold_max_ms` after its last report of how far it is."""

    def __init__(self, admin: Admin, wake: Callable[[], None], clock: Clock, hold_max_ms: int) -> None:
        self._admin = admin
        self._wake = wake
        self._clock = clock
        self._hold_max_ms = hold_max_ms
        self._puzzled: set[ShardId] = set()
        self.executor: Executor = ThreadPoolExecutor(1, thread_name_prefix="attend")

    def close(self) -> None:
        """What has not begun is left out: the next owner does the same again."""
        self.executor.shutdown(cancel_futures=True)

    # --- the buffer

    def look_after(self, owned: Owned, cursor: Cursor) -> LookedAfter | None:
        """Have the shard's buffer trimmed up to its committed low offset. Returns what was found the last time, where
        there is an answer since."""
        if owned.queue.tending is None:
            owned.queue.tending = self.executor.submit(self._look_after, owned.id, cursor, owned.queue.looked_after)
            return None
        if not owned.queue.tending.done():
            return None
        found, owned.queue.tending = owned.queue.tending.result(), None
        if found is not None:
            owned.queue.looked_after = found
        return found

    def _look_after(self, shard: ShardId, cursor: Cursor, last: LookedAfter | None) -> LookedAfter | None:
        """In its own thread. Another topic of the same name is never trimmed; one that is gone has no
        identity."""
        low_offset = cursor.low_offset
        try:
            buffer = self._admin.buffer(shard)
            partitions, topic_id = buffer.partitions, buffer.topic_id
            if topic_id != cursor.topic_id:
                return LookedAfter(topic_id, partitions, low_offset, None, 0)
            trimmed = last.trimmed_to if last else 0
            if low_offset > trimmed:
                until = self._read_by_audit(shard, low_offset)
                if until > trimmed:
                    self._admin.trim(shard, until)
                    trimmed = until
            if last is not None and last.low_offset == low_offset and last.appended_at_ms is not None:
                return last._replace(partitions=partitions, trimmed_to=trimmed)
            appended_at_ms = self._admin.appended_at_ms(shard, low_offset)
            kept_s = self._admin.kept_s(shard)
            return LookedAfter(topic_id, partitions, low_offset, appended_at_ms, trimmed, kept_s)
        except TopicUnknown:
            return LookedAfter(b"", (), low_offset, None, 0)
        except QueueError as error:
            log.debug("buffer not looked after", topic=shard.topic, partition=shard.partition, detail=str(error))
            return None

    def _read_by_audit(self, shard: ShardId, low_offset: int) -> int:
        """What of it the reconcile job has read, or has had the time to. A position of a time far from now, before or
        behind, keeps nothing: who has left it there does not run any more, or has another clock."""
        if self._hold_max_ms == 0:
            return low_offset
        try:
            audited = self._admin.audited(shard)
        except (UnknownFormat, QueueError) as error:
            self._wonder(shard, error)
            if isinstance(error, QueueError):
                raise
            return low_offset
        self._puzzled.discard(shard)
        if audited is None or abs(self._clock.now_ms() - audited.at_ms) >= self._hold_max_ms:
            return low_offset
        return min(low_offset, audited.offset)

    def _wonder(self, shard: ShardId, error: Exception) -> None:
        """Once, until it goes well again. Who cannot be asked keeps the buffer as it is; what cannot be read keeps
        nothing."""
        if shard not in self._puzzled:
            self._puzzled.add(shard)
            log.warning(
                "how far the reconcile job has read is not known",
                topic=shard.topic,
                partition=shard.partition,
                trimmed=isinstance(error, UnknownFormat),
                detail=str(error),
            )

    # --- the target

    def takes_again(self, owned: Owned) -> str | None:
        """What is wrong with the target of a shard that it has refused; "" where nothing shows, and None where there
        is no answer yet (the worker is woken by it). Finding out by a delivery would cost every shard a commit that
        fails, which takes up to the transaction's timeout."""
        if owned.queue.looking is None:
            owned.queue.looking = self.executor.submit(self._admin.target_trouble, owned.id)
            owned.queue.looking.add_done_callback(lambda _: self._wake())
            return None
        if not owned.queue.looking.done():
            return None
        looking, owned.queue.looking = owned.queue.looking, None
        try:
            return looking.result() or ""
        except QueueError as error:
            return str(error)
