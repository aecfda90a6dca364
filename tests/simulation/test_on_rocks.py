"""A few seeds on the index that runs in production: slower, and a crash is what a SIGKILL leaves in its files."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from random import Random

import pytest

from delayline.records.message import Shard
from store.index import ShardIndex
from store.rocks import RocksIndex
from tests.simulation.checker import check
from tests.simulation.disk import AnyDisk, fill_with_foreign
from tests.simulation.world import World

SEEDS = 25
MEMORY_BYTES_MAX = 8 << 20
SMALL_SEGMENT_BITS = 2


class RocksDisk:
    """A `RocksIndex`. Writes that no flush has put into files are gone after a crash."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self.full = self.tight = False
        self._new_folder = new_folder
        self._open(new_folder())

    def _open(self, folder: Path) -> None:
        self._folder = folder
        self._index = RocksIndex.open(folder, memory_bytes_max=MEMORY_BYTES_MAX, free_bytes=lambda: 1)

    def shard(self, shard: Shard) -> ShardIndex:
        return self._index.shard(shard)

    def drop(self, shard: Shard) -> None:
        self._index.drop(shard)

    def flush(self) -> None:
        self._index.flush()

    def crash(self, rnd: Random) -> bool:
        left = self._new_folder()
        shutil.copytree(self._folder, left, dirs_exist_ok=True)
        self.close()
        self._open(left)
        return True

    def leave_foreign(self, shard: Shard, now_ms: int) -> None:
        fill_with_foreign(self._index.shard(shard), now_ms)
        self.flush()

    def close(self) -> None:
        self._index.close()


@pytest.fixture
def new_disk(tmp_path: Path) -> Iterator[Callable[[], AnyDisk]]:
    numbers = count()

    def new_folder() -> Path:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return folder

    with ExitStack() as disks:

        def new_disk() -> AnyDisk:
            disk = RocksDisk(new_folder)
            disks.callback(disk.close)
            return disk

        yield new_disk


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_index_on_rocksdb_keeps_every_promise(
    seed: int, new_disk: Callable[[], AnyDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.counts.SEGMENT_BITS", SMALL_SEGMENT_BITS)  # so that L moves within a short run

    assert check(World(seed, new_disk=new_disk).run()) == []
