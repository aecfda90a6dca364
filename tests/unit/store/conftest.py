"""Both indexes behind one interface: how to open one, and how to open it again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from delayline.buffer.record import Meta, encode_value
from delayline.encryption.data_key import DataKey
from delayline.records.message import Key, Shard
from delayline.schedule.terms import Series, Terms
from store.index import Checkpoint, Entry, PlainEntry, ShardIndex, TimeIndex
from store.memory import MemoryIndex
from store.rocks import RocksIndex

ORDERS = Shard("orders", "0")
TOPIC_ID = b"t" * 16
MEMORY_BYTES = 8 << 20
T0 = 1_767_225_600_000


def entry(due_ms: int, offset: int, value: bytes | None = None) -> Entry:
    return Entry(due_ms, offset, b"v%d" % offset if value is None else value)


REPEAT = encode_value(Meta(terms=Terms(own_id="series", series=Series(every_ms=1000))), b"packed")
"""The index value of a message that repeats."""

SPEAKS_OF_REPEATS = encode_value(Meta(terms=Terms(own_id="\xa6series")), b"\xa6series")
"""And of one that does not."""


def key_of(found: PlainEntry) -> Key:
    return Key(*found[:2])


def checkpoint(offset: int = 0) -> Checkpoint:
    return Checkpoint(offset, TOPIC_ID, b"state %d" % offset)


class House(Protocol):
    """Where an index lives between two openings."""

    def open(self, free_bytes: Callable[[], int] | None = None, disk_free_min_bytes: int = 0) -> TimeIndex: ...


DATA_KEY = DataKey(b"data key", bytes(range(32)))


class RocksHouse:
    def __init__(self, folder: Path, data_key: DataKey | None = None) -> None:
        self._folder = folder
        self._data_key = data_key

    def open(self, free_bytes: Callable[[], int] | None = None, disk_free_min_bytes: int = 0) -> TimeIndex:
        return RocksIndex.open(
            self._folder,
            memory_bytes_max=MEMORY_BYTES,
            free_bytes=free_bytes,
            disk_free_min_bytes=disk_free_min_bytes,
            data_key=self._data_key,
        )


class MemoryHouse:
    def __init__(self) -> None:
        self._last: MemoryIndex | None = None

    def open(self, free_bytes: Callable[[], int] | None = None, disk_free_min_bytes: int = 0) -> TimeIndex:
        left = self._last.crash(self._last.written) if self._last else MemoryIndex(free_bytes, disk_free_min_bytes)
        self._last = left
        return left


@pytest.fixture(params=["rocks", "encrypted", "memory"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    if request.param == "memory":
        return MemoryHouse()
    return RocksHouse(tmp_path / "index", DATA_KEY if request.param == "encrypted" else None)


@pytest.fixture
def index(house: House) -> Iterator[TimeIndex]:
    index = house.open()
    yield index
    index.close()


@pytest.fixture
def shard(index: TimeIndex) -> ShardIndex:
    return index.shard(ORDERS)
