"""The time index on RocksDB: near-due records in `store.memory_tier`, the others in `store.disk_tier`."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import structlog

from delayline.errors import Bug
from delayline.records.message import Key, Shard
from store import keys
from store.counts import Counts
from store.database import Database, bounded_by
from store.disk_tier import DiskTier
from store.errors import StoreDamaged, StoreError, StoreFormat, StoreFull
from store.index import SCAN_BYTES_MAX, Buckets, Checkpoint, Covered, Entry, PlainEntry, ShardIndex
from store.memory_tier import MemoryTier

if TYPE_CHECKING:
    from delayline.encryption.data_key import DataKey

log = structlog.get_logger(__name__)

_AnyEntry = TypeVar("_AnyEntry", bound=PlainEntry)
_DUE, _OFFSET, _VALUE = itemgetter(0), itemgetter(1), itemgetter(2)


def verify(folder: Path, data_key: "DataKey | None" = None) -> None:
    """Read every row of the index in `folder`, and change nothing. Raises StoreDamaged, StoreLocked, StoreFormat,
    StoreUnusable."""
    with Database.to_read(folder, data_key) as database:
        if database is not None:
            database.check_values()


def checkpoints_in(folder: Path, data_key: "DataKey | None" = None) -> dict[Shard, Checkpoint]:
    """How far the index in `folder` has read the logs of its shards; nothing is changed. Raises as `verify` does."""
    with Database.to_read(folder, data_key) as database:
        return {} if database is None else RocksIndex(database).checkpoints()


def discard_plain(folder: Path, data_key: "DataKey") -> bool:
    """Delete an index that is not encrypted; whether there was one. Raises as `verify` does, also where it is
    encrypted with another data key."""
    try:
        with Database.to_read(folder, data_key):
            return False
    except StoreFormat:
        with Database.to_read(folder):
            pass
    Database.discard(folder)
    return True


class RocksIndex:
    """A `TimeIndex` in one folder. Raises StoreDamaged or StoreUnusable from anywhere when the folder is damaged or
    lost; it must then be opened anew."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._shards: dict[Shard, RocksShard] = {}
        rows = database.rows(keys.SHARD_ROWS, bounded_by(keys.SHARD_ROWS + b"\xff"))
        self._numbers = {keys.shard_of(row): keys.decode_number(number) for row, number in rows}

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        memory_bytes_max: int,
        free_bytes: Callable[[], int] | None = None,
        disk_free_min_bytes: int = 0,
        data_key: "DataKey | None" = None,
    ) -> "RocksIndex":
        """The index in `folder`, made where it does not exist.

        RocksDB takes about `memory_bytes_max` (at least 8 MiB), records held only in memory come on top. `put` is
        refused while less than `disk_free_min_bytes` are free; `free_bytes` returns how many are. A damaged index is
        thrown away: it is a cache, and its owner reads the log again. With a `data_key` it is encrypted; one that is
        encrypted in another way is refused (StoreFormat) and left as it is.
        Raises StoreLocked, StoreFormat, StoreUnusable, StoreFull."""
        opening = partial(
            Database.open,
            folder,
            memory_bytes_max=memory_bytes_max,
            free_bytes=free_bytes,
            disk_free_min_bytes=disk_free_min_bytes,
            data_key=data_key,
        )
        try:
            return cls._over(opening())
        except StoreDamaged as error:
            log.error("the time index is damaged: thrown away, to be rebuilt from the queue", detail=str(error))
            # Safe, because the index is a cache: the cursor records where to read the log again.
            Database.discard(folder)
            return cls._over(opening())

    @classmethod
    def _over(cls, database: Database) -> "RocksIndex":
        try:
            return cls(database)
        except StoreError:
            database.close()
            raise

    def shard(self, shard: Shard) -> ShardIndex:
        """Raises StoreFull for a shard that was never here before."""
        if shard not in self._shards:
            self._shards[shard] = RocksShard(DiskTier(self._database, self._number(shard)))
        return self._shards[shard]

    def _number(self, shard: Shard) -> int:
        if shard not in self._numbers:
            # Numbers are never given twice while their shard is known; 0 belongs to the index itself (`keys`).
            number = max(self._numbers.values(), default=0) + 1
            if number > keys.SHARD_NUMBER_MAX:
                raise Bug("more shards than numbers")
            # Before the number is used: rows under a number that no shard row names would stay for ever.
            self._database.write_row(keys.shard_row(shard), keys.encode_number(number))
            self._numbers[shard] = number
        return self._numbers[shard]

    def checkpoints(self) -> dict[Shard, Checkpoint]:
        """How far it has read the logs of all shards that were ever here."""
        rows = {shard: self._database.get(keys.checkpoint_row(number)) for shard, number in self._numbers.items()}
        return {shard: keys.decode_checkpoint(row) for shard, row in rows.items() if row is not None}

    def forget(self, shards: Iterable[Shard]) -> None:
        """Remove everything of shards whose topic was deleted. Raises StoreFull."""
        for shard in shards:
            if (number := self._numbers.pop(shard, None)) is not None:
                DiskTier(self._database, number).reset()
                # Last: after a crash in between the shard is still known, and forgotten again.
                self._database.remove_rows([keys.shard_row(shard), keys.checkpoint_row(number)])

    def drop(self, shard: Shard) -> None:
        # The rows stay: the shard may come back, and its next takeover drops what has ended (`retain`).
        self._shards.pop(shard, None)

    def flush(self) -> None:
        """Raises StoreFull."""
        self._write_owed()
        self._database.flush()

    def _write_owed(self) -> None:
        for shard in self._shards.values():
            shard.write_owed()

    def disk_bytes(self) -> int:
        """The size of the files that hold records; what was written lately may not be in them yet."""
        return self._database.disk_bytes()

    def compact(self) -> None:
        """Give back the room of what has left; for measurements, RocksDB does it by itself."""
        self._database.compact()

    def close(self) -> None:
        """On a full disk the latest writes are lost, as after a crash."""
        try:
            try:
                self._write_owed()
            finally:
                self._database.close()
        except StoreFull as error:
            log.warning("index closed without its latest writes: no room on disk", detail=str(error))


class RocksShard:
    """A `ShardIndex`. One that finds rows of an earlier time shows none of them before `retain` or `reset`."""

    def __init__(self, disk: DiskTier) -> None:
        self._disk = disk
        self._memory = MemoryTier()
        self._counts = Counts()
        # Rows of an earlier time may be of records that another owner has ended since: shown, they would be delivered
        # twice.
        self._ready = not disk.has_rows()

    def checkpoint(self) -> Checkpoint | None:
        return self._disk.checkpoint()

    def reset(self) -> None:
        """Raises StoreFull."""
        self._disk.reset()
        self._memory, self._counts = MemoryTier(), Counts()
        self._ready = True

    def retain(self, low_offset: int, resume_offset: int, covered: Covered) -> None:
        deque(self.retaining(low_offset, resume_offset, covered), maxlen=0)

    def retaining(self, low_offset: int, resume_offset: int, covered: Covered) -> Iterator[None]:
        """Records held only in memory go: they are above every checkpoint, so above `resume_offset`.
        Raises StoreFull; then it must be asked again."""
        self._ready = False
        self._memory, self._counts = MemoryTier(), Counts()
        # A failure in between leaves it unready: half of a retain must not be read.
        yield from self._disk.retain(low_offset, resume_offset, covered, self._counts)
        self._ready = True

    def put(
        self, entries: Sequence[PlainEntry], near_until_ms: int | None, names: Iterable[tuple[bytes, Key]] = ()
    ) -> None:
        self._require_ready()
        if not entries:
            return
        ordered = sorted(entries)  # what is written in order takes RocksDB half the time
        border = -1 if near_until_ms is None else near_until_ms
        # One border for records and names: a name on disk whose record is only in memory would outlive it after a
        # crash.
        disk_at = bisect_left(ordered, (border + 1,))
        memory, disk = ordered[:disk_at], ordered[disk_at:]
        names = list(names)
        disk_names = [(name, key) for name, key in names if key[0] > border]
        if disk:
            # Disk first: it may raise StoreFull, and then nothing of the call may be present.
            self._disk.put(disk, disk_names, reserve=near_until_ms is None)
        for name, _ in disk_names:
            self._memory.forget_name(name)
        if memory:
            self._memory.put(memory, [(name, key) for name, key in names if key[0] <= border])
        self._counts.add(list(map(_DUE, ordered)), list(map(_OFFSET, disk)))
        self._counts.repeats.add(ordered)

    def bind(self, name: bytes, key: Key) -> None:
        self._require_ready()
        if self._memory.get(key) is not None:
            self._memory.bind(name, key)
        else:
            self._disk.bind(name, key)
            self._memory.forget_name(name)

    def due(self, until_ms: int, records_max: int, bytes_max: int) -> list[PlainEntry]:
        memory = self._memory.take(until_ms, records_max)
        # Both tiers are asked for everything: which of them holds the lowest keys is known only after both have
        # answered.
        disk = self._disk.read(until_ms, records_max, bytes_max)
        return _cut(sorted(memory + disk) if memory and disk else memory or disk, records_max, bytes_max)

    def next_due_ms(self) -> int | None:
        lowest = (self._memory.next_due_ms(), self._disk.next_due_ms())
        return min((due_ms for due_ms in lowest if due_ms is not None), default=None)

    def remove(self, keys: Sequence[tuple[int, int]], checkpoint: Checkpoint) -> None:
        self._require_ready()
        # What memory does not have is on disk: callers remove only records that are present.
        disk = self._memory.remove(keys) if self._memory else keys
        # Even if nothing of it is on disk: the checkpoint has to be written with the removal.
        self._disk.remove(disk, checkpoint)
        self._counts.subtract(list(map(_DUE, keys)), list(map(_OFFSET, disk)))
        self._counts.repeats.subtract(keys)

    def discard(self, key: Key) -> bool:
        self._require_ready()
        disk = self._memory.remove([key])
        if disk and not self._disk.discard(key):
            return False
        self._counts.subtract([key.due_ms], [offset for _, offset in disk])
        self._counts.repeats.subtract([key])
        return True

    def get(self, key: Key) -> bytes | None:
        held = self._memory.get(key)
        return held if held is not None else self._disk.get(key) if self._ready else None

    def lookup(self, name: bytes) -> Key | None:
        return self._memory.lookup(name) or (self._disk.lookup(name) if self._ready else None)

    def low_offset(self) -> int | None:
        # By segment, so it may be lower than the true one by less than SEGMENT_OFFSETS: L may lag, but never lead.
        lows = (self._memory.segments.low_offset(), self._counts.segments.low_offset())
        return min((low for low in lows if low is not None), default=None)

    def memory_low(self) -> int | None:
        return self._memory.segments.low_offset()

    def memory_bytes(self) -> int:
        return self._memory.bytes

    def pending(self) -> int:
        return self._counts.pending

    def repeats(self) -> int:
        return len(self._counts.repeats)

    def histogram(self, buckets: Buckets) -> list[int]:
        return self._counts.minutes.histogram(buckets)

    def scan(self, after: Key, limit: int, bytes_max: int = SCAN_BYTES_MAX) -> list[Entry]:
        memory, disk = self._memory.scan(after, limit), self._disk.scan(after, limit, bytes_max)
        return _cut(sorted(memory + disk), limit, bytes_max)

    def keys(self, after: Key, limit: int) -> list[Key]:
        return sorted(self._memory.keys(after, limit) + self._disk.keys(after, limit))[:limit]

    def write_owed(self) -> None:
        """Write removals that a full disk had refused. Raises StoreFull."""
        self._disk.write_owed()

    def _require_ready(self) -> None:
        if not self._ready:
            raise Bug("a shard with rows of an earlier time needs retain or reset first")


def _cut(entries: list[_AnyEntry], records_max: int, bytes_max: int) -> list[_AnyEntry]:
    """The first entries within both bounds, at least one."""
    del entries[records_max:]
    if sum(map(len, map(_VALUE, entries))) <= bytes_max:
        return entries
    sizes = accumulate(map(len, map(_VALUE, entries)))
    return entries[: max(1, sum(size <= bytes_max for size in sizes))]
