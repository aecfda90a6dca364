"""A worker's disk: the time index of `store.index`, with every liberty that its contract leaves, and a crash.

`Disk` is written for this simulation: all writes of all shards stand in one journal, and a crash keeps some prefix of
what was not flushed. What may be held in memory is held in memory, and low offsets are rounded down, by segments so
small that L moves and logs are trimmed within a short run. `TwinDisk` puts the product's own `store.memory` in its
place.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import NamedTuple, Protocol

from delay_service.core.rules_log import RulesLog
from delayline.buffer.record import is_repeat
from delayline.records.message import Key, Shard
from delayline.schedule.rules import DEFAULT_RULES
from store.errors import StoreFull
from store.index import SCAN_BYTES_MAX, Buckets, Checkpoint, Covered, Entry, PlainEntry, ShardIndex
from store.memory import MemoryIndex

SEGMENT = 4
SCANNED_BYTES_MAX = 600
"""Some five records."""
FOREIGN_CHECKPOINT = Checkpoint(1, b"another topic...", RulesLog(0, DEFAULT_RULES).encode(1))
"""In today's format: one of an older format would not be reused anyway."""

FOREIGN_VALUE = b"\x00\x01\x02x\x02"


class _Write(NamedTuple):
    """One atomic write; `clear` comes first."""

    shard: Shard
    puts: Sequence[Entry] = ()
    gone: Sequence[Key] = ()
    checkpoint: Checkpoint | None = None
    clear: bool = False
    names: Sequence[tuple[bytes, Key]] = ()


class AnyDisk(Protocol):
    """What a worker needs of its disk. `full`: nothing more can be written; `tight`: no names, of what is on it."""

    full: bool
    tight: bool

    def shard(self, shard: Shard) -> ShardIndex: ...

    def drop(self, shard: Shard) -> None:
        """Forget what was only in memory; the disk keeps the rest."""

    def flush(self) -> None: ...

    def crash(self, rnd: Random) -> bool:
        """Lose memory and some of the latest writes; whether any write was lost."""

    def leave_foreign(self, shard: Shard, now_ms: int) -> None:
        """Contents of a buffer topic that no longer exists; its checkpoint looks as good as any."""


class _Table:
    """What stands on the disk for one shard."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self.checkpoint: Checkpoint | None = None
        self.names: dict[bytes, Key] = {}

    def copy(self) -> "_Table":
        other = _Table()
        other.entries = dict(self.entries)
        other.checkpoint = self.checkpoint
        other.names = dict(self.names)
        return other

    def apply(self, write: _Write) -> None:
        if write.clear:
            self.entries.clear()
            self.names.clear()
            self.checkpoint = None
        for entry in write.puts:
            self.entries[entry.key] = entry
        self.names.update(write.names)
        for key in write.gone:
            self.entries.pop(key, None)
        if write.gone and self.names:
            self.names = {name: key for name, key in self.names.items() if key in self.entries}
        self.checkpoint = write.checkpoint or self.checkpoint


class Disk:
    """One folder, many shards."""

    def __init__(self) -> None:
        self._tables: dict[Shard, _Table] = {}
        self._flushed: dict[Shard, _Table] = {}
        self._journal: list[_Write] = []
        self._shards: dict[Shard, SimulatedIndex] = {}
        self.full = self.tight = False

    def shard(self, shard: Shard) -> "SimulatedIndex":
        if shard not in self._shards:
            self._shards[shard] = SimulatedIndex(self, shard)
        return self._shards[shard]

    def drop(self, shard: Shard) -> None:
        self._shards.pop(shard, None)

    def table(self, shard: Shard) -> _Table:
        return self._tables.setdefault(shard, _Table())

    def write(self, write: _Write) -> None:
        self._journal.append(write)
        self.table(write.shard).apply(write)

    def flush(self) -> None:
        self._flushed = {shard: table.copy() for shard, table in self._tables.items()}
        self._journal.clear()

    def crash(self, rnd: Random) -> bool:
        """What stays is a prefix of the writes: as often as not all of them."""
        kept = len(self._journal)
        if rnd.random() < 0.5:
            kept = rnd.randint(0, kept)
        lost = kept < len(self._journal)
        self._tables = {shard: table.copy() for shard, table in self._flushed.items()}
        for write in self._journal[:kept]:
            self.table(write.shard).apply(write)
        self._shards.clear()
        self.flush()
        return lost

    def leave_foreign(self, shard: Shard, now_ms: int) -> None:
        fill_with_foreign(self.shard(shard), now_ms)
        self.flush()


class TwinDisk:
    """The same around the product's index without a disk."""

    def __init__(self) -> None:
        self.full = self.tight = False
        self._index = MemoryIndex(lambda: 0 if self.full else 1, disk_free_min_bytes=1)

    def shard(self, shard: Shard) -> ShardIndex:
        return self._index.shard(shard)

    def drop(self, shard: Shard) -> None:
        self._index.drop(shard)

    def flush(self) -> None:
        self._index.flush()

    def crash(self, rnd: Random) -> bool:
        written = self._index.written
        kept = rnd.randint(self._index.flushed, written)
        self._index = self._index.crash(kept)
        return kept < written

    def leave_foreign(self, shard: Shard, now_ms: int) -> None:
        fill_with_foreign(self._index.shard(shard), now_ms)
        self.flush()


def fill_with_foreign(index: ShardIndex, now_ms: int) -> None:
    """A record of another topic, and a checkpoint that vouches for it."""
    index.put([Entry(now_ms, 0, FOREIGN_VALUE)], None)
    index.remove([], FOREIGN_CHECKPOINT)


class SimulatedIndex:
    """`store.index.ShardIndex`; see there for what each method promises."""

    def __init__(self, disk: Disk, shard: Shard) -> None:
        self._disk = disk
        self._shard = shard
        self._memory: dict[Key, Entry] = {}
        self._names: dict[bytes, Key] = {}

    def _all(self) -> dict[Key, Entry]:
        return self._disk.table(self._shard).entries | self._memory

    def checkpoint(self) -> Checkpoint | None:
        return self._disk.table(self._shard).checkpoint

    def reset(self) -> None:
        self._memory.clear()
        self._disk.write(_Write(self._shard, clear=True))

    def retain(self, low_offset: int, resume_offset: int, covered: Covered) -> None:
        next_offset, delivered_key = covered

        def stale(key: Key) -> bool:
            ended = key.offset < next_offset and key <= delivered_key
            return ended or not low_offset <= key.offset < resume_offset

        self._drop([key for key in self._all() if stale(key)])

    def retaining(self, low_offset: int, resume_offset: int, covered: Covered) -> Iterator[None]:
        self.retain(low_offset, resume_offset, covered)
        yield from ()

    def put(
        self, plain: Sequence[PlainEntry], near_until_ms: int | None, names: Iterable[tuple[bytes, Key]] = ()
    ) -> None:
        present, names, entries = self._all(), list(names), list(map(Entry._make, plain))
        assert not any(entry.key in present for entry in entries), "the contract: not present yet"
        near = [] if near_until_ms is None else [entry for entry in entries if entry.due_ms <= near_until_ms]
        if self._disk.full and len(near) < len(entries):
            raise StoreFull("no room")
        self._memory.update((entry.key, entry) for entry in near)
        for name, key in names:
            self._names.pop(name, None)
            if key in self._memory:
                self._names[name] = key
        if len(near) < len(entries):
            far = [entry for entry in entries if entry.key not in self._memory]
            named = [(name, key) for name, key in names if key not in self._memory]
            self._disk.write(_Write(self._shard, far, names=named))

    def bind(self, name: bytes, key: Key) -> None:
        assert key in self._all(), "the contract: present"
        if (self._disk.full or self._disk.tight) and key not in self._memory:
            raise StoreFull("no room")
        self._names.pop(name, None)
        if key in self._memory:
            self._names[name] = key
        else:
            self._disk.write(_Write(self._shard, names=[(name, key)]))

    def due(self, until_ms: int, records_max: int, bytes_max: int) -> list[PlainEntry]:
        found = [entry for entry in sorted(self._all().values())[:records_max] if entry.due_ms <= until_ms]
        total = 0
        taken: list[PlainEntry] = []
        for entry in found:
            total += len(entry.value)
            if taken and total > bytes_max:
                break
            taken.append((*entry.key, entry.value))
        return taken

    def next_due_ms(self) -> int | None:
        return min((key.due_ms for key in self._all()), default=None)

    def remove(self, keys: Sequence[tuple[int, int]], checkpoint: Checkpoint) -> None:
        present, gone = self._all(), list(map(Key._make, keys))
        assert gone == sorted(gone), "the contract: ascending"
        assert all(key in present for key in gone), "the contract: present"
        self._drop(gone, checkpoint)

    def _drop(self, keys: Sequence[Key], checkpoint: Checkpoint | None = None) -> None:
        on_disk = [key for key in keys if self._memory.pop(key, None) is None]
        if on_disk or checkpoint:
            self._disk.write(_Write(self._shard, (), on_disk, checkpoint))

    def discard(self, key: Key) -> bool:
        found = key in self._all()
        if found:
            self._drop([key])
        return found

    def get(self, key: Key) -> bytes | None:
        entry = self._all().get(key)
        return entry.value if entry else None

    def lookup(self, name: bytes) -> Key | None:
        key = self._names.get(name) or self._disk.table(self._shard).names.get(name)
        return key if key in self._all() else None

    def low_offset(self) -> int | None:
        return _rounded(self._all())

    def memory_low(self) -> int | None:
        return _rounded(self._memory)

    def memory_bytes(self) -> int:
        return sum(len(entry.value) for entry in self._memory.values())

    def pending(self) -> int:
        return len(self._all())

    def repeats(self) -> int:
        return sum(is_repeat(entry.value) for entry in self._all().values())

    def histogram(self, buckets: Buckets) -> list[int]:
        slots = [buckets.slot(key.due_ms // 60_000) for key in self._all()]
        return [slots.count(slot) for slot in range(buckets.number + 2)]

    def scan(self, after: Key, limit: int, bytes_max: int = SCAN_BYTES_MAX) -> list[Entry]:
        """No more than `limit`, and even fewer than it could be: whoever wants all of them asks again."""
        bytes_max = min(bytes_max, SCANNED_BYTES_MAX)
        found = sorted(entry for key, entry in self._all().items() if key > after)[:limit]
        sizes = accumulate(len(entry.value) for entry in found)
        return [
            entry for at, (entry, size) in enumerate(zip(found, sizes, strict=True)) if not at or size <= bytes_max
        ]

    def keys(self, after: Key, limit: int) -> list[Key]:
        return sorted(key for key in self._all() if key > after)[:limit]


def _rounded(entries: Iterable[Key]) -> int | None:
    lowest = min((key.offset for key in entries), default=None)
    return None if lowest is None else lowest - lowest % SEGMENT
