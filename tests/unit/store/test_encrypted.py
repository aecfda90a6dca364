"""An encrypted index: what its files show, which keys open it, and what is noticed of another hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from delayline.encryption.data_key import DataKey
from delayline.records.message import BEFORE_ALL, Key
from store import keys
from store.errors import StoreDamaged, StoreFormat
from store.index import Covered
from store.rocks import RocksIndex, checkpoints_in, discard_plain, verify
from tests.acceptance.seen import Seen, seen
from tests.unit.store.conftest import DATA_KEY, MEMORY_BYTES, ORDERS, T0, checkpoint, entry

VALUE, NAME = b"value-3f9a81c2d4e5", b"name-77b0c1d2e3f4"
OTHER = DataKey(b"other id", DATA_KEY.secret)


def opened(folder: Path, data_key: DataKey | None = DATA_KEY) -> RocksIndex:
    return RocksIndex.open(folder, memory_bytes_max=MEMORY_BYTES, data_key=data_key)


def filled(folder: Path, data_key: DataKey | None = DATA_KEY) -> Path:
    index = opened(folder, data_key)
    shard = index.shard(ORDERS)
    shard.put([entry(T0 + n, n, VALUE + b"-%d" % n) for n in range(1, 6)], None, [(NAME, Key(T0 + 3, 3))])
    shard.remove([Key(T0 + 1, 1)], checkpoint(6))
    index.close()
    return folder


def retained(index: RocksIndex) -> list[bytes]:
    shard = index.shard(ORDERS)
    shard.retain(0, 100, Covered(0, BEFORE_ALL))
    return [found.value for found in shard.scan(BEFORE_ALL, 10)]


def shows(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_neither_values_nor_names_are_in_its_files(tmp_path: Path) -> None:
    plain, encrypted = filled(tmp_path / "plain", None), filled(tmp_path / "encrypted")
    assert [shows(plain, text) for text in (VALUE, NAME)] == [True, True]
    assert [shows(encrypted, text) for text in (VALUE, NAME)] == [False, False]


def test_it_is_all_there_after_it_was_opened_again(tmp_path: Path) -> None:
    index = opened(filled(tmp_path))
    assert retained(index) == [VALUE + b"-%d" % n for n in range(2, 6)]
    shard = index.shard(ORDERS)
    assert shard.lookup(NAME) == Key(T0 + 3, 3)
    assert shard.get(Key(T0 + 3, 3)) == VALUE + b"-3"
    assert [value for _, _, value in shard.due(T0 + 3, 10, 1000)] == [VALUE + b"-2", VALUE + b"-3"]
    index.close()


@pytest.mark.parametrize("written", [None, DATA_KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("key", [None, DATA_KEY, OTHER], ids=["no key", "the key", "another key"])
def test_with_another_key_it_is_refused_and_left_as_it_is(
    tmp_path: Path, written: DataKey | None, key: DataKey | None
) -> None:
    filled(tmp_path, written)
    if written == key:
        assert checkpoints_in(tmp_path, key)
        return
    before = tables(tmp_path)
    for refused in (opened, verify, checkpoints_in):
        with pytest.raises(StoreFormat, match="encrypted"):
            refused(tmp_path, key)
    assert before
    assert before.items() <= tables(tmp_path).items()
    assert checkpoints_in(tmp_path, written)


def tables(folder: Path) -> dict[str, Seen]:
    return {name: one for name, one in seen(folder).items() if name.endswith(".sst")}


def _value_of(row: bytes, other: bytes) -> Callable[[Any], None]:
    def put(db: Any) -> None:
        db[row] = db[other]

    return put


def _flip(row: bytes) -> Callable[[Any], None]:
    def put(db: Any) -> None:
        value = bytearray(db[row])
        value[-20] ^= 1
        db[row] = bytes(value)

    return put


def _plain(row: bytes) -> Callable[[Any], None]:
    def put(db: Any) -> None:
        db[row] = VALUE

    return put


ROWS = [keys.encode_record(1, T0 + n, n) for n in range(6)]


@pytest.mark.parametrize(
    "change", [_value_of(ROWS[2], ROWS[3]), _flip(ROWS[2]), _plain(ROWS[2])], ids=["swapped", "flipped", "plain"]
)
def test_a_value_of_another_hand_is_damage_and_the_next_opening_begins_anew(
    tmp_path: Path, change: Callable[[Any], None]
) -> None:
    filled(tmp_path)
    db = Rdict(str(tmp_path / "rocksdb"))
    change(db)
    db.close()
    with pytest.raises(StoreDamaged) as seen_only:
        verify(tmp_path, DATA_KEY)
    assert "next start" not in str(seen_only.value)
    index = opened(tmp_path)
    with pytest.raises(StoreDamaged, match=f"the next start rebuilds the time index in {tmp_path} from the queue"):
        retained(index)
    index.close()
    index = opened(tmp_path)
    assert (index.checkpoints(), index.shard(ORDERS).pending()) == ({}, 0)
    index.close()


def test_only_an_index_that_is_not_encrypted_is_discarded(tmp_path: Path) -> None:
    assert not discard_plain(tmp_path / "none", DATA_KEY)
    assert not discard_plain(filled(tmp_path / "encrypted"), DATA_KEY)
    assert checkpoints_in(tmp_path / "encrypted", DATA_KEY)
    with pytest.raises(StoreFormat):
        discard_plain(tmp_path / "encrypted", OTHER)
    assert discard_plain(filled(tmp_path / "plain", None), DATA_KEY)
    assert checkpoints_in(tmp_path / "plain", DATA_KEY) == {}
