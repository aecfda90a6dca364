"""A disk that is really full: a small file system in memory, where this user may mount one."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pytest

from delayline.clock import SystemClock
from delayline.records.message import BEFORE_ALL
from store.errors import StoreFull
from store.index import Covered, Entry, ShardIndex
from store.rocks import RocksIndex
from tests.unit.store.conftest import MEMORY_BYTES, ORDERS, T0, checkpoint, entry, key_of

RESUME_S_MAX = 30
"""RocksDB looks for space every 5 s."""
PATIENCE_S = 3.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"no small file system here: {mount.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def _relief(left: list[Path]) -> Callable[[], None]:
    def give() -> None:
        if left:
            left.pop().unlink()

    return give


def fill(shard: ShardIndex, value_bytes: int, ballasts: Sequence[Path] = ()) -> int:
    """Put records, one a millisecond, until the disk is full; how many there are then. RocksDB lets a write wait
    while it recovers from a full disk, until there is room: then one of the ballasts goes."""
    taken_in = 0
    left = list(ballasts)
    while True:
        more = [entry(T0 + n, n, os.urandom(value_bytes)) for n in range(taken_in, taken_in + 10)]
        relief = Timer(PATIENCE_S, _relief(left))
        relief.start()
        try:
            shard.put(more, None)
        except StoreFull:
            return taken_in
        finally:
            relief.cancel()
        taken_in += 10
        assert taken_in < 1_000_000, "the disk never was full"


def put_when_possible(shard: ShardIndex, record: Entry) -> None:
    clock = SystemClock()
    started_s = clock.monotonic_s()
    while True:
        try:
            return shard.put([record], None)
        except StoreFull:
            assert clock.monotonic_s() - started_s < RESUME_S_MAX, "it never resumed"


@pytest.mark.slow
def test_on_a_full_disk_delivery_goes_on_and_putting_resumes_with_the_space(small_disk: Path) -> None:
    index = RocksIndex.open(small_disk / "index", memory_bytes_max=MEMORY_BYTES)
    shard = index.shard(ORDERS)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (5 << 20))
    taken_in = fill(shard, 1000)
    assert shard.pending() == taken_in

    delivered = []
    for _ in range(5):
        gone = [key_of(found) for found in shard.due(T0 + 10**9, 100, 1 << 30)]
        delivered += [key.offset for key in gone]
        shard.remove(gone, checkpoint(len(delivered)))
    assert delivered == list(range(500))

    ballast.unlink()
    put_when_possible(shard, entry(T0, taken_in, b"after"))
    assert shard.checkpoint() == checkpoint(500)
    index.close()
    index = RocksIndex.open(small_disk / "index", memory_bytes_max=MEMORY_BYTES)
    index.shard(ORDERS).retain(0, taken_in + 1, Covered(0, BEFORE_ALL))
    left = [found.offset for found in index.shard(ORDERS).scan(BEFORE_ALL, 1 << 30, 1 << 30)]
    index.close()

    assert left == [taken_in, *range(500, taken_in)]


def test_an_index_on_a_disk_without_any_room_is_an_error_at_opening(small_disk: Path) -> None:
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(b"x" * 4096):
            pass

    with pytest.raises(StoreFull, match="No space left"):
        RocksIndex.open(small_disk / "index", memory_bytes_max=MEMORY_BYTES)


def test_closing_on_a_full_disk_keeps_a_prefix(small_disk: Path) -> None:
    index = RocksIndex.open(small_disk / "index", memory_bytes_max=MEMORY_BYTES)
    shard = index.shard(ORDERS)
    ballasts = [small_disk / f"ballast{number}" for number in range(2)]
    for ballast in ballasts:
        ballast.write_bytes(b"x" * (3 << 20))
    fill(shard, 100_000, ballasts)

    index.close()

    index = RocksIndex.open(small_disk / "index", memory_bytes_max=MEMORY_BYTES)
    index.shard(ORDERS).retain(0, 1000, Covered(0, BEFORE_ALL))
    left = [found.offset for found in index.shard(ORDERS).scan(BEFORE_ALL, 1000)]
    index.close()
    assert left == list(range(len(left)))
    assert left
