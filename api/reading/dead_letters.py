"""Reading the dead-letter topic, where the letters of all topics stand. Everything here blocks and runs in threads.

A page is bounded in letters, in bytes, and in how many letters of other topics are passed over for it.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from api.http.problems import INVALID_BODY, INVALID_REQUEST, Refusal, refused
from api.reading.reader import PAGE_BYTES_MAX, Positions
from delayline.records.dead_letter import DeadLetter, read_dead_letter
from mq.contract import Admin, Client, LogRecord
from mq.errors import OffsetOutOfRange, PartitionUnknown

LOOKED_MAX = 5000
CHUNK_RECORDS = 64
"""Read at once on the way back. A read goes forward, so that as many are held; the largest have 1 MiB."""


class Letter(NamedTuple):
    """A dead letter and where it stands."""

    partition: str
    offset: int
    dead_at_ms: int
    content: DeadLetter

    @property
    def id(self) -> str:
        return f"{self.partition}.{self.offset}"

    @property
    def size(self) -> int:
        """About as many bytes as it takes."""
        key, value, headers = self.content.original
        return len(key or b"") + len(value or b"") + sum(len(name) + len(text or b"") for name, text in headers)


class DeadLetters:
    """Those of one installation. Any thread."""

    def __init__(self, client: Client, admin: Admin, topic: str) -> None:
        """`topic` is where they stand."""
        self._client = client
        self._admin = admin
        self._topic = topic

    def newest(self, topic: str, before: str | None, limit: int) -> tuple[list[Letter], Positions | None]:
        """Letters of the topic, newest first; and the positions before which the list goes on, None at its end.
        Raises Refusal, QueueUnavailable."""
        positions = self._positions(before, "?before", 1)
        backwards = [self._backwards(partition, end) for partition, end in positions.items()]
        found: list[Letter] = []
        size = 0
        newest_first = heapq.merge(*backwards, key=lambda item: -item[1].appended_at_ms)
        for looked, (partition, record) in enumerate(newest_first):
            if len(found) >= limit or looked >= LOOKED_MAX or size >= PAGE_BYTES_MAX:
                return found, positions
            positions[partition] = record.offset
            if (letter := _letter(topic, partition, record)) is not None:
                found.append(letter)
                size += letter.size
        return found, None

    def _backwards(self, partition: str, end: int) -> Iterator[tuple[str, LogRecord]]:
        first, last = self._client.offsets(self._topic, partition)
        end = min(end, last)
        while end > first:
            start = max(first, end - CHUNK_RECORDS)
            chunk = [record for record in self._range(partition, start, end) if record.offset < end]
            yield from ((partition, record) for record in reversed(chunk))
            end = start

    def _range(self, partition: str, start: int, end: int) -> Iterator[LogRecord]:
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

    def oldest(
        self, topic: str, until_ms: int, after: str | None, limit: int
    ) -> tuple[list[Letter], Positions | None]:
        """Letters of the topic that were written up to `until_ms`, oldest first in each partition; and the positions
        from which the list goes on, None at its end. Raises Refusal, QueueUnavailable."""
        positions = self._positions(after, "/after", 0)
        found: list[Letter] = []
        looked = size = 0
        for partition, start in positions.items():
            first, end = self._client.offsets(self._topic, partition)
            for record in self._range(partition, max(start, first), end):
                if record.appended_at_ms > until_ms:
                    break
                if len(found) >= limit or looked >= LOOKED_MAX or size >= PAGE_BYTES_MAX:
                    return found, positions
                looked += 1
                positions[partition] = record.offset + 1
                if (letter := _letter(topic, partition, record)) is not None:
                    found.append(letter)
                    size += letter.size
        return found, None

    def get(self, topic: str, letter_id: str) -> Letter | None:
        """The letter with this id, if there is one and it is of the topic."""
        partition, _, offset = letter_id.rpartition(".")
        if not partition or not offset.isdecimal() or len(offset) > 18:
            return None
        try:
            records = self._client.read(self._topic, partition, int(offset), 1)
        except (PartitionUnknown, OffsetOutOfRange):
            return None
        if not records or records[0].offset != int(offset):
            return None
        return _letter(topic, partition, records[0])

    def _positions(self, given: str | None, pointer: str, end: int) -> Positions:
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
            raise refused(kind, pointer, "invalid-value", "it does not come from a page of dead letters")
        return positions


def _letter(topic: str, partition: str, record: LogRecord) -> Letter | None:
    content = read_dead_letter(record.body)
    if content is None or content.topic != topic:
        return None
    return Letter(partition, record.offset, record.appended_at_ms, content)
