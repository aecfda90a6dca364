"""Whether brokers still have what they have acknowledged to this process.

A broker loses the end of its log when its machine fails behind `ASYNC_FLUSH`, or when a replica becomes the master
that did not have all. What was acknowledged in it is gone, and there is no record of it: who had it acknowledged can
notice, by an offset that is given a second time.
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
        """A batch stands at this offset. It was sent behind the answers to all others of the queue."""
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
