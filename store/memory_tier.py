"""Near-due records of one shard: held in memory only, because they leave again before a disk would have helped.

Buckets of 100 ms, each a list that is sorted when something is taken from it. What is put is in order, so that a
bucket is a few runs, which soon are one; a heap costs many times as much. What is taken are the first entries of the
first buckets, and mostly the same are removed next: then a bucket only begins further on. There is nothing beside the
buckets, no entry is looked at by itself, and all that is done to many of them is done in the interpreter's own loops
(see bench/floors.py for what it costs).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

from delayline.records.message import Key
from store.counts import LowestFirst, SegmentCounts
from store.index import Entry, PlainEntry

BUCKET_MS = 100
RECORD_BYTES = 200
"""What Python keeps around a value: the entry, its numbers, its place in the bucket."""

_DUE, _OFFSET, _VALUE, _KEY = itemgetter(0), itemgetter(1), itemgetter(2), itemgetter(0, 1)


class _Bucket:
    """Entries are ascending from `start` on, those before it have left; `fresh` ones have not been sorted in yet."""

    __slots__ = ("_entries", "_fresh", "_fresh_due_ms", "_start")

    def __init__(self) -> None:
        self._entries: list[PlainEntry] = []
        self._start = 0
        self._fresh: list[PlainEntry] = []
        self._fresh_due_ms = 0  # the lowest of those

    def __len__(self) -> int:
        return len(self._entries) - self._start + len(self._fresh)

    def put(self, ordered: Sequence[PlainEntry]) -> None:
        due_ms = ordered[0][0]
        self._fresh_due_ms = min(due_ms, self._fresh_due_ms) if self._fresh else due_ms
        self._fresh += ordered

    def next_due_ms(self) -> int:
        """The lowest due time; without sorting, because it is asked for all the time."""
        if self._start == len(self._entries):
            return self._fresh_due_ms
        first_ms = self._entries[self._start][0]
        return min(first_ms, self._fresh_due_ms) if self._fresh else first_ms

    def _sort(self) -> list[PlainEntry]:
        if self._fresh:
            del self._entries[: self._start]
            self._start = 0
            self._entries += self._fresh
            # Timsort finds the two runs, so this is a merge and not a sort (Peters, listsort.txt).
            self._entries.sort()
            self._fresh = []
        return self._entries

    def at(self, key: tuple[int, int]) -> int:
        """Where the first entry stands whose key is not below this one."""
        return bisect_left(self._sort(), key, self._start)

    def first(self, until: int, limit: int) -> list[PlainEntry]:
        """Those before position `until`, at most `limit`."""
        return self._entries[self._start : min(until, self._start + limit)]

    def from_position(self, at: int) -> Iterator[PlainEntry]:
        return islice(self._sort(), at, None)

    def get(self, key: tuple[int, int]) -> bytes | None:
        at = self.at(key)
        entry = self._entries[at] if at < len(self._entries) else None
        return entry[2] if entry is not None and entry[:2] == key else None

    def remove(self, keys: Sequence[tuple[int, int]]) -> list[PlainEntry]:
        """Those of these ascending keys that are here."""
        entries, start = self._sort(), self._start
        gone = entries[start : start + len(keys)]
        if list(map(_KEY, gone)) == list(keys):
            self._leave_first(len(gone))
            return gone
        begin, (due_ms, offset) = self.at(keys[0]), keys[-1]
        end = bisect_left(entries, (due_ms, offset + 1), begin)
        wanted, among = set(keys), entries[begin:end]
        gone = [entry for entry in among if entry[:2] in wanted]
        if begin == start and len(gone) == len(among):
            self._leave_first(len(gone))
        elif gone:
            entries[begin:end] = [entry for entry in among if entry[:2] not in wanted]
        return gone

    def _leave_first(self, number: int) -> None:
        self._start += number
        if self._start * 2 > len(self._entries):
            del self._entries[: self._start]
            self._start = 0


class MemoryTier:
    """The records by key, by due time and by name. The owner bounds `bytes` by not putting more."""

    def __init__(self) -> None:
        self.bytes = 0
        self.segments = SegmentCounts()
        self._number = 0
        self._buckets: dict[int, _Bucket] = {}
        self._order = LowestFirst()  # numbers of buckets, also of some that are gone
        self._by_name: dict[bytes, Key] = {}
        self._names: dict[Key, list[bytes]] = {}

    def __len__(self) -> int:
        return self._number

    def put(self, ordered: Sequence[PlainEntry], names: Iterable[tuple[bytes, Key]]) -> None:
        """Take in ascending entries. Hot: once per near-due record."""
        self._number += len(ordered)
        self.bytes += _bytes_of(ordered)
        self.segments.add(list(map(_OFFSET, ordered)))
        for number, at, end in _by_bucket(ordered):
            bucket = self._buckets.get(number)
            if bucket is None:
                bucket = self._buckets[number] = _Bucket()
                self._order.add(number)
            bucket.put(ordered[at:end])
        for name, key in names:
            self.bind(name, key)

    def bind(self, name: bytes, key: Key) -> None:
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
                bucket = self._buckets[number]
                taken += bucket.first(bucket.at((until_ms + 1, 0)), records_max - len(taken))
        for number in passed:
            self._order.add(number)
        return taken

    def next_due_ms(self) -> int | None:
        """The lowest due time present."""
        while self._order:
            number = self._order.lowest()
            if number in self._buckets:
                return self._buckets[number].next_due_ms()
            self._order.pop()
        return None

    def remove(self, keys: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Drop those that are here; the others come back. Ascending. Hot: once per near-due record."""
        gone: list[PlainEntry] = []
        elsewhere: list[tuple[int, int]] = []
        for number, at, end in _by_bucket(keys):
            part, bucket = keys[at:end], self._buckets.get(number)
            here = bucket.remove(part) if bucket is not None else []
            gone += here
            if len(here) < len(part):
                found = set(map(_KEY, here))
                elsewhere += [key for key in part if key not in found]
            if bucket is not None and not bucket:
                del self._buckets[number]
        self._number -= len(gone)
        self.bytes -= _bytes_of(gone)
        self.segments.subtract(list(map(_OFFSET, gone)))
        if self._names:
            for due_ms, offset, _ in gone:
                self._forget_names(Key(due_ms, offset))
        return elsewhere

    def _forget_names(self, key: Key) -> None:
        for name in self._names.pop(key, ()):
            # A later record may have taken the name over: that one keeps it.
            if self._by_name.get(name) == key:
                del self._by_name[name]

    def get(self, key: Key) -> bytes | None:
        bucket = self._buckets.get(key[0] // BUCKET_MS)
        return None if bucket is None else bucket.get(key)

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
        for number in sorted(number for number in self._buckets if number >= after.due_ms // BUCKET_MS):
            bucket = self._buckets[number]
            yield from bucket.from_position(bucket.at((after.due_ms, after.offset + 1)))


def _by_bucket(ordered: Sequence[PlainEntry] | Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """`(number, from, until)` of the stretches of ascending entries or keys that belong into one bucket."""
    at = 0
    while at < len(ordered):
        # One bisect per bucket and not one division per record: a batch is mostly in a few buckets.
        number = ordered[at][0] // BUCKET_MS
        end = max(at + 1, bisect_left(ordered, (number + 1) * BUCKET_MS, at, key=_DUE))
        yield number, at, end
        at = end


def _bytes_of(entries: Sequence[PlainEntry]) -> int:
    return sum(map(len, map(_VALUE, entries))) + RECORD_BYTES * len(entries)
