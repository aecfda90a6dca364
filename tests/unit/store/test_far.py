"""What lies on disk: where a scan starts, what it walks, and what a disk without room does to it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rocksdict import ReadOptions, WriteBatch

from delayline.records.message import BEFORE_ALL, Key
from store import keys
from store.counts import Counts
from store.database import RANGES_PER_MEMTABLE_MAX, Database, bounded_by
from store.disk_tier import DiskTier
from store.errors import StoreFull
from store.index import Covered, PlainEntry
from tests.unit.store.conftest import MEMORY_BYTES, T0, checkpoint, entry, key_of

EVERYTHING = 1 << 30
WALKED = "rocksdb.number.iter.skip"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path, memory_bytes_max=MEMORY_BYTES, statistics=True)
    yield database
    database.close()


@pytest.fixture
def far(database: Database) -> DiskTier:
    return DiskTier(database, 1)


def offsets(entries: Sequence[PlainEntry]) -> list[int]:
    return [found[1] for found in entries]


def drain(far: DiskTier, records: int, at_once: int = 100) -> None:
    for _ in range(0, records, at_once):
        far.remove([key_of(found) for found in far.read(T0 + records, at_once, EVERYTHING)], None)


def walked(database: Database) -> int:
    """Rows that iterators have stepped over because they were deleted, so far."""
    return database.statistics()[WALKED]


@pytest.fixture
def starts(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Where scans started. RocksDB keeps no count of the rows under a range deletion that it steps over."""
    seen: list[bytes] = []
    rows = database.rows

    def recorded(start: bytes, bound: ReadOptions) -> Iterator[tuple[bytes, bytes]]:
        seen.append(start)
        return rows(start, bound)

    monkeypatch.setattr(database, "rows", recorded)
    return seen


def test_a_read_behind_drained_records_starts_at_the_first_one_present(far: DiskTier, starts: list[bytes]) -> None:
    far.put([entry(T0 + n, n) for n in range(3000)], [])
    drain(far, 2000)

    found = far.read(T0 + 3000, 10, EVERYTHING)

    assert offsets(found) == list(range(2000, 2010))
    assert starts[-1] == keys.encode_record(1, T0 + 2000, 2000)


def test_a_listing_starts_at_the_first_record_present(far: DiskTier, starts: list[bytes]) -> None:
    far.put([entry(T0 + n, n) for n in range(3000)], [])
    drain(far, 2000)

    assert offsets(far.scan(BEFORE_ALL, 2, 1 << 20)) == [2000, 2001]
    assert starts[-1] == keys.encode_record(1, T0 + 2000, 2000)


def test_a_scan_that_starts_too_low_walks_what_was_removed(far: DiskTier, database: Database) -> None:
    """What the tests below would see if the hint were lost."""
    far.put([entry(T0 + n, n) for n in range(1000)], [])
    for n in reversed(range(500)):
        far.discard(Key(T0 + n, n))
    before = walked(database)

    next(database.rows(keys.shard_start(1), bounded_by(keys.shard_end(1))))

    assert walked(database) - before >= 500


def test_after_single_removals_the_next_read_walks_them_once(far: DiskTier, database: Database) -> None:
    far.put([entry(T0 + n, n) for n in range(1000)], [])
    for n in reversed(range(500)):
        far.discard(Key(T0 + n, n))
    far.read(T0 + 1000, 1, EVERYTHING)
    before = walked(database)

    found = far.read(T0 + 1000, 10, EVERYTHING)

    assert offsets(found) == list(range(500, 510))
    assert walked(database) == before


def test_after_retain_the_first_read_starts_at_what_was_kept(far: DiskTier, starts: list[bytes]) -> None:
    far.put([entry(T0 + n, n) for n in range(3000)], [])
    assert len(list(far.retain(2000, 3000, Covered(0, BEFORE_ALL), Counts()))) == 3
    starts.clear()  # retain itself has looked at everything

    found = far.read(T0 + 3000, 10, EVERYTHING)

    assert offsets(found) == list(range(2000, 2010))
    assert starts == [keys.encode_record(1, T0 + 2000, 2000)]


def test_waiting_for_what_is_not_due_yet_reads_nothing(far: DiskTier, database: Database) -> None:
    far.put([entry(T0 + 1000, 1)], [])
    before = database.statistics()["rocksdb.num.iterator.created"]

    for now_ms in range(T0, T0 + 1000):
        assert far.read(now_ms, 10, EVERYTHING) == []
        assert far.next_due_ms() == T0 + 1000

    assert database.statistics()["rocksdb.num.iterator.created"] == before


def test_a_read_with_few_bytes_copies_few(far: DiskTier, database: Database) -> None:
    far.put([entry(T0 + n, n, b"x" * 10_000) for n in range(100)], [])
    before = database.statistics()["rocksdb.db.iter.bytes.read"]

    far.read(T0 + 100, 100, 30_000)

    assert database.statistics()["rocksdb.db.iter.bytes.read"] - before < 6 * 10_100


def test_a_bounded_read_and_the_loss_of_the_record_behind_it_hide_nothing(far: DiskTier) -> None:
    far.put([entry(T0 + n, n) for n in range(6)], [])
    far.remove([key_of(found) for found in far.read(T0 + 9, 2, EVERYTHING)], None)
    far.discard(Key(T0 + 2, 2))

    assert far.next_due_ms() == T0 + 3
    assert offsets(far.read(T0 + 9, 9, EVERYTHING)) == [3, 4, 5]


def test_a_put_behind_a_bounded_read_is_not_taken_for_the_next_record(far: DiskTier) -> None:
    far.put([entry(T0 + 10 * n, n) for n in range(6)], [])
    taken = far.read(T0 + 99, 2, EVERYTHING)
    far.put([entry(T0 + 35, 7)], [])

    far.remove([key_of(found) for found in taken] + [Key(T0 + 20, 2), Key(T0 + 35, 7)], None)

    assert offsets(far.read(T0 + 99, 9, EVERYTHING)) == [3, 4, 5]


@pytest.mark.slow
def test_many_range_deletions_are_flushed_before_they_slow_readers(far: DiskTier, database: Database) -> None:
    far.put([entry(T0 + n, n, b"") for n in range(5000)], [])

    drain(far, 5000, at_once=1)

    assert database.ranges < RANGES_PER_MEMTABLE_MAX


# --- a disk without room


class NoRoom:
    """Stands in for the database's writes; reads go through."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        write = database.write

        def refuse_when_full(batch: WriteBatch, ranges: int = 0, freed_bytes: int = 0) -> None:
            if self.full:
                raise StoreFull("IO error: No space left on device")
            write(batch, ranges, freed_bytes)

        monkeypatch.setattr(database, "write", refuse_when_full)


@pytest.fixture
def disk(database: Database, monkeypatch: pytest.MonkeyPatch) -> NoRoom:
    return NoRoom(database, monkeypatch)


def test_removals_that_could_not_be_written_are_not_seen_again(far: DiskTier, disk: NoRoom) -> None:
    far.put([entry(T0 + n, n) for n in range(10)], [(b"name", Key(T0 + 1, 1)), (b"late", Key(T0 + 8, 8))])
    disk.full = True

    far.remove([key_of(found) for found in far.read(T0 + 1, 9, EVERYTHING)], checkpoint(2))
    far.remove([key_of(found) for found in far.read(T0 + 3, 9, EVERYTHING)], checkpoint(4))
    far.discard(Key(T0 + 8, 8))
    far.remove([Key(T0 + 6, 6)], checkpoint(5))

    assert offsets(far.read(T0 + 9, 99, EVERYTHING)) == [4, 5, 7, 9]
    assert offsets(far.scan(BEFORE_ALL, 99, 1 << 20)) == [4, 5, 7, 9]
    assert [far.get(Key(T0 + n, n)) for n in (0, 3, 6, 8)] == [None] * 4
    assert (far.lookup(b"name"), far.lookup(b"late")) == (None, None)
    assert far.next_due_ms() == T0 + 4
    assert len(far) == 4
    assert not far.discard(Key(T0 + 6, 6))


def test_the_checkpoint_stays_with_the_removals_that_could_not_be_written(far: DiskTier, disk: NoRoom) -> None:
    far.put([entry(T0, 0)], [])
    far.remove([], checkpoint(1))
    disk.full = True

    far.remove([Key(T0, 0)], checkpoint(2))

    assert far.checkpoint() == checkpoint(1)


def test_what_is_owed_goes_with_the_next_write(far: DiskTier, database: Database, disk: NoRoom) -> None:
    far.put([entry(T0 + n, n) for n in range(5)], [])
    disk.full = True
    far.remove([key_of(found) for found in far.read(T0 + 1, 9, EVERYTHING)], checkpoint(2))
    far.discard(Key(T0 + 3, 3))
    disk.full = False

    far.put([entry(T0 + 1, 9)], [])

    on_disk = [
        offset
        for _, _, offset in keys.decode_records(database.keys(keys.shard_start(1), bounded_by(keys.shard_end(1))))
    ]
    assert on_disk == [9, 2, 4]
    assert far.checkpoint() == checkpoint(2)
    assert offsets(far.read(T0 + 9, 9, EVERYTHING)) == [9, 2, 4]


def test_a_put_that_failed_is_not_there_and_may_be_repeated(far: DiskTier, disk: NoRoom) -> None:
    far.put([entry(T0 + 5, 5)], [])
    disk.full = True
    with pytest.raises(StoreFull):
        far.put([entry(T0, 1)], [(b"name", Key(T0, 1))])
    assert (len(far), far.next_due_ms(), far.lookup(b"name")) == (1, T0 + 5, None)
    disk.full = False

    far.put([entry(T0, 1)], [(b"name", Key(T0, 1))])

    assert offsets(far.read(T0 + 9, 9, EVERYTHING)) == [1, 5]
