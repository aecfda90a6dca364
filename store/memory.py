"""The time index without a disk: for tests, simulations and users' own experiments.

It keeps the promises of `store.index` in the plainest way, and can fall: `crash(keep)` gives the index that a SIGKILL
would have left if the disk had got the first `keep` writes. Nothing survives the process.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

from delayline.buffer.record import is_repeat
from delayline.errors import Bug
from delayline.records.message import BEFORE_ALL, Key, Shard
from store.counts import SEGMENT_OFFSETS
from store.errors import StoreFull
from store.index import RESERVE_SHARE, SCAN_BYTES_MAX, Buckets, Checkpoint, Covered, Entry, PlainEntry, ShardIndex

UNFLUSHED_WRITES_MAX = 10_000
"""Beyond it the older half counts as flushed, as a disk would have done by then."""

_RECORD_BYTES = 250


@dataclass(slots=True)
class _Durable:
    """What a disk would hold of one shard."""

    records: dict[Key, bytes] = field(default_factory=dict)
    names: dict[bytes, Key] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None

    def put(self, records: dict[Key, bytes], names: Sequence[tuple[bytes, Key]]) -> None:
        self.records.update(records)
        self.names.update(names)

    def drop(self, gone: Iterable[Key], checkpoint: Checkpoint | None) -> None:
        for key in gone:
            del self.records[key]
        if self.names:
            self.names = {name: key for name, key in self.names.items() if key in self.records}
        self.checkpoint = checkpoint


_Write = Callable[[_Durable], None]


class MemoryIndex:
    """A `TimeIndex`. `free_bytes` and `disk_free_min_bytes` as in `RocksIndex.open`, for a disk that is imagined."""

    def __init__(self, free_bytes: Callable[[], int] | None = None, disk_free_min_bytes: int = 0) -> None:
        self._shards: dict[Shard, MemoryShard] = {}
        self._durable: dict[Shard, _Durable] = {}
        self._flushed: dict[Shard, _Durable] = {}
        self._log: list[tuple[Shard, _Write]] = []
        self._free_bytes = free_bytes or (lambda: disk_free_min_bytes)
        self._free_min_bytes = disk_free_min_bytes
        self.flushed = 0
        """How many writes a crash cannot take back."""

    @property
    def written(self) -> int:
        """How many writes there were: what `crash` may keep lies between `flushed` and this."""
        return self.flushed + len(self._log)

    def crash(self, keep: int) -> "MemoryIndex":
        """The index as the next process finds it if the first `keep` writes reached the disk. This one stays."""
        if not self.flushed <= keep <= self.written:
            raise ValueError(f"keep must lie between {self.flushed} and {self.written}, not {keep}")
        left = MemoryIndex(self._free_bytes, self._free_min_bytes)
        left._flushed = _after(deepcopy(self._flushed), self._log[: keep - self.flushed])
        left._durable = deepcopy(left._flushed)
        return left

    def shard(self, shard: Shard) -> ShardIndex:
        if shard not in self._shards:
            durable = self._durable.setdefault(shard, _Durable())
            self._shards[shard] = MemoryShard(durable, partial(self._write, shard), self._refuse_when_full)
        return self._shards[shard]

    def drop(self, shard: Shard) -> None:
        self._shards.pop(shard, None)

    def flush(self) -> None:
        self._flush(len(self._log))

    def close(self) -> None:
        self.flush()
        self._shards.clear()

    def _write(self, shard: Shard, write: _Write) -> None:
        write(self._durable[shard])
        self._log.append((shard, write))
        if len(self._log) > UNFLUSHED_WRITES_MAX:
            self._flush(UNFLUSHED_WRITES_MAX // 2)

    def _flush(self, writes: int) -> None:
        _after(self._flushed, self._log[:writes])
        del self._log[:writes]
        self.flushed += writes

    def _refuse_when_full(self, reserve: bool) -> None:
        kept = self._free_min_bytes // RESERVE_SHARE if reserve else self._free_min_bytes
        if (free := self._free_bytes()) < kept:
            raise StoreFull(f"{free} bytes are free, {kept} are to stay free")


def _after(state: dict[Shard, _Durable], writes: Iterable[tuple[Shard, _Write]]) -> dict[Shard, _Durable]:
    for shard, write in writes:
        write(state.setdefault(shard, _Durable()))
    return state


class MemoryShard:
    """A `ShardIndex`: what is durable, what is held only in memory, and one sorted list of both."""

    def __init__(
        self, durable: _Durable, write: Callable[[_Write], None], refuse_when_full: Callable[[bool], None]
    ) -> None:
        self._durable = durable
        self._write = write
        self._refuse_when_full = refuse_when_full
        self._ready = not durable.records and durable.checkpoint is None
        self._start_with([])

    def _start_with(self, order: list[Key]) -> None:
        self._order = order
        self._in_memory: dict[Key, bytes] = {}
        self._near_names: dict[bytes, Key] = {}

    def checkpoint(self) -> Checkpoint | None:
        return self._durable.checkpoint

    def reset(self) -> None:
        gone = list(self._durable.records)
        self._write(lambda durable: durable.drop(gone, None))
        self._start_with([])
        self._ready = True

    def retain(self, low_offset: int, resume_offset: int, covered: Covered) -> None:
        next_offset, delivered_key = covered
        stored = self._durable.checkpoint
        checkpoint = stored if stored is not None and stored.offset <= resume_offset else None
        gone = [
            key
            for key in self._durable.records
            if not low_offset <= key.offset < resume_offset or (key.offset < next_offset and key <= delivered_key)
        ]
        self._write(lambda durable: durable.drop(gone, checkpoint))
        self._start_with(sorted(self._durable.records))
        self._ready = True

    def retaining(self, low_offset: int, resume_offset: int, covered: Covered) -> Iterator[None]:
        """At once."""
        self.retain(low_offset, resume_offset, covered)
        yield from ()

    def put(
        self, entries: Sequence[PlainEntry], near_until_ms: int | None, names: Iterable[tuple[bytes, Key]] = ()
    ) -> None:
        self._require_ready()
        border = -1 if near_until_ms is None else near_until_ms
        near = {Key(due_ms, offset): value for due_ms, offset, value in entries if due_ms <= border}
        far = {Key(due_ms, offset): value for due_ms, offset, value in entries if due_ms > border}
        names = list(names)
        if far:
            self._refuse_when_full(near_until_ms is None)
            far_names = [(name, key) for name, key in names if key in far]
            self._write(lambda durable: durable.put(far, far_names))
        for name, key in names:
            self._near_names.pop(name, None)
            if key in near:
                self._near_names[name] = key
        self._in_memory |= near
        self._order = sorted([*self._order, *near, *far])

    def bind(self, name: bytes, key: Key) -> None:
        self._require_ready()
        self._near_names.pop(name, None)
        if key in self._in_memory:
            self._near_names[name] = key
        else:
            self._refuse_when_full(True)
            self._write(lambda durable: durable.put({}, [(name, key)]))

    def due(self, until_ms: int, records_max: int, bytes_max: int) -> list[PlainEntry]:
        taken: list[PlainEntry] = []
        size = 0
        for key in self._order[:records_max]:
            entry = self._entry(key)
            size += len(entry.value)
            if key.due_ms > until_ms or (size > bytes_max and taken):
                break
            taken.append((*key, entry.value))
        return taken

    def _entry(self, key: Key) -> Entry:
        value = self._in_memory.get(key)
        return Entry(*key, self._durable.records[key] if value is None else value)

    def next_due_ms(self) -> int | None:
        return self._order[0].due_ms if self._order else None

    def remove(self, keys: Sequence[tuple[int, int]], checkpoint: Checkpoint) -> None:
        self._require_ready()
        self._remove(keys, checkpoint)

    def _remove(self, keys: Sequence[tuple[int, int]], checkpoint: Checkpoint | None) -> None:
        far = [Key(*key) for key in keys if key not in self._in_memory]
        if far or checkpoint != self._durable.checkpoint:
            self._write(lambda durable: durable.drop(far, checkpoint))
        for key in keys:
            self._in_memory.pop(Key(*key), None)
            del self._order[bisect_left(self._order, key)]
        self._near_names = {name: key for name, key in self._near_names.items() if key in self._in_memory}

    def discard(self, key: Key) -> bool:
        self._require_ready()
        present = self.get(key) is not None
        if present:
            self._remove([key], self._durable.checkpoint)
        return present

    def get(self, key: Key) -> bytes | None:
        return self._in_memory.get(key, self._durable.records.get(key) if self._ready else None)

    def lookup(self, name: bytes) -> Key | None:
        return self._near_names.get(name) or (self._durable.names.get(name) if self._ready else None)

    def low_offset(self) -> int | None:
        return _segment_of_lowest(self._order)

    def memory_low(self) -> int | None:
        return _segment_of_lowest(self._in_memory)

    def memory_bytes(self) -> int:
        return sum(len(value) + _RECORD_BYTES for value in self._in_memory.values())

    def pending(self) -> int:
        return len(self._order)

    def repeats(self) -> int:
        return sum(is_repeat(self._entry(key).value) for key in self._order)

    def histogram(self, buckets: Buckets) -> list[int]:
        counts = Counter(buckets.slot(key.due_ms // 60_000) for key in self._order)
        return [counts[slot] for slot in range(buckets.number + 2)]

    def scan(self, after: Key, limit: int, bytes_max: int = SCAN_BYTES_MAX) -> list[Entry]:
        found: list[Entry] = []
        for key in self.keys(after, limit):
            entry = self._entry(key)
            bytes_max -= len(entry.value)
            if bytes_max < 0 and found:
                break
            found.append(entry)
        return found

    def keys(self, after: Key, limit: int) -> list[Key]:
        start = 0 if after < BEFORE_ALL else bisect_right(self._order, after)
        return self._order[start : start + limit]

    def _require_ready(self) -> None:
        if not self._ready:
            raise Bug("a shard with rows of an earlier time needs retain or reset first")


def _segment_of_lowest(keys: Iterable[Key]) -> int | None:
    lowest = min((key.offset for key in keys), default=None)
    return None if lowest is None else lowest // SEGMENT_OFFSETS * SEGMENT_OFFSETS
