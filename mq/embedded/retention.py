"""Retention: what was delivered long ago, or is too much, is deleted. Never what waits: workers trim the buffers.

By age, where a partition's entries were appended in the order of the clock (a binary search; where the clock was set
back, what was stamped before goes with its neighbours). By size, over all partitions of a topic, the oldest first, in
steps of a 64th of the limit.
"""

from collections import deque
from collections.abc import Callable
from threading import Event
from typing import NamedTuple

import structlog

from delayline.clock import Clock
from delayline.process import threads
from mq.embedded.queue import EmbeddedQueue
from mq.errors import QueueError
from mq.local.topic import Partition, Topic

log = structlog.get_logger("queue")

STEPS = 64


class Retention(NamedTuple):
    """How long, and how much, a topic keeps; None is for ever. Milliseconds, bytes."""

    age_ms: int | None = None
    bytes_max: int | None = None


class Segment(NamedTuple):
    """Neighbouring entries: when the last one was appended, the offset behind it, and their bytes."""

    at_ms: int
    end: int
    size: int


class Expiry:
    """Finds what is to go, and has it trimmed. Called by one thread. The first time a topic is bounded by size, it is
    read once; later only what is new."""

    def __init__(self, queue: EmbeddedQueue, retention_of: Callable[[str], Retention], clock: Clock) -> None:
        self._queue = queue
        self._retention_of = retention_of
        self._clock = clock
        self._segments: dict[Partition, deque[Segment]] = {}

    def expire(self) -> dict[str, int]:
        """Records deleted, by topic. Raises QueueUnavailable."""
        topics = [topic for topic in self._queue.all_topics() if topic.target is None]
        known = {part for topic in topics for part in topic.partitions}
        self._segments = {part: found for part, found in self._segments.items() if part in known}
        counts = {topic.name: self._expire(topic, self._retention_of(topic.name)) for topic in topics}
        return {name: count for name, count in counts.items() if count}

    def _expire(self, topic: Topic, keep: Retention) -> int:
        lows = {part: part.start for part in topic.partitions}
        if keep.age_ms is not None:
            before_ms = self._clock.now_ms() - keep.age_ms
            lows = {part: self._queue.first_since(part, before_ms) for part in topic.partitions}
        if keep.bytes_max is not None:
            for part, low in self._beyond(topic, keep.bytes_max).items():
                lows[part] = max(low, lows[part])
        return sum(self._queue.drop_below(part, low) for part, low in lows.items())

    def _beyond(self, topic: Topic, bytes_max: int) -> dict[Partition, int]:
        """Where each partition would have to begin for the topic to hold at most so much."""
        step = max(1, bytes_max // STEPS)
        for part in topic.partitions:
            self._measure(part, step)
        total = sum(segment.size for part in topic.partitions for segment in self._segments[part])
        lows = {}
        oldest = sorted((segment, part.number) for part in topic.partitions for segment in self._segments[part])
        for segment, number in oldest:
            if total <= bytes_max:
                break
            total -= segment.size
            lows[topic.partitions[number]] = segment.end
        return lows

    def _measure(self, part: Partition, step: int) -> None:
        """Count what has been appended since the last time, and forget what is gone."""
        segments = self._segments.setdefault(part, deque())
        while segments and segments[0].end <= part.start:
            segments.popleft()
        since = segments[-1].end if segments else part.start
        for at_ms, end, size in self._queue.sizes(part, since):
            last = segments[-1] if segments else None
            if last is not None and last.size + size <= step:
                segments[-1] = Segment(at_ms, end, last.size + size)
            else:
                segments.append(Segment(at_ms, end, size))


class Retainer:
    """A thread that applies the rules every `interval_s`. A context manager."""

    def __init__(self, expiry: Expiry, interval_s: float, deleted: Callable[[str, int], None]) -> None:
        """`deleted` hears of topic and records."""
        self._expiry = expiry
        self._interval_s = interval_s
        self._deleted = deleted
        self._closing = Event()
        self._thread = threads.lasting("retention", self._run, self._closing)

    def __enter__(self) -> "Retainer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            try:
                for topic, records in self._expiry.expire().items():
                    self._deleted(topic, records)
                    log.info("records deleted by retention", topic=topic, records=records)
            except QueueError as error:
                log.warning("retention was not applied", detail=str(error))
