"""A topic with a rate limit and a backlog, beside one without: does the other notice?

1,000 messages a second of `orders`, due half a second after they are sent, through the embedded queue and a real
worker; once alone, once beside 50,000 messages of `calls` that are all due and may leave at 500 a second. Lateness is
the append time of the delivery minus the due time.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from bench.report import Report, Target
from delay_service.core.history import History
from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.decisions import Decisions
from delay_service.worker.loop import Worker
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.settings import WorkerSettings
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.process import logs
from delayline.records.headers import DUE
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append
from mq.embedded.queue import EmbeddedQueue
from store.rocks import RocksIndex

PARTITIONS = 4
SECONDS = 20
PER_S = 1000
DELAY_MS = 500
BACKLOG = 50_000
RATE_MAX = 500
STEP_S = 0.02
_CLOCK = SystemClock()
_NAMES = Names("delayline")


def _shard_settings(topic: str) -> ShardSettings:
    return ShardSettings(DEFAULT_RULES, _NAMES, rate_max=RATE_MAX if topic == "calls" else None)


@contextmanager
def _working() -> Iterator[EmbeddedQueue]:
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        queue = EmbeddedQueue.open(Path(folder) / "queue", namespace="delayline", clock=_CLOCK, partitions=PARTITIONS)
        for topic in ("orders", "calls"):
            queue.ensure_topic(topic)
            queue.ensure_buffer(topic, DEFAULT_RULES)
        index = RocksIndex.open(Path(folder) / "index", memory_bytes_max=256 << 20)
        source, sink = queue.open_worker("bench")
        metrics = WorkerMetrics(CollectorRegistry(), History(100_000, 86_400_000), Decisions(), _CLOCK)
        worker = Worker(source, sink, queue, index, _CLOCK, WorkerSettings(_shard_settings, "bench"), metrics)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield queue
        finally:
            worker.stop()
            thread.join()
            queue.close()


def _send(queue: EmbeddedQueue, topic: str, count: int, delay_ms: int) -> None:
    body = encode_body(None, bytes(256), [(b"delay-ms", b"%d" % delay_ms)])
    buffer = _NAMES.buffer(topic)
    for partition in range(PARTITIONS):
        queue.append([Append(buffer, str(partition), body)] * (count // PARTITIONS)).result()


def _lateness_ms(queue: EmbeddedQueue, topic: str) -> list[int]:
    late = []
    for partition in map(str, range(PARTITIONS)):
        offset = 0
        while records := queue.read(topic, partition, offset, 5000):
            for record in records:
                due_ms = int(dict(decode_body(record.body).headers)[DUE] or b"")
                late.append(record.appended_at_ms - due_ms)
            offset = records[-1].offset + 1
    return sorted(late)


def _lap(seconds: int, backlog: int) -> tuple[list[int], float]:
    """Lateness of `orders`, and how many of `calls` were delivered each second."""
    with _working() as queue:
        _send(queue, "calls", backlog, 1)
        time.sleep(2)  # the backlog is indexed, and its burst is gone
        before, started_s = _delivered(queue, "calls"), _CLOCK.monotonic_s()
        for step in range(round(seconds / STEP_S)):
            _send(queue, "orders", round(PER_S * STEP_S), DELAY_MS)
            time.sleep(max(0.0, started_s + (step + 1) * STEP_S - _CLOCK.monotonic_s()))
        per_s = (_delivered(queue, "calls") - before) / (_CLOCK.monotonic_s() - started_s)
        time.sleep(DELAY_MS / 1000 + 1)
        return _lateness_ms(queue, "orders"), per_s


def _delivered(queue: EmbeddedQueue, topic: str) -> int:
    return sum(queue.offsets(topic, str(partition))[1] for partition in range(PARTITIONS))


def run(scale: float) -> Report:
    """Under a minute at scale 1."""
    logs.configure("text", "warning")
    seconds = max(2, int(SECONDS * scale))
    report = Report(f"A topic limited to {RATE_MAX}/s with {BACKLOG:,} due, beside {PER_S:,} messages/s of another")
    for name, backlog in (("alone", 0), ("beside it", BACKLOG)):
        late, per_s = _lap(seconds, backlog)
        if len(late) != seconds * PER_S:
            raise RuntimeError(f"{seconds * PER_S} sent, {len(late)} delivered")
        report.add(f"the other, {name}: late, p50", late[len(late) // 2], "ms")
        report.add(f"the other, {name}: late, p99", late[len(late) * 99 // 100], "ms")
    report.add("the limited one", per_s, "1/s", Target("<=", RATE_MAX * 1.05))
    return report
