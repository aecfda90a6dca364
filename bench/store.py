"""The time index: taking in, draining, size on disk, memory.

Drains are compared in one run and in turns: a batch from the last million of the large index, a batch from an index
that never held more than one million. Removal is part of a drain.
"""

import gc
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.report import Lap, Report, Target, measured, resident_bytes
from delayline.records.message import Shard
from store.index import Checkpoint, Entry, ShardIndex
from store.memory_tier import RECORD_BYTES
from store.rocks import RocksIndex

PENDING = 10_000_000
LAST = 1_000_000
VALUE_BYTES = 256
HORIZON_MS = 30 * 86_400_000
MEMORY_BYTES_MAX = 256 << 20
PUT_RECORDS = 1000
TAKE_RECORDS = 5000
_T0 = 1_767_225_600_000
_MB = 1e6
_ALL = Shard("bench", "0")


def run(scale: float) -> Report:
    """B3. About 2 minutes and 4 GB of disk at scale 1."""
    report = Report("B3: the time index")
    pending = max(int(PENDING * scale), 2 * TAKE_RECORDS)
    last = min(max(int(LAST * scale), TAKE_RECORDS), pending // 2)
    folder = Path(tempfile.mkdtemp(prefix="bench-store-"))
    try:
        _measure(report, folder, pending, last)
    finally:
        shutil.rmtree(folder)
    report.notes.append(f"{pending:,} records of {VALUE_BYTES} random bytes, due at random within 30 days, one shard")
    report.notes.append(
        f"puts of {PUT_RECORDS}, takes of {TAKE_RECORDS}, memory_bytes_max {MEMORY_BYTES_MAX >> 20} MiB"
    )
    return report


def _measure(report: Report, folder: Path, pending: int, last: int) -> None:
    before = resident_bytes()
    large = RocksIndex.open(folder / "large", memory_bytes_max=MEMORY_BYTES_MAX)
    lap = _fill(large, pending)
    report.add("put, due at random", pending / lap.wall_s, "records/s")
    report.add("put: CPU with flushes and compactions", lap.cpu_s / pending * 1e6, "us/record")
    gc.collect()
    report.add(f"resident at {pending:,} pending", resident_bytes() / _MB, "MB", Target("<", 500))
    report.add("of that before the index was opened", before / _MB, "MB")
    large.compact()
    report.add("on disk beside the value", large.disk_bytes() / pending - VALUE_BYTES, "B/record", Target("<=", 64))
    first = _drain(large.shard(_ALL), pending - last)
    report.add("drain, until the last ones", (pending - last) / first.wall_s, "records/s")
    report.add("drain: CPU", first.cpu_s / (pending - last) * 1e6, "us/record")
    small = RocksIndex.open(folder / "small", memory_bytes_max=MEMORY_BYTES_MAX)
    _fill(small, last)
    small.compact()
    of_large, of_small = _drain_in_turns(large.shard(_ALL), small.shard(_ALL), last)
    report.add(f"drain of the last {last:,}", last / of_large.wall_s, "records/s")
    report.add(f"drain of {last:,} alone", last / of_small.wall_s, "records/s")
    report.add("the last ones relative to as many alone", of_small.wall_s / of_large.wall_s, "", Target(">=", 0.8))
    report.add("resident at the end", resident_bytes() / _MB, "MB")
    report.add("on disk when all has left", (large.disk_bytes() + small.disk_bytes()) / _MB, "MB")
    large.close()
    small.close()
    _measure_near(report, folder, last)


def _measure_near(report: Report, folder: Path, records: int) -> None:
    """Records that never reach the disk, a second's worth at a time."""
    index = RocksIndex.open(folder / "near", memory_bytes_max=MEMORY_BYTES_MAX)
    shard = index.shard(_ALL)
    putting, taking = Lap(), Lap()
    for batch in _batches(records, horizon_ms=1000, at_once=TAKE_RECORDS):
        with measured(putting):
            shard.put(batch, _T0 + 1000)
        with measured(taking):
            _take(shard)
    report.add("near-due: put, CPU", putting.cpu_s / records * 1e6, "us/record")
    report.add("near-due: take and remove, CPU", taking.cpu_s / records * 1e6, "us/record")
    report.add("near-due: memory beside the value", RECORD_BYTES, "B/record")
    index.close()


def _batches(records: int, horizon_ms: int = HORIZON_MS, at_once: int = PUT_RECORDS) -> Iterator[list[Entry]]:
    """The same records every time, each value its own bytes, so that compression finds nothing."""
    dice = random.Random(1)
    pool = dice.randbytes(1 << 22)
    for start in range(0, records, at_once):
        yield [
            Entry(_T0 + dice.randrange(horizon_ms), offset, _value(pool, offset))
            for offset in range(start, min(start + at_once, records))
        ]


def _value(pool: bytes, offset: int) -> bytes:
    start = offset * 97 % (len(pool) - VALUE_BYTES)
    return pool[start : start + VALUE_BYTES]


def _fill(index: RocksIndex, records: int) -> Lap:
    """GroupTopicLimit the records is not measured."""
    lap = Lap()
    shard = index.shard(_ALL)
    for batch in _batches(records):
        with measured(lap):
            shard.put(batch, None)
    with measured(lap):
        index.flush()
    return lap


def _take(shard: ShardIndex) -> int:
    taken = shard.due(_T0 + HORIZON_MS, TAKE_RECORDS, 4 << 20)
    shard.remove([(due_ms, offset) for due_ms, offset, _ in taken], Checkpoint(0, b""))
    return len(taken)


def _drain(shard: ShardIndex, records: int) -> Lap:
    with measured() as lap:
        while records > 0:
            records -= _take(shard)
    return lap


def _drain_in_turns(one: ShardIndex, other: ShardIndex, records: int) -> tuple[Lap, Lap]:
    laps = Lap(), Lap()
    for _ in range(0, records, TAKE_RECORDS):
        for shard, lap in zip((one, other), laps, strict=True):
            with measured(lap):
                _take(shard)
    return laps
