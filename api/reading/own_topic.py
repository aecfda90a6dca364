"""Reading a topic of our own that holds records about all topics: backwards in pages, or a stretch of it.

Everything here blocks and runs in threads. A page is bounded in what is found, in bytes, and in how many records are
passed over for it.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from api.http.problems import INVALID_BODY, INVALID_REQUEST, Refusal, refused
from api.reading.reader import PAGE_BYTES_MAX, Positions
from mq.contract import Admin, Client, LogRecord
from mq.errors import OffsetOutOfRange, PartitionUnknown

LOOKED_MAX = 5000
CHUNK_RECORDS = 64
"""Read at once on the way back. A read goes forward, so that as many are held; the largest have 1 MiB."""


class Sized(Protocol):
    @property
    def size(self) -> int:
        """About as many bytes as it takes."""
        ...


T = TypeVar("T", bound=Sized)

Read = Callable[[str, LogRecord], T | None]
"""What a record of a partition is; None: not one that is wanted."""


class OwnTopic:
    """The records of one topic. Any thread."""

    def __init__(self, client: Client, admin: Admin, topic: str, what: str) -> None:
        """`what` it holds, as errors have it."""
        self._client = client
        self._admin = admin
        self._topic = topic
        self._what = what

    def newest(
        self, before: str | None, limit: int, read: Read[T], since_ms: int = 0
    ) -> tuple[list[T], Positions | None]:
        """The newest first, those that were appended at `since_ms` or later; and the positions before which the list
        goes on, None at its end. Raises Refusal, TopicUnknown, QueueUnavailable."""
        positions = self.positions(before, "?before", 1)
        backwards = [self._backwards(partition, end) for partition, end in positions.items()]
        found: list[T] = []
        size = 0
        newest_first = heapq.merge(*backwards, key=lambda item: -item[1].appended_at_ms)
        for looked, (partition, record) in enumerate(newest_first):
            if record.appended_at_ms < since_ms:
                break
            if len(found) >= limit or looked >= LOOKED_MAX or size >= PAGE_BYTES_MAX:
                return found, positions
            positions[partition] = record.offset
            if (one := read(partition, record)) is not None:
                found.append(one)
                size += one.size
        return found, None

    def _backwards(self, partition: str, end: int) -> Iterator[tuple[str, LogRecord]]:
        first, last = self._client.offsets(self._topic, partition)
        end = min(end, last)
        while end > first:
            start = max(first, end - CHUNK_RECORDS)
            chunk = [record for record in self.stretch(partition, start, end) if record.offset < end]
            yield from ((partition, record) for record in reversed(chunk))
            end = start

    def oldest(self, after: str | None, limit: int, read: Read[T], until_ms: int) -> tuple[list[T], Positions | None]:
        """Those that were appended up to `until_ms`, oldest first in each partition; and the positions from which the
        list goes on, None at its end. Raises Refusal, TopicUnknown, QueueUnavailable."""
        positions = self.positions(after, "/after", 0)
        found: list[T] = []
        looked = size = 0
        for partition, start in positions.items():
            first, end = self._client.offsets(self._topic, partition)
            for record in self.stretch(partition, max(start, first), end):
                if record.appended_at_ms > until_ms:
                    break
                if len(found) >= limit or looked >= LOOKED_MAX or size >= PAGE_BYTES_MAX:
                    return found, positions
                looked += 1
                positions[partition] = record.offset + 1
                if (one := read(partition, record)) is not None:
                    found.append(one)
                    size += one.size
        return found, None

    def stretch(self, partition: str, start: int, end: int) -> Iterator[LogRecord]:
        """Records from `start` on, before `end` and perhaps some behind it. What is gone meanwhile is left out."""
        while start < end:
            try:
                records = self._client.read(self._topic, partition, start, end - start, PAGE_BYTES_MAX)
            except OffsetOutOfRange:
                return
            if not records:
                return
            yield from records
            start = records[-1].offset + 1

    def get(self, record_id: str) -> tuple[str, LogRecord] | None:
        """The record `<partition>.<offset>` with its partition, if it is there."""
        partition, _, offset = record_id.rpartition(".")
        if not partition or not offset.isdecimal() or len(offset) > 18:
            return None
        try:
            records: Sequence[LogRecord] = self._client.read(self._topic, partition, int(offset), 1)
        except (PartitionUnknown, OffsetOutOfRange):
            return None
        return (partition, records[0]) if records and records[0].offset == int(offset) else None

    def positions(self, given: str | None, pointer: str, end: int) -> Positions:
        """Of a list that goes on, or else the ends (1) or the beginnings (0) of all partitions. Raises Refusal."""
        partitions: Sequence[str] = self._admin.topic(self._topic).partitions
        if given is None:
            return Positions({name: self._client.offsets(self._topic, name)[end] for name in partitions})
        try:
            positions = Positions.parse(given)
        except Refusal:
            positions = Positions()
        if set(positions) != set(partitions):
            kind = INVALID_REQUEST if pointer.startswith("?") else INVALID_BODY
            raise refused(kind, pointer, "invalid-value", f"it does not come from a page of {self._what}")
        return positions
