"""RocksDB as the index uses it: one column family, no write-ahead log, bounded memory, errors with meaning.

Without a write-ahead log a write lives in the memtable until a flush. Memtables are flushed in the order of their
writes, so after a SIGKILL the database is in a state it once had: a prefix of its writes. That holds within one
column family only, which is why there is one.

On a full disk RocksDB refuses every write, keeps reading, and resumes by itself within 5 s of space coming back
(it polls; nothing in memory is lost), so nothing has to be opened again. It resumes only if writers leave it alone
now and then: a writer that tried again at once kept it from resuming for 30 s, so refusals are remembered a while.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from delayline.clock import Clock, SystemClock
from delayline.process.links import linked, no_file, refuse_irregular, unreadable
from store.errors import StoreDamaged, StoreError, StoreFormat, StoreFull, StoreLocked, StoreUnusable
from store.index import RESERVE_SHARE
from store.keys import FORMAT, FORMAT_ROW, decode_number, encode_number

MEMORY_BYTES_MIN = 8 << 20
_LOCK, _ROCKS, _DAMAGED = "LOCK", "rocksdb", "DAMAGED"
RANGES_PER_MEMTABLE_MAX = 4096
_FREE_CHECK_BYTES = 4 << 20
_FREED_BYTES_MAX = 64 << 20
_REFUSED_S = 0.2


def _meaning(error: Exception) -> StoreError:
    """rocksdict raises plain exceptions; their text is RocksDB's status."""
    text = str(error)
    # The order matters: RocksDB reports a full disk as an "IO error", which otherwise means that the folder is lost.
    if "No space left on device" in text:
        return StoreFull(text)
    if text.startswith("Corruption"):
        return StoreDamaged(f"damaged: {text}")
    if text.startswith("Invalid argument"):
        return StoreFormat(text)
    return StoreUnusable(text)


@contextmanager
def _with_meaning(mark: Path | None = None) -> Iterator[None]:
    """Errors of rocksdict as ours. Damage found in use leaves `mark`, so that the next opening does not trust what
    may still open."""
    try:
        yield
    except Exception as error:
        # rocksdict raises bare `Exception`. Any subclass is a bug of ours, and must not pass for trouble of the disk.
        if type(error) is not Exception:
            raise
        meaning = _meaning(error)
        if mark is not None and isinstance(meaning, StoreDamaged):
            # Other blocks can still be read: without the mark a restart would open the database and use it.
            mark.touch()
        raise meaning from error


class FreeSpace:
    """Refuses to take in more while less than `min_bytes` are free.

    Asked at most once per 4 MiB taken in, or every time while the last answer was no: the margin must be larger."""

    def __init__(self, free_bytes: Callable[[], int], min_bytes: int) -> None:
        self._free_bytes = free_bytes
        self._min_bytes = min_bytes
        self._unchecked = _FREE_CHECK_BYTES

    def admit(self, size: int, *, reserve: bool) -> None:
        """`reserve`: down to a quarter of what is to stay free. Raises StoreFull."""
        # statvfs costs microseconds, and is asked for once per 4 MiB instead of once per batch.
        self._unchecked += size
        if self._min_bytes <= 0 or self._unchecked < _FREE_CHECK_BYTES:
            return
        kept = self._min_bytes // RESERVE_SHARE if reserve else self._min_bytes
        if (free := self._free_bytes()) < kept:
            raise StoreFull(f"{free} bytes are free on the disk, {kept} are to stay free")
        # Only after a good answer: while the disk is full every call asks again, so that the first free space is
        # noticed.
        self._unchecked = size


class Database:
    """Rows of bytes in key order. Everything here may raise StoreUnusable; what may raise StoreFull is documented
    so."""

    def __init__(
        self, rocks: Rdict, options: Options, lock: int, space: FreeSpace, clock: Clock, damaged: Path | None
    ) -> None:
        self._rocks = rocks
        self._damaged = damaged
        self._clock = clock
        self._refused: tuple[float, StoreFull] | None = None
        self._options = options
        self._lock = lock
        self.space = space
        self.ranges = 0
        """Range deletions since the last flush that was asked for here; `_freed_bytes` likewise."""
        self._freed_bytes = 0
        self._unlogged = WriteOptions()
        # The queue is the log: a write-ahead log of the index would fsync what can be read again from the buffer.
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # a property, unlike its stub

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        memory_bytes_max: int,
        free_bytes: Callable[[], int] | None = None,
        disk_free_min_bytes: int = 0,
        statistics: bool = False,
        clock: Clock | None = None,
    ) -> "Database":
        """Raises StoreLocked, StoreFormat, StoreUnusable, StoreFull."""
        lock = _lock(folder)
        try:
            _refuse_foreign(folder)
            _refuse_obstacles(folder)
            # Checked before RocksDB opens, which would create files in a folder that is not ours.
            options = _options(memory_bytes_max, statistics=statistics)
            with _with_meaning(), _opening():
                rocks = Rdict(str(folder / _ROCKS), options)
            space = FreeSpace(free_bytes or (lambda: shutil.disk_usage(folder).free), disk_free_min_bytes)
            database = cls(rocks, options, lock, space, clock or SystemClock(), folder / _DAMAGED)
            # Last, because it may write the format row: a foreign or damaged folder has been refused by now.
            database._check_format()
        except StoreError as error:
            os.close(lock)
            raise type(error)(f"time index {folder}: {error}") from error
        return database

    @classmethod
    @contextmanager
    def to_read(cls, folder: Path) -> "Iterator[Database | None]":
        """What is in the folder, of which nothing is changed; None where there is no index. Raises StoreLocked,
        StoreFormat, StoreUnusable, StoreDamaged."""
        with ExitStack() as held:
            lock = _lock(folder, make=False)
            held.callback(os.close, lock)
            try:
                database = cls._linked(folder, lock, held) if folder.exists() else None
            except StoreError as error:
                raise type(error)(f"time index {folder}: {error}") from error
            yield database

    @classmethod
    def _linked(cls, folder: Path, lock: int, held: ExitStack) -> "Database | None":
        rocks = folder / _ROCKS
        _refuse_foreign(folder)
        _refuse_obstacles(folder)
        if not (rocks / "CURRENT").exists():
            return None
        # Opened through hard links: even a read-only open writes settings and log files, and a verify must change
        # nothing.
        links = held.enter_context(linked(rocks))
        options = _options(MEMORY_BYTES_MIN, statistics=False)
        try:
            with _with_meaning(), _opening():
                db = Rdict(str(links), options, access_type=AccessType.read_only(False))
        except StoreError as error:
            raise type(error)(str(error).replace(str(links), str(rocks))) from error
        held.callback(db.close)
        return cls(db, options, lock, FreeSpace(lambda: 0, 0), SystemClock(), None)

    @staticmethod
    def discard(folder: Path) -> None:
        """Throw away what a damaged folder holds. Raises StoreLocked, StoreUnusable."""
        lock = _lock(folder)
        try:
            if (folder / _ROCKS).is_dir() and not (folder / _ROCKS).is_symlink():
                shutil.rmtree(folder / _ROCKS, ignore_errors=True)
            else:
                (folder / _ROCKS).unlink(missing_ok=True)
            (folder / _DAMAGED).unlink(missing_ok=True)
        finally:
            os.close(lock)

    def _check_format(self) -> None:
        try:
            found = self.get(FORMAT_ROW)
            # The format number is the first row ever written, and a crash leaves a prefix of the writes: rows without
            # one are not ours.
            if found is None and next(self.keys(b"", ReadOptions()), None) is not None:
                raise StoreFormat("it has rows but no format number")
            if found is not None and (number := decode_number(found)) != FORMAT:
                raise StoreFormat(f"it is of format {number}, this program knows {FORMAT}")
            if found is None:
                self.write_row(FORMAT_ROW, encode_number(FORMAT))
        except StoreError:
            self._rocks.close()
            raise

    def batch(self) -> WriteBatch:
        return WriteBatch(raw_mode=True)

    def write(self, batch: WriteBatch, ranges: int = 0, freed_bytes: int = 0) -> None:
        """All of the batch or nothing; it holds `ranges` range deletions, of about `freed_bytes` of rows.
        Raises StoreFull."""
        if self._refused is not None and self._clock.monotonic_s() < self._refused[0]:
            # RocksDB resumes by itself only while no writer tries (see above), so refusals are answered from memory
            # for a while.
            raise StoreFull(str(self._refused[1]))
        try:
            self._write(batch, ranges, freed_bytes)
        except StoreFull as error:
            self._refused = self._clock.monotonic_s() + _REFUSED_S, error
            raise
        self._refused = None

    def _write(self, batch: WriteBatch, ranges: int, freed_bytes: int) -> None:
        with _with_meaning(self._damaged):
            # After a write, the next iterator sorts the memtable's range deletions anew: some 6 ns for each. And only
            # what is flushed can be compacted: 561 MB half drained stayed 561 MB until a flush made them 325.
            # The flush goes first, so that an error always means that the batch was not written.
            if self.ranges + ranges > RANGES_PER_MEMTABLE_MAX or self._freed_bytes > _FREED_BYTES_MAX:
                self._rocks.flush(wait=False)
                self.ranges = self._freed_bytes = 0
            self._rocks.write(batch, self._unlogged)
            self.ranges += ranges
            self._freed_bytes += freed_bytes

    def write_row(self, key: bytes, value: bytes) -> None:
        """Raises StoreFull."""
        batch = self.batch()
        batch.put(key, value)
        self.write(batch)

    def remove_rows(self, rows: Iterable[bytes]) -> None:
        """Raises StoreFull."""
        batch = self.batch()
        for row in rows:
            batch.delete(row)
        self.write(batch)

    def get(self, key: bytes) -> bytes | None:
        with _with_meaning(self._damaged):
            value: bytes | None = self._rocks.get(key)
        return value

    def rows(self, start: bytes, bound: ReadOptions) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `start` on, up to the bound. Hot.

        rocksdict's own `items` ends silently where a block is damaged, hence the status at the end."""
        with _with_meaning(self._damaged):
            rows = self._rocks.iter(bound)
            rows.seek(start)
            valid, key, value, advance = rows.valid, rows.key, rows.value, rows.next
            while valid():
                yield key(), value()
                advance()
            rows.status()

    # Apart from `rows`, because values of a megabyte would be copied for a scan that only wants keys.
    def keys(self, start: bytes, bound: ReadOptions) -> Iterator[bytes]:
        """As `rows`, without copying values."""
        with _with_meaning(self._damaged):
            rows = self._rocks.iter(bound)
            rows.seek(start)
            valid, key, advance = rows.valid, rows.key, rows.next
            while valid():
                yield key()
                advance()
            rows.status()

    def flush(self) -> None:
        """Make every write durable. Raises StoreFull."""
        with _with_meaning(self._damaged):
            self._rocks.flush()
        self.ranges = self._freed_bytes = 0

    def compact(self) -> None:
        """Rewrite every file, without what was deleted."""
        with _with_meaning(self._damaged):
            self._rocks.compact_range(None, None)

    def disk_bytes(self) -> int:
        """The size of the files that hold rows."""
        return self._rocks.property_int_value("rocksdb.live-sst-files-size") or 0

    def statistics(self) -> dict[str, int]:
        """RocksDB's counters, if `open` was asked to keep them."""
        lines = (self._options.get_statistics() or "").splitlines()
        counters = (line.partition(" COUNT : ") for line in lines)
        return {name: int(count) for name, _, count in counters if count.isdigit()}

    def close(self) -> None:
        """Flush and let go of the folder. Raises StoreFull where the latest writes are lost; it is closed all the
        same."""
        try:
            with _with_meaning(self._damaged):
                self._rocks.close()
        finally:
            del self._rocks  # where the flush failed, only this closes it
            os.close(self._lock)


def bounded_by(end: bytes) -> ReadOptions:
    """Read options that end before `end`."""
    bound = ReadOptions()
    bound.set_iterate_upper_bound(end)
    return bound


def _lock(folder: Path, *, make: bool = True) -> int:
    """The file descriptor that holds the folder's lock; the kernel lets go of it when the process ends. It
    holds nothing where there is none, and none is to be made."""
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        refuse_irregular(folder / _LOCK)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o644)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not make and not _leads_nowhere(folder):
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        where = f": {error.filename}" if error.filename != str(folder) else ""
        raise StoreUnusable(f"time index {folder}: cannot be made or written: {error.strerror}{where}") from error
    try:
        # flock and not a pid file: the kernel releases it after kill -9, so a restart never finds a stale lock.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise StoreLocked(f"time index {folder}: it is in use by another process") from error
    return lock


def _leads_nowhere(folder: Path) -> bool:
    return any(path.is_symlink() and not path.exists() for path in (folder, folder / _LOCK))


def _refuse_foreign(folder: Path) -> None:
    if foreign := sorted(path.name for path in folder.iterdir() if path.name not in {_LOCK, _ROCKS, _DAMAGED}):
        raise StoreFormat(f"it holds something else: {', '.join(foreign[:3])}")


def _refuse_obstacles(folder: Path) -> None:
    """What RocksDB could not open, or only after it has changed something. Raises StoreDamaged (what is there may be
    thrown away), StoreUnusable (it cannot be read)."""
    rocks = folder / _ROCKS
    if (folder / _DAMAGED).exists():
        raise StoreDamaged("damage was found while it was in use")
    if not os.path.lexists(rocks):
        return
    if not rocks.is_dir():
        raise StoreDamaged(f"{rocks} is no folder")
    try:
        path = unreadable(rocks)
        obstacle = "" if path is not None else no_file(rocks)
    except OSError as error:
        raise StoreUnusable(f"{rocks} cannot be read: {error.strerror}") from error
    if path is not None:
        raise StoreUnusable(f"{path} cannot be read: Permission denied. Give the server's user the right to read it")
    if obstacle:
        raise StoreDamaged(obstacle)
    # RocksDB would take this for a new database, and delete the tables that its list does not name.
    if not (rocks / "CURRENT").exists() and next(rocks.glob("*.sst"), None) is not None:
        raise StoreDamaged(f"{rocks} holds tables, but no list of them (CURRENT)")


@contextmanager
def _opening() -> Iterator[None]:
    """A file that RocksDB's list names, and is gone, is damage as any other."""
    try:
        yield
    except Exception as error:
        if type(error) is Exception and "No such file or directory" in str(error):
            raise Exception(f"Corruption: {error}") from error
        raise


def _options(memory_bytes_max: int, *, statistics: bool) -> Options:
    """Three memtables of an eighth each, a quarter for blocks, indexes and filters; the rest is for compactions and
    what the allocator does not give back."""
    memory = max(memory_bytes_max, MEMORY_BYTES_MIN)
    memtable = memory // 8
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(memtable)
    options.set_max_write_buffer_number(3)
    options.set_target_file_size_base(memtable)
    options.set_max_bytes_for_level_base(4 * memtable)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_open_files(512)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_block_based_table_factory(_tables(memory // 4))
    if statistics:
        options.enable_statistics()
    return options


def _tables(cache_bytes: int) -> BlockBasedOptions:
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(cache_bytes))
    tables.set_block_size(16 << 10)
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    tables.set_bloom_filter(10, block_based=False)
    return tables
