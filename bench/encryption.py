"""What encryption costs: the embedded queue and the time index with a data key and without one, in turns.

Every lap is done by both sides before the next one begins, so that what else the machine does meets both alike.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.embedded import BATCH, COMMIT, US, Rig, append_batches, commit, poll, rig
from bench.report import Lap, Report, measured
from delayline.encryption.data_key import DataKey
from delayline.records.message import BEFORE_ALL, Shard
from store.index import Checkpoint, Covered, Entry
from store.rocks import RocksIndex

BODY_SIZES = (256, 4096)
VALUES = 200_000
TURNS = 10
MEMORY_BYTES_MAX = 64 << 20
_ALL = Shard("bench", "0")
_T0 = 1_767_225_600_000
_DATA_KEY = DataKey(b"bench...", bytes(range(32)))
_KEYS = {"plain": None, "encrypted": _DATA_KEY}


@dataclass
class Spent:
    """CPU by step, and how many records it was for."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)

    def add(self, step: str, lap: Lap, records: int) -> None:
        self.cpu_s[step] = self.cpu_s.get(step, 0.0) + lap.cpu_s
        self.records[step] = self.records.get(step, 0) + records

    def us(self, step: str) -> float:
        return self.cpu_s[step] / self.records[step] * US


def run(scale: float) -> Report:
    report = Report("Encryption at rest: CPU per record, with a data key and without one, in turns")
    report.notes.append("CPU of all threads, RocksDB's flushes and compactions included.")
    _single_values(report, max(1000, int(50_000 * scale)))
    for body_bytes in BODY_SIZES:
        _queue(report, body_bytes, max(5, int(40 * scale)))
        _index(report, body_bytes, max(1000, int(VALUES * scale * 256 / body_bytes)))
    return report


def _single_values(report: Report, times: int) -> None:
    cipher = _DATA_KEY.cipher(b"bench")
    place = os.urandom(20)
    for size in BODY_SIZES:
        value = os.urandom(size)
        with measured() as encrypting:
            for _ in range(times):
                written = cipher.encrypt(value, place)
        with measured() as decrypting:
            for _ in range(times):
                cipher.decrypt(written, place)
        report.add(f"a value of {size} B: encrypt", encrypting.cpu_s / times * US, "us")
        report.add(f"a value of {size} B: decrypt", decrypting.cpu_s / times * US, "us")


def _compare(report: Report, what: str, sides: dict[str, Spent]) -> None:
    for step in sides["plain"].cpu_s:
        plain, encrypted = (sides[name].us(step) for name in _KEYS)
        report.add(f"{what}, {step}: plain", plain, "us")
        report.add(f"{what}, {step}: encrypted", encrypted, "us")
        report.add(f"{what}, {step}: encrypted / plain", encrypted / plain)


def _queue(report: Report, body_bytes: int, batches: int) -> None:
    sides = {name: Spent() for name in _KEYS}
    with TemporaryDirectory(prefix="delayline-bench-") as folder:
        rigs = {name: rig(f"{folder}/{name}", body_bytes, data_key) for name, data_key in _KEYS.items()}
        for _ in range(TURNS):
            for name, on in rigs.items():
                _queue_lap(sides[name], on, batches)
        for on in rigs.values():
            on.queue.close()
    _compare(report, f"queue, {body_bytes} B", sides)


def _queue_lap(spent: Spent, on: Rig, batches: int) -> None:
    spent.add("append", append_batches(on, batches), batches * BATCH)
    spent.add("commit", commit(on, 1), COMMIT)
    lap, records = poll(on)
    spent.add("poll", lap, records)


def _index(report: Report, body_bytes: int, values: int) -> None:
    sides = {name: Spent() for name in _KEYS}
    with TemporaryDirectory(prefix="delayline-bench-") as folder:
        for turn in range(TURNS):
            entries = _entries(values, body_bytes)
            for name, data_key in _KEYS.items():
                _index_lap(sides[name], Path(folder, f"{name}-{turn}"), data_key, entries)
    _compare(report, f"index, {body_bytes} B", sides)


def _entries(values: int, body_bytes: int) -> list[Entry]:
    """Due at random, each value its own bytes."""
    dice = random.Random(1)
    pool = dice.randbytes(1 << 22)
    starts = [dice.randrange(len(pool) - body_bytes) for _ in range(values)]
    return [
        Entry(_T0 + dice.randrange(1 << 30), offset, pool[at : at + body_bytes]) for offset, at in enumerate(starts)
    ]


def _index_lap(spent: Spent, folder: Path, data_key: DataKey | None, entries: Sequence[Entry]) -> None:
    index = RocksIndex.open(folder, memory_bytes_max=MEMORY_BYTES_MAX, data_key=data_key)
    shard = index.shard(_ALL)
    with measured() as putting:
        for at in range(0, len(entries), 1000):
            shard.put(entries[at : at + 1000], None)
        index.flush()
    spent.add("put", putting, len(entries))
    index.close()
    index = RocksIndex.open(folder, memory_bytes_max=MEMORY_BYTES_MAX, data_key=data_key)
    shard = index.shard(_ALL)
    with measured() as taking_over:
        shard.retain(0, len(entries), Covered(0, BEFORE_ALL))
    spent.add("takeover", taking_over, len(entries))
    with measured() as draining:
        while taken := shard.due(_T0 + (1 << 31), 5000, 64 << 20):
            shard.remove([entry[:2] for entry in taken], Checkpoint(0, b"t" * 16))
    spent.add("take and remove", draining, len(entries))
    index.close()
