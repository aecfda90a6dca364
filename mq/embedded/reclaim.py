"""Give the disk back what was trimmed.

A trim writes a range tombstone; the room comes back when compactions meet it. While the queue is in use they do so by
themselves: one that was trimmed 40 MB behind its end, beside 300 MB of kept records, stayed below 440 MB. After a
large backlog has been delivered and the queue is idle, nothing would come; then the trimmed range is compacted here.
`Rdict.compact_range` lets other threads run.
"""

from concurrent.futures import Future, ThreadPoolExecutor

from rocksdict import CompactOptions, Rdict

Range = tuple[bytes, bytes]


class Reclaimer:
    """At most one compaction at a time, on a thread of its own. Called by one thread."""

    def __init__(self, db: Rdict, bytes_min: int) -> None:
        """`bytes_min` is how much may wait."""
        self._db = db
        self._bytes_min = bytes_min
        self._bytes = 0
        self._ranges: dict[int, Range] = {}
        self._running: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedded-queue-compaction")

    def trimmed(self, partition: int, keys: Range, size: int) -> None:
        """`keys` (begin, behind) of the partition's log are going to be deleted by the write under way."""
        begin, behind = self._ranges.get(partition, keys)
        self._ranges[partition] = min(begin, keys[0]), max(behind, keys[1])
        self._bytes += size

    def deleted(self, topic: int, keys: Range) -> None:
        """A whole topic goes with the write under way: its room is given back as soon as no compaction runs."""
        self.trimmed(topic, keys, self._bytes_min)

    def written(self) -> None:
        """The write is done: compact, where enough has come together. Raises what the last compaction raised."""
        if self._bytes < self._bytes_min or not self._idle():
            return
        ranges, self._ranges, self._bytes = list(self._ranges.values()), {}, 0
        self._running = self._thread.submit(self._compact, ranges)

    def _idle(self) -> bool:
        if self._running is not None and self._running.done():
            self._running.result()
            self._running = None
        return self._running is None

    def _compact(self, ranges: list[Range]) -> None:
        beside_others = CompactOptions()
        beside_others.set_exclusive_manual_compaction(False)
        for begin, behind in ranges:
            self._db.compact_range(begin, behind, beside_others)

    def close(self) -> None:
        """Wait for what is running. (Breaking it off would break RocksDB's own last flush as well.)"""
        self._thread.shutdown()
