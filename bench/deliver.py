"""B0: schedule and deliver on the embedded queue, beside a loop that delays nothing.

200,000 messages of 256 B with three headers go into the buffer topic in batches of 100 and come out of the target
topic when due, exactly once, through a real queue (fsync and all), index and worker in this process. The peer in the
same run is what any program on this queue must pay: append the same records, read them, append them again. Rounds
alternate.
"""

import cProfile
import pstats
import random
import statistics
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from bench.report import Lap, Report, measured
from delay_service.core.history import History
from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.decisions import Decisions
from delay_service.worker.loop import Worker
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.settings import WorkerSettings
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Position
from mq.embedded.queue import EmbeddedQueue
from store.rocks import RocksIndex

MESSAGES = 200_000
BATCH = 100
ROUNDS = 3
PARTITIONS = 4
DELAY_MS_MAX = 4000
SEED = 7
_CLOCK = SystemClock()


@contextmanager
def _queue() -> Iterator[tuple[Path, EmbeddedQueue]]:
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        queue = EmbeddedQueue.open(Path(folder) / "queue", namespace="delayline", clock=_CLOCK, partitions=PARTITIONS)
        try:
            yield Path(folder), queue
        finally:
            queue.close()


def _bodies(count: int, *, delayed: bool) -> list[bytes]:
    rng = random.Random(SEED)
    bodies = []
    for _ in range(count):
        delay = b"%d" % rng.randrange(DELAY_MS_MAX)
        first = (b"delay-ms", delay) if delayed else (b"source-ms", delay)
        bodies.append(
            encode_body(
                rng.randbytes(8), rng.randbytes(256), [first, (b"id", rng.randbytes(16)), (b"trace", b"t" * 55)]
            )
        )
    return bodies


def _append_all(queue: EmbeddedQueue, topic: str, bodies: list[bytes]) -> None:
    """As the HTTP API does for batches of a hundred: eight of them under way at most."""
    under_way: list[Future[list[Position]]] = []
    for start in range(0, len(bodies), BATCH):
        partition = str(start // BATCH % PARTITIONS)
        records = [Append(topic, partition, body) for body in bodies[start : start + BATCH]]
        under_way.append(queue.append(records))
        if len(under_way) >= 8:
            under_way.pop(0).result()
    for future in under_way:
        future.result()


def _count(queue: EmbeddedQueue, topic: str) -> int:
    """Records in all partitions, by offsets: the embedded queue has no holes."""
    ranges = [queue.offsets(topic, str(partition)) for partition in range(PARTITIONS)]
    return sum(end - start for start, end in ranges)


class _Running:
    """A worker in a thread of its own, as in `delayline serve`."""

    def __init__(self, folder: Path, queue: EmbeddedQueue, profile: cProfile.Profile | None) -> None:
        index = RocksIndex.open(folder / "index", memory_bytes_max=256 << 20)
        source, sink = queue.open_worker("bench")
        metrics = WorkerMetrics(CollectorRegistry(), History(1_000_000, 86_400_000), Decisions(), _CLOCK)
        settings = WorkerSettings(lambda _: ShardSettings(DEFAULT_RULES, Names("delayline")), "bench")
        self.worker = Worker(source, sink, queue, index, _CLOCK, settings, metrics)
        self._profile = profile
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        if self._profile is None:
            self.worker.run()
        else:
            self._profile.runcall(self.worker.run)

    def stop(self) -> None:
        self.worker.stop()
        self._thread.join()


def _wait_for(queue: EmbeddedQueue, topic: str, count: int) -> None:
    while _count(queue, topic) < count:
        queue.wait(topic, {str(n): queue.offsets(topic, str(n))[1] for n in range(PARTITIONS)}, 0.5)


def _deliver(bodies: list[bytes], lap: Lap, profile: cProfile.Profile | None = None) -> None:
    with _queue() as (folder, queue):
        queue.ensure_topic("orders")
        queue.ensure_buffer("orders", DEFAULT_RULES)
        running = _Running(folder, queue, profile)
        with measured(lap):
            _append_all(queue, Names("delayline").buffer("orders"), bodies)
            _wait_for(queue, "orders", len(bodies))
        running.stop()
        delivered = _count(queue, "orders")
        if delivered != len(bodies):
            raise RuntimeError(f"{len(bodies)} accepted, {delivered} delivered")


def _copy(bodies: list[bytes], lap: Lap) -> None:
    """The floor: append, read, append again, with no delay, no index and no cursor."""
    with _queue() as (_, queue):
        queue.ensure_topic("source")
        queue.ensure_topic("orders")
        with measured(lap):
            _append_all(queue, "source", bodies)
            for partition in map(str, range(PARTITIONS)):
                offset = 0
                while records := queue.read("source", partition, offset, 5000):
                    queue.append([Append("orders", partition, record.body) for record in records]).result()
                    offset = records[-1].offset + 1


def _dearest(profile: cProfile.Profile) -> list[str]:
    """The three functions of the worker's thread that take most time themselves, with their share."""
    own: Counter[str] = Counter()
    stats = pstats.Stats(profile).get_stats_profile().func_profiles
    for name, entry in stats.items():
        file = Path(entry.file_name).name
        own[f"{name} ({file})" if file != "~" else name] += int(entry.tottime * 1e6)
    for waiting in [name for name in own if "acquire" in name or "wait" in name]:
        del own[waiting]
    total = sum(own.values())
    return [f"{name} {100 * spent / total:.0f} %" for name, spent in own.most_common(3)]


def run(scale: float) -> Report:
    """Figures of B0."""
    count = int(MESSAGES * scale) // BATCH * BATCH
    delayed, plain = _bodies(count, delayed=True), _bodies(count, delayed=False)
    laps, floors = [Lap() for _ in range(ROUNDS)], [Lap() for _ in range(ROUNDS)]
    for lap, floor in zip(laps, floors, strict=True):
        _deliver(delayed, lap)
        _copy(plain, floor)
    profile = cProfile.Profile()
    _deliver(delayed[: count // 4], Lap(), profile)
    per_message = statistics.median(1e6 * lap.cpu_s / count for lap in laps)
    per_copy = statistics.median(1e6 * floor.cpu_s / count for floor in floors)
    report = Report(f"B0 schedule and deliver, embedded queue, {count:,} messages of 256 B")
    report.add("messages per CPU second", 1e6 / per_message, "1/s")
    report.add("CPU per message", per_message, "us")
    report.add("CPU per message, append-read-append loop", per_copy, "us")
    report.add("ratio to that loop", per_message / per_copy)
    report.add("messages per second", statistics.median(count / lap.wall_s for lap in laps), "1/s")
    report.notes.append("Delays are random up to 4 s; CPU is of all threads, appending included.")
    report.notes.append("Dearest in the worker's thread: " + "; ".join(_dearest(profile)))
    return report
