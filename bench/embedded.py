"""The embedded queue: what a record costs to append, commit and read, and what group commit makes of them."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.report import Lap, Report, Target, measured
from delayline.buffer.cursor import Cursor
from delayline.clock import SystemClock
from delayline.encryption.data_key import DataKey
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Assigned, Fetched, ShardBatch, Sink, Source
from mq.embedded import EmbeddedQueue

BODY_BYTES = 256
BATCH = 1000
COMMIT = 5000
PRODUCERS = 64

US = 1e6


@dataclass
class Rig:
    """A queue in a folder of its own, with a worker on every shard of one topic."""

    queue: EmbeddedQueue
    buffer: str
    source: Source
    sink: Sink
    cursors: dict[Shard, Cursor]
    body: bytes


def rig(folder: str, body_bytes: int = BODY_BYTES, data_key: DataKey | None = None) -> Rig:
    queue = EmbeddedQueue.open(Path(folder), namespace="bench", clock=SystemClock(), data_key=data_key)
    buffer = queue.ensure_buffer("orders", DEFAULT_RULES)
    source, sink = queue.open_worker("bench")
    shards = [shard for event in source.poll(1, 0) if isinstance(event, Assigned) for shard in event.shards]
    cursor = Cursor(topic_id=buffer.topic_id, owner_epoch=1, writer="bench")
    sink.commit([ShardBatch(shard, cursor) for shard in shards])
    return Rig(queue, buffer.name, source, sink, dict.fromkeys(shards, cursor), os.urandom(body_bytes))


def append_batches(on: Rig, batches: int) -> Lap:
    """Batches of one producer, a few of them under way at a time, as a busy API has them."""
    records = [Append(on.buffer, str(number % 4), on.body) for number in range(BATCH)]
    with measured() as lap:
        under_way = [on.queue.append(records) for _ in range(4)]
        for _ in range(batches - 4):
            under_way.append(on.queue.append(records))
            under_way.pop(0).result()
        for future in under_way:
            future.result()
    return lap


def append_singly(on: Rig, producers: int, each: int) -> Lap:
    """Every producer waits for one record to be durable before it appends the next."""

    def produce(number: int) -> None:
        record = [Append(on.buffer, str(number % 4), on.body)]
        for _ in range(each):
            on.queue.append(record).result()

    with ThreadPoolExecutor(producers) as threads, measured() as lap:
        list(threads.map(produce, range(producers)))
    return lap


def commit(on: Rig, commits: int) -> Lap:
    deliveries: list[tuple[bytes, int | None]] = [(on.body, None)] * (COMMIT // len(on.cursors))
    lap = Lap()
    for number in range(commits):
        batch = [ShardBatch(s, replace(c, next_offset=number), deliveries) for s, c in on.cursors.items()]
        with measured(lap):
            on.sink.commit(batch)
    return lap


def poll(on: Rig) -> tuple[Lap, int]:
    """Read every buffer partition from its start; the lap and the number of records."""
    for shard in on.cursors:
        on.source.seek(shard, 0)
    records = 0
    with measured() as lap:
        while events := on.source.poll(5000, 0):
            records += sum(len(event.records) for event in events if isinstance(event, Fetched))
    return lap, records


def run(scale: float) -> Report:
    report = Report("The embedded queue, bodies of 256 random bytes")
    report.notes.append("CPU of all threads, RocksDB's flushes and compactions included; the fsyncs are this disk's.")
    batches, commits, each = max(5, int(400 * scale)), max(1, int(80 * scale)), max(16, int(4000 * scale))
    with TemporaryDirectory(prefix="delayline-bench-") as folder:
        on = rig(folder)
        _append_figures(report, on, batches, each)
        lap = commit(on, commits)
        report.add("commit of 5000: CPU per delivery", lap.cpu_s / commits / COMMIT * US, "us", Target("<=", 2))
        report.add("commit of 5000: time", lap.wall_s / commits * 1000, "ms")
        lap, records = poll(on)
        report.add("poll: CPU per record", lap.cpu_s / records * US, "us", Target("<=", 1))
        report.add("poll: records", records / lap.wall_s, "records/s")
        on.queue.close()
    return report


def _append_figures(report: Report, on: Rig, batches: int, each: int) -> None:
    lap = append_batches(on, batches)
    report.add("append in batches of 1000: CPU per record", lap.cpu_s / batches / BATCH * US, "us", Target("<=", 2))
    report.add("append in batches of 1000", batches * BATCH / lap.wall_s, "records/s")
    for producers, per_producer in ((1, each), (PRODUCERS, each // 16)):
        lap = append_singly(on, producers, per_producer)
        appends = producers * per_producer
        report.add(f"append singly, {producers} waiting producers", appends / lap.wall_s, "records/s")
        report.add(f"append singly, {producers} waiting producers: CPU", lap.cpu_s / appends * US, "us")
