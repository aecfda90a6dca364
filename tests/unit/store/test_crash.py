"""A SIGKILL leaves the index in a state it once had, and the checkpoint in the same one."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delayline.records.message import BEFORE_ALL, Key
from store.index import Checkpoint, Covered, Entry, ShardIndex, TimeIndex
from store.memory import UNFLUSHED_WRITES_MAX, MemoryIndex
from store.rocks import RocksIndex
from tests.unit.store.conftest import MEMORY_BYTES, ORDERS, T0, TOPIC_ID, checkpoint, entry, key_of

SEED = 20_260_101
RECORDS_PER_STEP = 200
OLDEST_RECORD = Covered(0, BEFORE_ALL)


def steps(seed: int) -> Iterator[tuple[list[Entry], int]]:
    """An endless workload: records to put, and how many of the lowest to remove then."""
    dice = random.Random(seed)
    offset = 0
    while True:
        entries = []
        for _ in range(RECORDS_PER_STEP):
            value = dice.randbytes(200)
            entries.append(Entry(T0 + dice.randrange(10**6), offset, value))
            offset += 1
        yield entries, dice.randrange(2 * RECORDS_PER_STEP - 20)


def work(index: TimeIndex, seed: int) -> None:
    """Follow the steps for ever; the checkpoint's offset counts the removals. One line of output after each."""
    shard = index.shard(ORDERS)
    for step, (entries, leaving) in enumerate(steps(seed)):
        shard.put(entries, None)
        gone = shard.due(T0 + 10**6, leaving, 1 << 30)
        shard.remove([key_of(found) for found in gone], Checkpoint(step + 1, TOPIC_ID))
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()


def states(seed: int) -> Iterator[tuple[int, frozenset[Key]]]:
    """(checkpoint offset, keys present) after every write of `work`, from the empty index on."""
    present: set[Key] = set()
    yield 0, frozenset()
    for step, (entries, leaving) in enumerate(steps(seed)):
        present |= {found.key for found in entries}
        yield step, frozenset(present)
        present -= set(sorted(present)[:leaving])
        yield step + 1, frozenset(present)


def contents(shard: ShardIndex) -> tuple[int, frozenset[Key]]:
    """What a new process finds."""
    stored = shard.checkpoint()
    shard.retain(0, 1 << 40, OLDEST_RECORD)
    found = frozenset(record.key for record in shard.scan(BEFORE_ALL, 1 << 30, 1 << 30))
    assert shard.pending() == len(found)
    return (stored.offset if stored else 0), found


def killed_after(folder: Path, seed: int, lines: int) -> int:
    """Run `work` in a process of its own, kill it once it has finished some steps; how many it had finished."""
    command = [sys.executable, "-m", "tests.unit.store.test_crash", str(folder), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    return lines + len(rest)


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(8))
def test_a_killed_process_leaves_a_prefix_of_its_writes_with_the_checkpoint_of_it(tmp_path: Path, kill: int) -> None:
    seed = SEED + kill
    finished = killed_after(tmp_path, seed, lines=random.Random(seed).randrange(20, 300))
    index = RocksIndex.open(tmp_path, memory_bytes_max=MEMORY_BYTES)
    found = contents(index.shard(ORDERS))
    index.close()

    reached = next(
        (at for at, state in zip(range(2 * finished + 4), states(seed), strict=False) if state == found), None
    )

    assert reached is not None, f"seed {seed}: checkpoint {found[0]} with {len(found[1])} records never was"
    if finished > 120:
        assert reached > 0, "something had been flushed by then"


def test_the_memory_index_falls_back_to_every_prefix_asked_for() -> None:
    index = MemoryIndex()
    shard = index.shard(ORDERS)
    expected = list(zip(range(21), states(SEED), strict=False))
    for step, (entries, leaving) in zip(range(10), steps(SEED), strict=False):
        shard.put(entries, None)
        gone = shard.due(T0 + 10**6, leaving, 1 << 30)
        shard.remove([key_of(found) for found in gone], Checkpoint(step + 1, TOPIC_ID))

    assert [(keep, contents(index.crash(keep).shard(ORDERS))) for keep in range(index.written + 1)] == expected


def test_a_crash_of_the_memory_index_loses_what_was_in_memory_only() -> None:
    index = MemoryIndex()
    index.shard(ORDERS).put([entry(T0, 1), entry(T0 + 9, 0)], T0)

    shard = index.crash(index.written).shard(ORDERS)
    shard.retain(0, 1, OLDEST_RECORD)

    assert shard.scan(BEFORE_ALL, 9) == [entry(T0 + 9, 0)]


def test_a_crash_leaves_the_index_that_it_was_asked_of_alone() -> None:
    index = MemoryIndex()
    index.shard(ORDERS).put([entry(T0, 1)], None)

    index.crash(0).shard(ORDERS).put([entry(T0, 5)], None)

    assert index.shard(ORDERS).scan(BEFORE_ALL, 9) == [entry(T0, 1)]


def test_flushed_writes_cannot_be_lost() -> None:
    index = MemoryIndex()
    index.shard(ORDERS).put([entry(T0, 1)], None)
    index.flush()

    with pytest.raises(ValueError, match="between 1 and 1"):
        index.crash(0)


def test_the_log_of_writes_is_bounded() -> None:
    index = MemoryIndex()
    for offset in range(UNFLUSHED_WRITES_MAX + 5):
        index.shard(ORDERS).remove([], checkpoint(offset + 1))

    assert index.written == UNFLUSHED_WRITES_MAX + 5
    assert index.written - index.flushed <= UNFLUSHED_WRITES_MAX
    assert index.crash(index.flushed).shard(ORDERS).checkpoint() == checkpoint(index.flushed)


if __name__ == "__main__":
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    work(RocksIndex.open(Path(sys.argv[1]), memory_bytes_max=MEMORY_BYTES), int(sys.argv[2]))
