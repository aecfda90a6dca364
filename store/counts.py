"""Counts of what is pending, in memory: small, exact, and changed only when a record's presence changes."""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from operator import itemgetter

from delayline.buffer.record import is_repeat
from store.index import Buckets, PlainEntry

_OFFSET = itemgetter(1)
SEGMENT_OFFSETS = 4096
"""How coarsely a low offset is known. A power of two."""

SEGMENT_BITS = SEGMENT_OFFSETS.bit_length() - 1
_MINUTE_MS = 60_000
_DAY_MINUTES = 1440
_DAY_MS = _DAY_MINUTES * _MINUTE_MS
SPARSE_MAX = _DAY_MINUTES // 4
_COUNT_BITS = 40
_COUNT_MASK = (1 << _COUNT_BITS) - 1
"""The low bits of the sum of a day's cells are the sum of their counts. The sum stays below 2^63, where adding up is
fast: the minutes of a day add up to 2^20."""


def _counted(numbers: Sequence[int], width: int) -> Iterable[tuple[int, int]]:
    """How many of them are in which stretch of `width`. Mostly one holds all of a batch, which costs no counting."""
    if not numbers:
        return ()
    first = min(numbers) // width
    if max(numbers) // width == first:
        return ((first, len(numbers)),)
    return Counter([number // width for number in numbers]).items()


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

    def add(self, offsets: Sequence[int]) -> None:
        for segment, count in _counted(offsets, SEGMENT_OFFSETS):
            self._counts[segment] = self._counts.get(segment, 0) + count
            # A segment that is empty stays in the heap until it surfaces: removing from the middle of a heap is
            # linear.
            self._order.add(segment)

    def subtract(self, offsets: Sequence[int]) -> None:
        for segment, count in _counted(offsets, SEGMENT_OFFSETS):
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
            # An empty segment is dropped here, once, so that the loop is amortised constant.
            if segment in self._counts:
                return segment << SEGMENT_BITS
            self._order.pop()
        return None


class MinuteCounts:
    """Records per due minute, day by day.

    A day is *sparse* at first, a sorted array of `minute of the day << 40 | count`: 8 bytes per minute that has any,
    and about 200 per day. A quarter full it becomes *dense*, one count for each of its minutes: 6 KB, and half the
    time to count in. A dict of minutes takes ten times as much, for ten million records over years half a gigabyte.
    """

    def __init__(self) -> None:
        self.sparse: dict[int, array[int]] = {}
        self.dense: dict[int, array[int]] = {}
        self.totals: dict[int, int] = {}

    def add(self, due_times_ms: Sequence[int]) -> None:
        """Hot where due times lie far apart: then it is done once per record."""
        for day, count in _counted(due_times_ms, _DAY_MS):
            self.totals[day] = self.totals.get(day, 0) + count
        dense = self.dense
        for minute, count in _counted(due_times_ms, _MINUTE_MS):
            cells = dense.get(minute // _DAY_MINUTES)
            if cells is not None:
                cells[minute % _DAY_MINUTES] += count
            else:
                self._add_sparse(*divmod(minute, _DAY_MINUTES), count)

    def _add_sparse(self, day: int, cell: int, count: int) -> None:
        cells = self.sparse.get(day)
        if cells is None:
            cells = self.sparse[day] = array("Q")
        at = bisect_left(cells, cell << _COUNT_BITS)
        if at < len(cells) and cells[at] >> _COUNT_BITS == cell:
            cells[at] += count
        else:
            cells.insert(at, cell << _COUNT_BITS | count)
        # At a quarter the dense form takes twice the memory, and half the time.
        if len(cells) > SPARSE_MAX:
            dense = self.dense[day] = array("I", [0]) * _DAY_MINUTES
            for packed in self.sparse.pop(day):
                dense[packed >> _COUNT_BITS] = packed & _COUNT_MASK

    def subtract(self, due_times_ms: Sequence[int]) -> None:
        for minute, count in _counted(due_times_ms, _MINUTE_MS):
            day, cell = divmod(minute, _DAY_MINUTES)
            if day in self.dense:
                left = self.dense[day][cell] - count
                assert left >= 0, "more records left a minute than were in it"
                self.dense[day][cell] = left
            else:
                self._subtract_sparse(day, cell, count)
            self.totals[day] -= count
            # Empty days go, or a worker that runs for years would keep one entry per day that it has seen.
            if not self.totals[day]:
                del self.totals[day]
                self.sparse.pop(day, None)
                self.dense.pop(day, None)

    def _subtract_sparse(self, day: int, cell: int, count: int) -> None:
        cells = self.sparse[day]
        at = bisect_left(cells, cell << _COUNT_BITS)
        left = (cells[at] & _COUNT_MASK) - count
        assert left >= 0, "more records left a minute than were in it"
        if left:
            cells[at] -= count
        else:
            del cells[at]

    def histogram(self, buckets: Buckets) -> list[int]:
        """See `ShardIndex.histogram`. A day within one bucket costs 0.3 us, another one 1.5 us per bucket that it has
        a part in and 12 ns per minute."""
        counts = [0] * (buckets.number + 2)
        end = buckets.start + buckets.width * buckets.number
        for day, total in self.totals.items():
            first = day * _DAY_MINUTES
            if first >= end:
                counts[-1] += total
            elif (slot := buckets.slot(first)) == buckets.slot(first + _DAY_MINUTES - 1):
                counts[slot] += total
            elif day in self.dense:
                _spread_dense(self.dense[day], first, buckets, counts)
            else:
                _spread(self.sparse[day], first, buckets, counts)
        return counts


def _spread(cells: "array[int]", first: int, buckets: Buckets, counts: list[int]) -> None:
    """Add the cells of the day that begins with the minute `first` to the slots that they belong to."""
    at = 0
    while at < len(cells):
        slot = buckets.slot(first + (cells[at] >> _COUNT_BITS))
        next_slot = buckets.start + slot * buckets.width if slot <= buckets.number else first + _DAY_MINUTES
        end = bisect_left(cells, (next_slot - first) << _COUNT_BITS, at)
        # The sum of packed cells carries the sum of the minutes in the high bits; the mask leaves the counts.
        counts[slot] += sum(cells[at:end]) & _COUNT_MASK
        at = end


def _spread_dense(cells: "array[int]", first: int, buckets: Buckets, counts: list[int]) -> None:
    """The same of a dense day."""
    at = 0
    while at < _DAY_MINUTES:
        slot = buckets.slot(first + at)
        next_slot = buckets.start + slot * buckets.width if slot <= buckets.number else first + _DAY_MINUTES
        counts[slot] += sum(cells[at : next_slot - first])
        at = next_slot - first


class Repeats:
    """The messages that repeat, by offset: about 100 bytes each, and the frontends bound how many there are."""

    def __init__(self) -> None:
        self._offsets: set[int] = set()

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, entries: Iterable[PlainEntry]) -> None:
        """Hot: once per record, 50 ns for a plain one."""
        self._offsets.update([offset for _, offset, value in entries if value[:1] > b"\0" and is_repeat(value)])

    def add_known(self, offsets: Iterable[int]) -> None:
        self._offsets.update(offsets)

    def subtract(self, keys: Iterable[tuple[int, int]]) -> None:
        """Of those that go, some may repeat. Free where none does."""
        if self._offsets:
            self._offsets.difference_update(map(_OFFSET, keys))


class Counts:
    """All counts of one shard but one: `segments` are those of the records on disk."""

    def __init__(self) -> None:
        self.pending = 0
        self.repeats = Repeats()
        self.segments = SegmentCounts()
        self.minutes = MinuteCounts()

    def add(self, due_times_ms: Sequence[int], far_offsets: Sequence[int]) -> None:
        self.pending += len(due_times_ms)
        self.segments.add(far_offsets)
        self.minutes.add(due_times_ms)

    def subtract(self, due_times_ms: Sequence[int], far_offsets: Sequence[int]) -> None:
        self.pending -= len(due_times_ms)
        self.segments.subtract(far_offsets)
        self.minutes.subtract(due_times_ms)
