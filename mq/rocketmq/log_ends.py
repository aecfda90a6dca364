"""Whether brokers still have what they have acknowledged to this process.

A broker loses the end of its log when its machine fails under `ASYNC_FLUSH`, or when a replica that lacks the end
becomes the master. The acknowledged records in it are gone, and the broker keeps no trace of them. A sender notices
the loss by an offset that the broker assigns a second time.
"""

from threading import Lock

from delayline.process import logs
from rocketmq.wire.bodies import Queue

log = logs.get(__name__)


class LogEnds:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: dict[Queue, int] = {}  # bounded by the queues

    def stored(self, queue: Queue, offset: int, records: int = 1) -> None:
        """A batch is stored at this offset. It was sent after the answers to all others of the queue."""
        with self._lock:
            known, self._ends[queue] = self._ends.get(queue, 0), offset + records
        if offset < known:
            log.warning(
                "a broker has lost the end of its log: what it acknowledged last is gone",
                broker=queue.broker,
                topic=queue.topic,
                queue=queue.queue_id,
                records=known - offset,
            )
