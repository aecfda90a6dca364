"""Steps of `bench.floors`: what a record costs between the source and the index, and in memory until it is due."""

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.steps.dispatching import ACCEPTED_MS
from delay_service.core.rules_log import RulesLog
from delay_service.core.shard import Shard as Core
from delay_service.core.shard_settings import ShardSettings
from delay_service.core.takeover import Plan
from delayline.buffer.cursor import Cursor
from delayline.buffer.record import read
from delayline.buffer.shapes import PlainRecords, reader_of
from delayline.names import Names
from delayline.records.message import Header, Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from store.index import Checkpoint
from store.memory_tier import MemoryTier
from store.rocks import RocksIndex

POLLED = 5000
"""Records that a worker is given at once."""

NEAR_MS, FAR_MS = 2000, 30 * 86_400_000
_SHARD, _NAMES = Shard("orders", "0"), Names("delayline")


def ingest_steps(records: int) -> dict[str, Callable[[], object]]:
    """By name; each deals with so many records."""
    near, far = _records(records, NEAR_MS), _records(records, FAR_MS)
    uneven = [(offset, at_ms, encode_body(b"k", b"v" * 256, _uneven(offset))) for offset, at_ms, _ in near]
    waiting: list[tuple[int, int, bytes]] = []
    reader_of(DEFAULT_RULES).read(near, 0, waiting)
    return {
        "ingest: read one by one": lambda: [read(body, at_ms, DEFAULT_RULES) for _, at_ms, body in near],
        "ingest: plain records": lambda: _read(near),
        "ingest: plain records, delays of many values": lambda: _read(far),
        "ingest: plain records, headers of all lengths": lambda: _read(uneven),
        "ingest: near-due put, take, remove": lambda: _wait(waiting),
        "ingest: near-due, from record to removal": lambda: _ingest(near, caught_up=True),
        "ingest: far, from record to RocksDB": lambda: _ingest(far, caught_up=False),
    }


def _records(records: int, ahead_ms: int) -> list[tuple[int, int, bytes]]:
    """Appended at a hundred in a millisecond; due within `ahead_ms`, in no order."""
    dice = random.Random(1)
    found = []
    for number in range(records):
        headers = [
            (b"src", b"web"),
            (b"delay-ms", b"%d" % dice.randrange(1, ahead_ms)),
            (b"trace", dice.randbytes(55)),
        ]
        found.append(
            (number, ACCEPTED_MS + number // 100, encode_body(b"%08d" % number, dice.randbytes(256), headers))
        )
    return found


def _uneven(number: int) -> list[Header]:
    """Thousands of layouts: none is worth to be remembered."""
    return [(b"delay-ms", b"%d" % number), (b"a", b"x" * (number % 61)), (b"b", b"x" * (number % 53))]


def _polled(records: list[tuple[int, int, bytes]]) -> list[PlainRecords]:
    return [records[at : at + POLLED] for at in range(0, len(records), POLLED)]


def _read(records: list[tuple[int, int, bytes]]) -> None:
    for part in _polled(records):
        reader_of(DEFAULT_RULES).read(part, 0, [])


def _wait(entries: list[tuple[int, int, bytes]]) -> None:
    near = MemoryTier()
    for part in _polled(entries):
        near.put(sorted(part), [])
    while near:
        near.remove([entry[:2] for entry in near.take(1 << 62, POLLED)])


def _ingest(records: list[tuple[int, int, bytes]], *, caught_up: bool) -> None:
    """What has fallen due leaves again where the shard has caught up; else everything goes to disk."""
    folder = Path(tempfile.mkdtemp(prefix="bench-ingest-"))
    rocks = RocksIndex.open(folder, memory_bytes_max=256 << 20)
    try:
        index, end = rocks.shard(_SHARD), 0 if caught_up else len(records)
        plan = Plan(Cursor(topic_id=bytes(16)), False, 0, end, RulesLog(0, DEFAULT_RULES))
        core = Core(_SHARD, plan, index, ShardSettings(DEFAULT_RULES, _NAMES, near_due_ms=NEAR_MS))
        for part in _polled(records):
            core.ingest(part, part[-1][1])
        while caught_up and (gone := index.due(1 << 62, POLLED, 1 << 30)):
            index.remove([entry[:2] for entry in gone], Checkpoint(0, b""))
    finally:
        rocks.close()
        shutil.rmtree(folder)
