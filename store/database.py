"""RocksDB as the index uses it: one column family, no write-ahead log, bounded memory, errors with meaning.

Without a write-ahead log a write lives in the memtable until a flush. Memtables are flushed in the order of their
writes, so after a SIGKILL the database is in a state it once had: a prefix of its writes. That holds within one
column family only, which is why there is one.

On a full disk RocksDB refuses every write, keeps reading, and resumes by itself within 5 s of space coming back
(it polls; nothing in memory is lost), so nothing has to be opened again. It resumes only if writers leave it alone
now and then: a writer that tried again at once kept it from resuming for 30 s, so refusals are remembered a while.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import AccessType, Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from delayline.clock import Clock, SystemClock
from delayline.errors import Altered
from delayline.process.links import linked
from store.errors import StoreDamaged, StoreError, StoreFormat, StoreFull, StoreUnusable
from store.folder import DAMAGED, ROCKS, lock_of, refuse_foreign, refuse_obstacles
from store.index import RESERVE_SHARE
from store.keys import (
    DATA_KEY_ROW,
    ENCRYPTED_FORMAT,
    FORMAT,
    FORMAT_ROW,
    RECORD_BYTES,
    decode_number,
    encode_number,
)
from store.tuning import MEMORY_BYTES_MIN, options_of

if TYPE_CHECKING:
    from delayline.encryption.cipher import Cipher
    from delayline.encryption.data_key import DataKey

PURPOSE = b"index"
"""Of the cipher for an index."""

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
        raise _found(meaning, mark) if isinstance(meaning, StoreDamaged) else meaning from error


def _found(damage: StoreDamaged, mark: Path | None) -> StoreDamaged:
    """In use, if there is a `mark`: other blocks can still be read, and without it a restart would open the database
    and use it."""
    if mark is None:
        return damage
    mark.touch()
    return StoreDamaged(f"{damage}; the next start rebuilds the time index in {mark.parent} from the queue")


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
        self,
        rocks: Rdict,
        options: Options,
        lock: int,
        space: FreeSpace,
        clock: Clock,
        damaged: Path | None,
        cipher: "Cipher | None",
    ) -> None:
        self.cipher = cipher
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
        data_key: "DataKey | None" = None,
    ) -> "Database":
        """With a `data_key` the values of records are encrypted, and names hidden.
        Raises StoreLocked, StoreFormat, StoreUnusable, StoreFull."""
        lock = lock_of(folder)
        try:
            refuse_foreign(folder)
            refuse_obstacles(folder)
            # Checked before RocksDB opens, which would create files in a folder that is not ours.
            options = options_of(memory_bytes_max, statistics=statistics)
            with _with_meaning(), _opening():
                rocks = Rdict(str(folder / ROCKS), options)
            space = FreeSpace(free_bytes or (lambda: shutil.disk_usage(folder).free), disk_free_min_bytes)
            cipher = None if data_key is None else data_key.cipher(PURPOSE)
            database = cls(rocks, options, lock, space, clock or SystemClock(), folder / DAMAGED, cipher)
            # Last, because it may write the format row: a foreign or damaged folder has been refused by now.
            database._check_format()
        except StoreError as error:
            os.close(lock)
            raise type(error)(f"time index {folder}: {error}") from error
        return database

    @classmethod
    @contextmanager
    def to_read(cls, folder: Path, data_key: "DataKey | None" = None) -> "Iterator[Database | None]":
        """What is in the folder, of which nothing is changed; None where there is no index. Raises StoreLocked,
        StoreFormat, StoreUnusable, StoreDamaged."""
        with ExitStack() as held:
            lock = lock_of(folder, make=False)
            held.callback(os.close, lock)
            try:
                database = cls._linked(folder, lock, held, data_key) if folder.exists() else None
            except StoreError as error:
                raise type(error)(f"time index {folder}: {error}") from error
            yield database

    @classmethod
    def _linked(cls, folder: Path, lock: int, held: ExitStack, data_key: "DataKey | None") -> "Database | None":
        rocks = folder / ROCKS
        refuse_foreign(folder)
        refuse_obstacles(folder)
        if not (rocks / "CURRENT").exists():
            return None
        # Opened through hard links: even a read-only open writes settings and log files, and a verify must change
        # nothing.
        links = held.enter_context(linked(rocks))
        options = options_of(MEMORY_BYTES_MIN, statistics=False)
        try:
            with _with_meaning(), _opening():
                db = Rdict(str(links), options, access_type=AccessType.read_only(False))
        except StoreError as error:
            raise type(error)(str(error).replace(str(links), str(rocks))) from error
        held.callback(db.close)
        cipher = None if data_key is None else data_key.cipher(PURPOSE)
        database = cls(db, options, lock, FreeSpace(lambda: 0, 0), SystemClock(), None, cipher)
        database._refuse_other_format()
        return database

    @staticmethod
    def discard(folder: Path) -> None:
        """Throw away what a damaged folder holds. Raises StoreLocked, StoreUnusable."""
        lock = lock_of(folder)
        try:
            if (folder / ROCKS).is_dir() and not (folder / ROCKS).is_symlink():
                shutil.rmtree(folder / ROCKS, ignore_errors=True)
            else:
                (folder / ROCKS).unlink(missing_ok=True)
            (folder / DAMAGED).unlink(missing_ok=True)
        finally:
            os.close(lock)

    def _check_format(self) -> None:
        try:
            if not self._refuse_other_format():
                # The format number is the first row ever written, and a crash leaves a prefix of the writes: rows
                # without one are not ours.
                if next(self.keys(b"", ReadOptions()), None) is not None:
                    raise StoreFormat("it has rows but no format number")
                self._write_format()
        except StoreError:
            self._rocks.close()
            raise

    def _refuse_other_format(self) -> bool:
        """Whether it has a format. Raises StoreFormat where that is another one: what is in it stays as it is."""
        row = self.get(FORMAT_ROW)
        found = None if row is None else decode_number(row)
        if found not in (None, FORMAT, ENCRYPTED_FORMAT):
            raise StoreFormat(f"it is of format {found}, this program knows {FORMAT} and {ENCRYPTED_FORMAT}")
        if found == FORMAT and self.cipher is not None:
            raise StoreFormat("it is not encrypted: `delayline data encrypt` does it")
        if found == ENCRYPTED_FORMAT and self.cipher is None:
            raise StoreFormat("it is encrypted: set store.encryption_key")
        if found == ENCRYPTED_FORMAT and self.cipher is not None and self.get(DATA_KEY_ROW) != self.cipher.key_id:
            raise StoreFormat(
                "it is encrypted with another data key than that of encryption.json: put back the file that belongs "
                "to it, or delete the folder, and it is rebuilt from the queue"
            )
        return found is not None

    def _write_format(self) -> None:
        batch = self.batch()
        if self.cipher is None:
            batch.put(FORMAT_ROW, encode_number(FORMAT))
        else:
            batch.put(FORMAT_ROW, encode_number(ENCRYPTED_FORMAT))
            batch.put(DATA_KEY_ROW, self.cipher.key_id)
        self.write(batch)

    # --- what a record's row holds

    def stored(self, rows: Iterable[bytes], values: Iterable[bytes]) -> Iterable[bytes]:
        """The values of these records, as they go into their rows. Hot: in C where nothing is encrypted."""
        return values if self.cipher is None else map(self.cipher.encrypt, values, rows)

    def value(self, row: bytes, stored: bytes) -> bytes:
        """The value of a record. Raises StoreDamaged: it is not what was written there."""
        if self.cipher is None:
            return stored
        try:
            return self.cipher.decrypt(stored, row)
        except Altered as error:
            damage = StoreDamaged(f"damaged: the value of a record: {error}")
            raise _found(damage, self._damaged) from error

    def name(self, name: bytes) -> bytes:
        """As it goes into rows."""
        return name if self.cipher is None else self.cipher.hidden(name)

    def check_values(self) -> None:
        """Read every row. Raises StoreDamaged."""
        for row, stored in self.rows(b"", ReadOptions()):
            if len(row) == RECORD_BYTES and row[:4] != b"\0\0\0\0":
                self.value(row, stored)

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


@contextmanager
def _opening() -> Iterator[None]:
    """A file that RocksDB's list names, and is gone, is damage as any other."""
    try:
        yield
    except Exception as error:
        if type(error) is Exception and "No such file or directory" in str(error):
            raise Exception(f"Corruption: {error}") from error
        raise
