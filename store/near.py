"""Near-due records of one shard: held in memory only, because they leave again before a disk would have helped.

Buckets of 100 ms, each a list that is sorted when something is taken from it. What is put is sorted first, so that a
bucket is a few runs, which are soon one; a heap costs many times as much. Records leave from the front of a bucket,
in its order; one that leaves from anywhere else leaves a *hole*: an entry that `_present` does not hold. Everything
is done with whole lists where it can be, in loops of the interpreter's own: see bench/floors.py for what that costs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from operator import itemgetter

from delayline.message import Key
from store.counts import LowestFirst, SegmentCounts
from store.index import Entry, PlainEntry

BUCKET_MS = 100
RECORD_BYTES = 250
"""What Python keeps around a value: the entry, its numbers, its places in the bucket and in `_present`."""

_PAST_ANY_OFFSET = 2**64
_DUE, _OFFSET, _VALUE = itemgetter(0), itemgetter(1), itemgetter(2)


@dataclass(slots=True)
class _Bucket:
    """Entries whose order matters only from `start` on; those before it have left."""

    entries: list[PlainEntry] = field(default_factory=list)
    start: int = 0
    sorted: bool = True
    holes: bool = False

    def add(self, entries: list[PlainEntry]) -> None:
        self.entries += entries
        self.sorted = False

    def sort(self) -> list[PlainEntry]:
        if not self.sorted:
            del self.entries[: self.start]
            self.entries.sort()
            self.start = 0
            self.sorted = True
        return self.entries


class NearRecords:
    """The records by key, by due time and by name. The owner bounds `bytes` by not putting more."""

    def __init__(self) -> None:
        self.bytes = 0
        self.segments = SegmentCounts()
        self._present: dict[int, PlainEntry] = {}  # by offset, which no two records of a shard share
        self._buckets: dict[int, _Bucket] = {}
        self._order = LowestFirst()  # numbers of buckets, also of some that are gone
        self._by_name: dict[bytes, Key] = {}
        self._names: dict[Key, list[bytes]] = {}

    def __len__(self) -> int:
        return len(self._present)

    def put(self, entries: Iterable[PlainEntry], names: Iterable[tuple[bytes, Key]]) -> None:
        """Hot: once per near-due record."""
        ordered = sorted(entries)
        offsets = list(map(_OFFSET, ordered))
        self._present.update(zip(offsets, ordered, strict=True))
        self.bytes += _bytes_of(ordered)
        self.segments.add(offsets)
        at = 0
        while at < len(ordered):
            number = ordered[at][0] // BUCKET_MS
            end = bisect_left(ordered, ((number + 1) * BUCKET_MS,), at)
            bucket = self._buckets.get(number)
            if bucket is None:
                bucket = self._buckets[number] = _Bucket()
                self._order.add(number)
            bucket.add(ordered[at:end])
            at = end
        for name, key in names:
            self.name(name, key)

    def name(self, name: bytes, key: Key) -> None:
        self._by_name[name] = key
        self._names.setdefault(key, []).append(name)

    def take(self, until_ms: int, records_max: int) -> list[PlainEntry]:
        """The lowest entries due at or before `until_ms`; they stay until `remove`."""
        taken: list[PlainEntry] = []
        passed: list[int] = []
        while len(taken) < records_max and self._order and self._order.lowest() * BUCKET_MS <= until_ms:
            number = self._order.pop()
            if number in self._buckets:
                passed.append(number)
                taken += self._of_bucket(number, until_ms, records_max - len(taken))
        for number in passed:
            self._order.add(number)
        return taken

    def _of_bucket(self, number: int, until_ms: int, limit: int) -> list[PlainEntry]:
        """The first present entries of the bucket due at or before `until_ms`."""
        bucket, present = self._buckets[number], self._present
        entries, start = bucket.sort(), bucket.start
        end = len(entries)
        if until_ms < (number + 1) * BUCKET_MS:
            end = bisect_right(entries, (until_ms, _PAST_ANY_OFFSET), start)
        if not bucket.holes:
            return entries[start : min(end, start + limit)]
        waiting = (entry for entry in islice(entries, start, end) if present.get(entry[1]) is entry)
        return list(islice(waiting, limit))

    def next_due_ms(self) -> int | None:
        """The lowest due time present."""
        while self._order:
            number = self._order.lowest()
            if number in self._buckets:
                return self._of_bucket(number, (number + 1) * BUCKET_MS, 1)[0][0]
            self._order.pop()
        return None

    def remove(self, keys: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Drop those that are here; the others come back. Ascending. Hot: once per near-due record."""
        present = self._present
        found = list(map(present.pop, map(_OFFSET, keys), repeat(None)))
        gone = [entry for entry in found if entry is not None]
        elsewhere: list[tuple[int, int]] = []
        if len(gone) < len(keys) or list(map(_DUE, gone)) != list(map(_DUE, keys)):
            gone = []
            for key, entry in zip(keys, found, strict=True):
                if entry is not None and entry[0] == key[0]:
                    gone.append(entry)
                    continue
                elsewhere.append(key)
                if entry is not None:
                    present[entry[1]] = entry
        self.bytes -= _bytes_of(gone)
        self.segments.subtract(list(map(_OFFSET, gone)))
        self._give_back(gone)
        if self._names:
            for due_ms, offset, _ in gone:
                self._forget_names(Key(due_ms, offset))
        return elsewhere

    def _give_back(self, gone: list[PlainEntry]) -> None:
        """Advance the buckets behind what has left. Entries are compared by identity first."""
        at = 0
        while at < len(gone):
            number = gone[at][0] // BUCKET_MS
            end = bisect_left(gone, ((number + 1) * BUCKET_MS,), at)
            bucket = self._buckets[number]
            entries, start = bucket.sort(), bucket.start
            if bucket.holes or entries[start : start + end - at] != gone[at:end]:
                bucket.holes = True
                bucket.start = self._behind_holes(entries, start)
            else:
                bucket.start = start + end - at
            if bucket.start == len(entries):
                del self._buckets[number]
            elif bucket.start * 2 > len(entries):
                del entries[: bucket.start]
                bucket.start = 0
            at = end

    def _behind_holes(self, entries: list[PlainEntry], start: int) -> int:
        """Amortised once per record."""
        present = self._present
        while start < len(entries) and present.get(entries[start][1]) is not entries[start]:
            start += 1
        return start

    def _forget_names(self, key: Key) -> None:
        for name in self._names.pop(key, ()):
            if self._by_name.get(name) == key:
                del self._by_name[name]

    def get(self, key: Key) -> bytes | None:
        entry = self._present.get(key[1])
        return entry[2] if entry is not None and entry[0] == key[0] else None

    def lookup(self, name: bytes) -> Key | None:
        return self._by_name.get(name)

    def forget_name(self, name: bytes) -> None:
        """A record on disk has taken the name over."""
        self._by_name.pop(name, None)

    def scan(self, after: Key, limit: int) -> list[Entry]:
        """Present entries above `after`, ascending."""
        return [Entry(*entry) for entry in islice(self._above(after), limit)]

    def keys(self, after: Key, limit: int) -> list[Key]:
        return [Key(due_ms, offset) for due_ms, offset, _ in islice(self._above(after), limit)]

    def _above(self, after: Key) -> Iterator[PlainEntry]:
        """Bucket by bucket: what it does not reach is not looked at."""
        present = self._present
        for number in sorted(number for number in self._buckets if number >= after.due_ms // BUCKET_MS):
            bucket = self._buckets[number]
            entries = bucket.sort()
            start = max(bucket.start, bisect_left(entries, (after.due_ms, after.offset + 1)))
            yield from (entry for entry in islice(entries, start, None) if present.get(entry[1]) is entry)


def _bytes_of(entries: Sequence[PlainEntry]) -> int:
    return sum(map(len, map(_VALUE, entries))) + RECORD_BYTES * len(entries)
