"""Which folders an index opens, and its error for the others."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from delayline.records.message import BEFORE_ALL, Shard
from store import keys
from store.database import Database
from store.errors import StoreDamaged, StoreFormat, StoreLocked, StoreUnusable
from store.index import Covered
from store.rocks import RocksIndex
from tests.unit.store.conftest import MEMORY_BYTES, ORDERS, T0, entry


def opened(folder: Path) -> RocksIndex:
    return RocksIndex.open(folder, memory_bytes_max=MEMORY_BYTES)


def filled(folder: Path) -> Path:
    index = opened(folder)
    index.shard(ORDERS).put([entry(T0 + n, n, os.urandom(100)) for n in range(2000)], None)
    index.close()
    return folder / "rocksdb"


def is_empty(folder: Path) -> bool:
    """Whether the index opens, holds nothing of the shard, and takes in what is put."""
    index = opened(folder)
    shard = index.shard(ORDERS)
    nothing = shard.checkpoint() is None
    shard.put([entry(T0, 1, b"a")], None)
    pending = shard.pending()
    index.close()
    return nothing and pending == 1


def finds_damage(folder: Path) -> bool:
    """Whether reading finds damage. For a process of its own: an iterator that fails keeps the database open."""
    index = opened(folder)
    try:
        index.shard(ORDERS).retain(0, 10_000, Covered(0, BEFORE_ALL))
    except StoreDamaged:
        return True
    return False


def damage_a_block(folder: Path) -> None:
    table = next(filled(folder).glob("*.sst"))
    content = bytearray(table.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = b"x" * 2000
    table.write_bytes(content)


def test_a_missing_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    opened(tmp_path / "a" / "b").close()

    assert (tmp_path / "a" / "b").is_dir()


def test_a_second_opening_is_refused_while_the_first_lasts(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(StoreLocked, match="it is in use by another process"):
        opened(tmp_path)
    first.close()

    opened(tmp_path).close()


def test_a_failed_opening_leaves_no_lock_behind(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreFormat):
        opened(tmp_path)
    (tmp_path / "notes.txt").unlink()

    opened(tmp_path).close()


def test_a_folder_with_other_things_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(StoreFormat, match=r"something else: notes\.txt"):
        opened(tmp_path)


def test_another_format_number_is_refused(tmp_path: Path) -> None:
    database = Database.open(tmp_path, memory_bytes_max=MEMORY_BYTES)
    database.write_row(keys.FORMAT_ROW, keys.encode_number(99))
    database.flush()
    database.close()

    with pytest.raises(StoreFormat, match="format 99, this program knows 1"):
        opened(tmp_path)


def test_rows_without_a_format_number_are_refused(tmp_path: Path) -> None:
    database = Database.open(tmp_path, memory_bytes_max=MEMORY_BYTES)
    batch = database.batch()
    batch.delete(keys.FORMAT_ROW)
    batch.put(b"whose", b"this")
    database.write(batch)
    database.flush()
    database.close()

    with pytest.raises(StoreFormat, match="no format number"):
        opened(tmp_path)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("a file")

    with pytest.raises(StoreUnusable, match="index: cannot be made or written"):
        opened(tmp_path / "index")


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")

    with pytest.raises(StoreUnusable, match="Not a directory"):
        opened(tmp_path / "file" / "index")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(StoreUnusable, match="cannot be made or written"):
        opened(tmp_path)


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_an_index_with_a_damaged_file_starts_empty(tmp_path: Path, pattern: str) -> None:
    damaged = next(filled(tmp_path).glob(pattern))
    damaged.write_bytes(b"junk" * 20)
    assert is_empty(tmp_path)


def test_an_index_with_a_missing_file_starts_empty(tmp_path: Path) -> None:
    next(filled(tmp_path).glob("*.sst")).unlink()
    assert is_empty(tmp_path)


def test_an_index_that_was_found_damaged_in_use_starts_empty(tmp_path: Path) -> None:
    damage_a_block(tmp_path)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        found = process.submit(finds_damage, tmp_path).result()
    assert (found, is_empty(tmp_path)) == (True, True)


def test_a_damaged_block_is_an_error_and_never_a_shorter_result(tmp_path: Path) -> None:
    damage_a_block(tmp_path)
    index = opened(tmp_path)

    with pytest.raises(StoreUnusable, match="damaged"):
        index.shard(ORDERS).retain(0, 10_000, Covered(0, BEFORE_ALL))
    index.close()


def test_a_lost_client_configuration_is_no_loss(tmp_path: Path) -> None:
    """A kill may leave this file of the RocksDB binding empty."""
    (filled(tmp_path) / "rocksdict-config.json").write_text("")

    index = opened(tmp_path)

    index.shard(ORDERS).retain(0, 10_000, Covered(0, BEFORE_ALL))
    assert index.shard(ORDERS).pending() == 2000
    index.close()


def test_shards_keep_their_numbers_over_openings(tmp_path: Path) -> None:
    shards = [Shard("a.b", "0"), Shard("a", "b.0"), Shard("ü", "1:2")]
    index = opened(tmp_path)
    for offset, shard in enumerate(shards):
        index.shard(shard).put([entry(T0, offset)], None)
    index.close()
    index = opened(tmp_path)

    for shard in [*shards, Shard("new", "0")]:
        index.shard(shard).retain(0, 100, Covered(0, BEFORE_ALL))

    found = [[record.offset for record in index.shard(shard).scan(BEFORE_ALL, 9)] for shard in shards]
    assert found == [[0], [1], [2]]
    index.close()
