"""Counts of what is pending, in memory: small, exact, and changed only when a record's presence changes."""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush

from store.index import Buckets

SEGMENT_OFFSETS = 4096
"""How coarsely a low offset is known. A power of two."""

_SEGMENT_BITS = SEGMENT_OFFSETS.bit_length() - 1
_MINUTE_MS = 60_000
_DAY_MINUTES = 1440
_COUNT_BITS = 40
_COUNT_MASK = (1 << _COUNT_BITS) - 1
"""The low bits of the sum of a day's cells are the sum of their counts. The sum stays below 2^63, where adding up is
fast: the minutes of a day add up to 2^20."""


class LowestFirst:
    """A heap of distinct numbers. Its user leaves numbers that have lost their meaning in it until they surface."""

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._members: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, number: int) -> None:
        if number not in self._members:
            self._members.add(number)
            heappush(self._heap, number)

    def lowest(self) -> int:
        return self._heap[0]

    def pop(self) -> int:
        number = heappop(self._heap)
        self._members.remove(number)
        return number


class SegmentCounts:
    """Records per segment of SEGMENT_OFFSETS offsets, so that the lowest one is known without an index by offset.

    About 200 bytes per segment that holds a record."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._order = LowestFirst()

    def add(self, offsets: Iterable[int]) -> None:
        for segment, count in Counter([offset >> _SEGMENT_BITS for offset in offsets]).items():
            self._counts[segment] = self._counts.get(segment, 0) + count
            self._order.add(segment)

    def subtract(self, offsets: Iterable[int]) -> None:
        for segment, count in Counter([offset >> _SEGMENT_BITS for offset in offsets]).items():
            left = self._counts[segment] - count
            assert left >= 0, "more records left a segment than were in it"
            if left:
                self._counts[segment] = left
            else:
                del self._counts[segment]

    def low_offset(self) -> int | None:
        """At or below the lowest offset present, by less than a segment."""
        while self._order:
            segment = self._order.lowest()
            if segment in self._counts:
                return segment << _SEGMENT_BITS
            self._order.pop()
        return None


class MinuteCounts:
    """Records per due minute.

    One sorted array of `minute of the day << 40 | count` per day that has any: 8 bytes per minute and about 200 per
    day. A dict of minutes takes ten times as much, which for ten million records over years is half a gigabyte."""

    def __init__(self) -> None:
        self._days: dict[int, array[int]] = {}
        self._totals: dict[int, int] = {}

    def add(self, due_times_ms: Iterable[int]) -> None:
        for minute, count in Counter([due_ms // _MINUTE_MS for due_ms in due_times_ms]).items():
            day, cells, at, cell = self._find(minute)
            self._totals[day] = self._totals.get(day, 0) + count
            if at < len(cells) and cells[at] >> _COUNT_BITS == cell:
                cells[at] += count
            else:
                cells.insert(at, cell << _COUNT_BITS | count)
                self._days[day] = cells

    def subtract(self, due_times_ms: Iterable[int]) -> None:
        for minute, count in Counter([due_ms // _MINUTE_MS for due_ms in due_times_ms]).items():
            day, cells, at, _ = self._find(minute)
            left = (cells[at] & _COUNT_MASK) - count
            assert left >= 0, "more records left a minute than were in it"
            self._totals[day] -= count
            if left:
                cells[at] -= count
                continue
            del cells[at]
            if not cells:
                del self._days[day], self._totals[day]

    def _find(self, minute: int) -> "tuple[int, array[int], int, int]":
        day, cell = divmod(minute, _DAY_MINUTES)
        cells = self._days.get(day)
        if cells is None:
            cells = array("Q")
        return day, cells, bisect_left(cells, cell << _COUNT_BITS), cell

    def histogram(self, buckets: Buckets) -> list[int]:
        """See `ShardIndex.histogram`. A day within one bucket costs 0.3 us, another one 1.5 us per bucket that it has
        a part in and 12 ns per minute."""
        counts = [0] * (buckets.number + 2)
        end = buckets.start + buckets.width * buckets.number
        for day, total in self._totals.items():
            first = day * _DAY_MINUTES
            if first >= end:
                counts[-1] += total
            elif (slot := buckets.slot(first)) == buckets.slot(first + _DAY_MINUTES - 1):
                counts[slot] += total
            else:
                _spread(self._days[day], first, buckets, counts)
        return counts


def _spread(cells: "array[int]", first: int, buckets: Buckets, counts: list[int]) -> None:
    """Add the cells of the day that begins with the minute `first` to the slots that they belong to."""
    at = 0
    while at < len(cells):
        slot = buckets.slot(first + (cells[at] >> _COUNT_BITS))
        next_slot = buckets.start + slot * buckets.width if slot <= buckets.number else first + _DAY_MINUTES
        end = bisect_left(cells, (next_slot - first) << _COUNT_BITS, at)
        counts[slot] += sum(cells[at:end]) & _COUNT_MASK
        at = end


class Counts:
    """All counts of one shard."""

    def __init__(self) -> None:
        self.pending = 0
        self.segments = SegmentCounts()
        self.minutes = MinuteCounts()

    def add(self, due_times_ms: list[int], offsets: list[int]) -> None:
        self.pending += len(offsets)
        self.segments.add(offsets)
        self.minutes.add(due_times_ms)

    def subtract(self, due_times_ms: list[int], offsets: list[int]) -> None:
        self.pending -= len(offsets)
        self.segments.subtract(offsets)
        self.minutes.subtract(due_times_ms)
