"""Near-due records of one shard: held in memory only, because they leave again before a disk would have helped.

Buckets of 100 ms, each a list that is sorted when something is taken from it: an append and a share of a sort cost
a fraction of a heap. Removal marks (by leaving `_present`), and a bucket gives back its room from the front.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from delayline.message import Key
from store.counts import LowestFirst, SegmentCounts
from store.index import Entry

BUCKET_MS = 100
RECORD_BYTES = 250
"""What Python keeps around a value: the entry, its numbers, its places in the bucket and in `_present`."""

_PAST_ANY_OFFSET = 2**64


@dataclass(slots=True)
class _Bucket:
    """Entries whose order matters only from `start` on; those before it have left."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    sorted: bool = True

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.sorted = False

    def sort(self) -> list[Entry]:
        if not self.sorted:
            self.entries = sorted(self.entries[self.start :])
            self.start = 0
            self.sorted = True
        return self.entries


class NearRecords:
    """The records by key, by due time and by name. The owner bounds `bytes` by not putting more."""

    def __init__(self) -> None:
        self.bytes = 0
        self.segments = SegmentCounts()
        self._present: dict[int, Entry] = {}  # by offset, which no two records of a shard share
        self._buckets: dict[int, _Bucket] = {}
        self._order = LowestFirst()  # numbers of buckets, also of some that are gone
        self._by_name: dict[bytes, Key] = {}
        self._names: dict[Key, list[bytes]] = {}

    def __len__(self) -> int:
        return len(self._present)

    def put(self, entries: Iterable[Entry], names: Iterable[tuple[bytes, Key]]) -> None:
        """Hot: once per near-due record."""
        present, buckets, size = self._present, self._buckets, 0
        for entry in entries:
            due_ms, offset, value = entry
            number = due_ms // BUCKET_MS
            bucket = buckets.get(number)
            if bucket is None:
                bucket = buckets[number] = _Bucket()
                self._order.add(number)
            bucket.add(entry)
            present[offset] = entry
            size += len(value) + RECORD_BYTES
        self.bytes += size
        self.segments.add([entry[1] for entry in entries])
        for name, key in names:
            self.name(name, key)

    def name(self, name: bytes, key: Key) -> None:
        self._by_name[name] = key
        self._names.setdefault(key, []).append(name)

    def take(self, until_ms: int, records_max: int) -> list[Entry]:
        """The lowest entries due at or before `until_ms`; they stay until `remove`."""
        taken: list[Entry] = []
        passed: list[int] = []
        while len(taken) < records_max and self._order and self._order.lowest() * BUCKET_MS <= until_ms:
            number = self._order.pop()
            if number in self._buckets:
                passed.append(number)
                taken += islice(self._of_bucket(number, until_ms), records_max - len(taken))
        for number in passed:
            self._order.add(number)
        return taken

    def _of_bucket(self, number: int, until_ms: int) -> Iterator[Entry]:
        """Present entries of the bucket due at or before `until_ms`, ascending."""
        bucket, present = self._buckets[number], self._present
        entries = bucket.sort()
        end = bisect_right(entries, (until_ms, _PAST_ANY_OFFSET))
        return (entry for entry in entries[bucket.start : end] if present.get(entry[1]) is entry)

    def next_due_ms(self) -> int | None:
        """The lowest due time present."""
        while self._order:
            number = self._order.lowest()
            if number in self._buckets:
                return next(self._of_bucket(number, (number + 1) * BUCKET_MS)).due_ms
            self._order.pop()
        return None

    def remove(self, keys: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Drop those that are here; the others come back. Hot: once per near-due record."""
        present = self._present
        gone: list[Entry] = []
        elsewhere: list[tuple[int, int]] = []
        for key in keys:
            entry = present.get(key[1])
            if entry is None or entry[0] != key[0]:
                elsewhere.append(key)
            else:
                gone.append(entry)
                del present[key[1]]
        self.bytes -= sum([len(entry[2]) for entry in gone]) + RECORD_BYTES * len(gone)
        self.segments.subtract([entry[1] for entry in gone])
        for number in {entry[0] // BUCKET_MS for entry in gone}:
            self._give_back(number)
        if self._names:
            for entry in gone:
                self._forget_names(entry.key)
        return elsewhere

    def _give_back(self, number: int) -> None:
        """Advance the bucket behind what has left; amortised once per record."""
        bucket = self._buckets[number]
        entries, present = bucket.sort(), self._present
        start = bucket.start
        while start < len(entries) and present.get(entries[start][1]) is not entries[start]:
            start += 1
        if start == len(entries):
            del self._buckets[number]
            return
        bucket.start = start
        if start * 2 > len(entries):
            del entries[:start]
            bucket.start = 0

    def _forget_names(self, key: Key) -> None:
        for name in self._names.pop(key, ()):
            if self._by_name.get(name) == key:
                del self._by_name[name]

    def get(self, key: Key) -> Entry | None:
        entry = self._present.get(key.offset)
        return entry if entry is not None and entry.due_ms == key.due_ms else None

    def lookup(self, name: bytes) -> Key | None:
        return self._by_name.get(name)

    def forget_name(self, name: bytes) -> None:
        """A record on disk has taken the name over."""
        self._by_name.pop(name, None)

    def scan(self, after: Key, limit: int) -> list[Entry]:
        """Present entries above `after`, ascending."""
        return list(islice(self._above(after), limit))

    def keys(self, after: Key, limit: int) -> list[Key]:
        return [entry.key for entry in islice(self._above(after), limit)]

    def _above(self, after: Key) -> Iterator[Entry]:
        """Bucket by bucket: what it does not reach is not looked at."""
        present = self._present
        for number in sorted(number for number in self._buckets if number >= after.due_ms // BUCKET_MS):
            bucket = self._buckets[number]
            entries = bucket.sort()
            start = max(bucket.start, bisect_left(entries, (after.due_ms, after.offset + 1)))
            yield from (entry for entry in islice(entries, start, None) if present.get(entry[1]) is entry)
