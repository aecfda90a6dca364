"""Short messages through a worker, and among them some that are due in a year: what stays of the buffer's log.

One partition, a worker in this process. The short ones are due 0.2 s after they are appended, and no more than
`AHEAD_MAX` of them wait: so what is alive is little, and the log is as long as the oldest pending record makes it.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from uuid import uuid4

from bench.rolling.curve import Sample
from delay_service.core.in_flight import CommitResult
from delay_service.core.roller import Roller
from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.loop import Worker
from delay_service.worker.settings import WorkerSettings
from delayline.buffer.outcome import ROLL, Outcome
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.message import Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Queue
from store.rocks import RocksIndex

AT_ONCE = 1000
AHEAD_MAX = 20_000
SAMPLES = 24
NEVER = 1 << 62
"""A span that no log reaches: rolling is off."""

SHORT_MS, LONG_MS = 200, 365 * 86_400_000
VALUE_BYTES = 256
QUIET_S = 120.0
WAIT_S = 0.01
PARTITION = "0"
_CLOCK = SystemClock()


@dataclass(slots=True)
class Tally:
    """The worker's observer: what has ended."""

    delivered: int = 0
    rolled: int = 0

    def finished(self, shard: Shard, finished: CommitResult) -> None:
        self.delivered += sum(map(len, finished.plain))
        self.delivered += sum(row.outcome is Outcome.DELIVERED for row in finished.rows)
        self.rolled += sum(row.reason == ROLL for row in finished.rows)

    def committed(self, seconds: float) -> None:
        """Not counted here."""

    def halved(self, reason: str) -> None:
        """Not counted here."""

    def group_topic_refused(self, topic: str) -> None:
        """Not counted here."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """So many short messages, with `long` ones evenly among them."""

    topic: str
    namespace: str
    short: int
    long: int

    def batches(self) -> Iterator[list[Append]]:
        buffer, dice = Names(self.namespace).buffer(self.topic), random.Random(6)
        for start in range(0, self.short, AT_ONCE):
            end = min(start + AT_ONCE, self.short)
            longs = self.long * end // self.short - self.long * start // self.short
            delays_ms = [LONG_MS] * longs + [SHORT_MS] * (end - start)
            yield [Append(buffer, PARTITION, _body(dice, delay_ms)) for delay_ms in delays_ms]


def _body(dice: random.Random, delay_ms: int) -> bytes:
    """Bytes that nobody can compress: what is measured is their room on disk."""
    return encode_body(dice.randbytes(8), dice.randbytes(VALUE_BYTES), [(b"delay-ms", b"%d" % delay_ms)])


def lap(
    queue: Queue, folder: Path, traffic: Traffic, span_min: int, disk_bytes: Callable[[], int]
) -> Sequence[Sample]:
    """The samples of one run; `folder` holds the index. `disk_bytes` returns what the buffer takes on the queue's
    disk. Raises RuntimeError where nothing is delivered any more."""
    tally = Tally()
    with _working(queue, folder, traffic, span_min, tally) as worker:
        samples: list[Sample] = []
        for number, batch in enumerate(traffic.batches(), 1):
            queue.append(batch).result()
            sent = min(number * AT_ONCE, traffic.short)
            _wait(tally, sent - AHEAD_MAX if sent < traffic.short else sent)
            if tally.delivered >= (len(samples) + 1) * traffic.short // SAMPLES:
                samples.append(_sample(worker, tally, disk_bytes()))
        return samples


def _wait(tally: Tally, delivered: int) -> None:
    before, since_s = tally.delivered, _CLOCK.monotonic_s()
    while tally.delivered < delivered:
        time.sleep(WAIT_S)
        if tally.delivered != before:
            before, since_s = tally.delivered, _CLOCK.monotonic_s()
        elif _CLOCK.monotonic_s() > since_s + QUIET_S:
            raise RuntimeError(f"{delivered - before:,} messages are missing after {QUIET_S:.0f} s")


def _sample(worker: Worker, tally: Tally, disk_bytes: int) -> Sample:
    (status,) = worker.statuses
    return Sample(tally.delivered, disk_bytes, status.low_offset, status.next_offset, tally.rolled)


@contextmanager
def _working(queue: Queue, folder: Path, traffic: Traffic, span_min: int, tally: Tally) -> Iterator[Worker]:
    queue.ensure_buffer(traffic.topic, DEFAULT_RULES)
    writer = f"{traffic.namespace}-worker-{uuid4()}"
    index = RocksIndex.open(folder, memory_bytes_max=256 << 20)
    source, sink = queue.open_worker(writer)
    settings = WorkerSettings(lambda _: ShardSettings(DEFAULT_RULES, Names(traffic.namespace)), writer)
    # Two minutes' traffic of a real topic pass here in a second: trims are as much more frequent.
    settings = replace(settings, trim_interval_s=0.25)
    worker = Worker(source, sink, queue, index, _CLOCK, settings, tally)
    thread = Thread(target=worker.run, name="worker")
    thread.start()
    try:
        while not (worker.ready and worker.statuses):
            time.sleep(WAIT_S)
        worker.call(lambda: _roll_beyond(worker, span_min)).result()
        yield worker
    finally:
        worker.stop()
        thread.join()


def _roll_beyond(worker: Worker, span_min: int) -> None:
    for owned in worker._owned.values():
        owned.upkeep.roller = Roller(span_min=span_min)
