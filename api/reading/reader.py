"""Reading what is in a topic: the newest page, a page from an offset, and whatever comes next.

Everything here blocks and runs in threads (`routes.records`). Pages are bounded in records and in bytes.
"""

import heapq
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from api.http.problems import INVALID_REQUEST, Refusal
from api.sending.partitioner import partition_given
from mq.contract import Admin, Client, LogRecord

PAGE_BYTES_MAX = 4 << 20
PAGE_RECORDS_MAX = 1000
_POSITION = re.compile(r"([^,]{1,249}):([0-9]{1,18})")
"""A partition's name may have a colon itself."""


class Seen(NamedTuple):
    """A record and its partition."""

    partition: str
    record: LogRecord


class Positions(dict[str, int]):
    """Per partition, the offset to read next: where a follower stands. Its text is an SSE event id."""

    def __str__(self) -> str:
        return ",".join(f"{partition}:{offset}" for partition, offset in self.items())

    @classmethod
    def parse(cls, text: str) -> "Positions":
        """Raises Refusal."""
        parts = [_POSITION.fullmatch(part) for part in text.split(",")]
        found = [part for part in parts if part is not None]
        if len(found) != len(parts):
            raise Refusal(INVALID_REQUEST, "last-event-id is not the id of an event of this stream")
        return cls({part[1]: int(part[2]) for part in found})


def place_in_list(positions: Positions | None) -> str | None:
    """Where a list goes on, as clients get it and give it back; None at its end."""
    return None if positions is None else str(positions)


class Reader:
    """Pages of one queue's topics. Any thread."""

    def __init__(self, client: Client, admin: Admin) -> None:
        self._client = client
        self._admin = admin

    def partitions(self, topic: str, named: int | str | None) -> Sequence[str]:
        """The partitions of a topic, or the one that is named. Raises TopicUnknown, Refusal."""
        partitions = self._admin.topic(topic).partitions
        if named is None:
            return partitions
        return (partition_given(topic, partitions, named, "?partition"),)

    def newest(self, topic: str, partitions: Sequence[str], limit: int) -> tuple[list[Seen], Positions]:
        """The newest records of the partitions, oldest first, and the positions before the first of them."""
        ends = Positions({partition: self._client.offsets(topic, partition)[1] for partition in partitions})
        if limit == 0:
            return [], ends
        share = PAGE_BYTES_MAX // len(partitions)
        tails = [self._tail(topic, partition, ends[partition], limit, share) for partition in partitions]
        page = _in_order(tails)[-limit:]
        for seen in reversed(page):
            ends[seen.partition] = seen.record.offset
        return page, ends

    def from_offset(self, topic: str, partition: str, offset: int, limit: int) -> list[Seen]:
        """Records from `offset` on; none where it is the end. Raises OffsetOutOfRange."""
        if limit == 0:
            return []
        records = self._client.read(topic, partition, offset, limit, PAGE_BYTES_MAX)
        return [Seen(partition, record) for record in records]

    def resumed(self, topic: str, partitions: Sequence[str], given: Positions) -> Positions:
        """Positions to go on from: the given ones, for partitions that are new since then the first record held.
        Raises Refusal for positions of another stream or topic, OffsetOutOfRange for ones that are gone."""
        if not set(given) <= set(partitions):
            raise Refusal(INVALID_REQUEST, "last-event-id names partitions that this stream does not have")
        positions = Positions({p: given[p] if p in given else self._client.offsets(topic, p)[0] for p in partitions})
        for partition, offset in given.items():
            self._client.read(topic, partition, offset, 1)
        return positions

    def next(self, topic: str, positions: Mapping[str, int], limit: int) -> list[Seen]:
        """What stands at or behind the positions, oldest first. Raises OffsetOutOfRange."""
        share = PAGE_BYTES_MAX // len(positions)
        found = [
            [Seen(partition, record) for record in self._client.read(topic, partition, offset, limit, share)]
            for partition, offset in positions.items()
        ]
        return _in_order(found)

    def wait(self, topic: str, positions: Mapping[str, int], timeout_s: float) -> bool:
        """Block until something stands at or behind the positions; False where the time ran out first."""
        return self._client.wait(topic, positions, timeout_s)

    def _tail(self, topic: str, partition: str, end: int, limit: int, bytes_max: int) -> Sequence[Seen]:
        """The last records before `end`, at least one. Slides over the last `limit` offsets, because a read returns
        the oldest first and large ones could fill its byte limit before the newest are reached."""
        first, _ = self._client.offsets(topic, partition)
        offset = max(first, end - limit)
        kept: deque[LogRecord] = deque()
        size = 0
        while offset < end:
            records = self._client.read(topic, partition, offset, end - offset, PAGE_BYTES_MAX)
            if not records:
                break
            for record in records:
                kept.append(record)
                size += len(record.body)
                while size > bytes_max and len(kept) > 1:
                    size -= len(kept.popleft().body)
            offset = records[-1].offset + 1
        return [Seen(partition, record) for record in kept if record.offset < end]


def _in_order(partitions: Iterable[Sequence[Seen]]) -> list[Seen]:
    """One sequence by time, which never changes the order within a partition: its last n are the last of each
    partition, so that positions can mark where it begins."""
    return list(heapq.merge(*partitions, key=lambda seen: seen.record.appended_at_ms))
