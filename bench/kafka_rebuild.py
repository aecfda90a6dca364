"""B6: a worker without its index reads two million pending messages back, beside a consumer that only counts them.

From the start of each until it has the last record: the worker joins the group, takes its shards over and indexes
everything in RocksDB; the consumer is assigned what to read and looks at nothing. They take turns.
"""

from statistics import median
from typing import NamedTuple

from bench.on_kafka.broker import Load, Place
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker, working
from bench.report import Report, Target
from delayline.clock import SystemClock

PENDING = 2_000_000
ROUNDS = 3
QUIET_S = 60.0
HORIZON_MS = 30 * 86_400_000
DIRECTIVES_MAX = 50_021
"""Delays to take turns with: a prime, so that the order of due times has nothing to do with that of the log."""

_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """About five minutes and 3 GB of disk at scale 1."""
    count = max(10_000, int(PENDING * scale))
    report = Report(f"B6 rebuild of {count:,} pending messages, Kafka, 8 partitions")
    report.notes.append(f"Medians of {ROUNDS} rounds in turns; due within 30 days, all of them on disk in the index.")
    return on_broker(report, lambda servers: _measure(report, servers, count))


def _measure(report: Report, servers: str, count: int) -> None:
    place = Place.make(servers)
    with working(place):
        load = Load(servers, place.buffer)  # into the buffer topic that the worker has made
    load.add(range(count), far_delays())
    load.release()
    rebuilt: list[Rebuilt] = []
    counted: list[float] = []
    for _ in range(ROUNDS):
        rebuilt.append(_rebuild(place))
        counted.append(_count(place, count))
    ratios = [counting_s / one.took_s for one, counting_s in zip(rebuilt, counted, strict=True)]
    report.add("in the rate of the counting consumer", median(ratios), "", Target(">=", 0.6))
    report.add("in the worst round", min(ratios))
    report.add("in the best round", max(ratios))
    report.add("rebuilt", median(count / one.took_s for one in rebuilt), "messages/s")
    report.add("CPU", median(1e6 * one.cpu_s / count for one in rebuilt), "us/message")
    report.add("memory after it", median(one.resident_bytes / 1e6 for one in rebuilt), "MB")
    report.add("counted", median(count / counting_s for counting_s in counted), "messages/s")


def far_delays() -> list[tuple[str, bytes]]:
    """Directives for due times evenly over 30 days, in no order."""
    step_ms = HORIZON_MS // DIRECTIVES_MAX
    return [
        ("delay-ms", b"%d" % (3_600_000 + number * 7919 % DIRECTIVES_MAX * step_ms))
        for number in range(DIRECTIVES_MAX)
    ]


class Rebuilt(NamedTuple):
    """Resident bytes are those when everything is indexed."""

    took_s: float
    cpu_s: float
    resident_bytes: int


def _rebuild(place: Place) -> Rebuilt:
    with working(place, caught_up=False) as worker:
        start_s, before = _CLOCK.monotonic_s(), worker.latest
        after = worker.wait_ready()
        took_s = _CLOCK.monotonic_s() - start_s
    return Rebuilt(took_s, after.cpu_s - before.cpu_s, after.resident_bytes)


def _count(place: Place, count: int) -> float:
    start_s = _CLOCK.monotonic_s()
    reader = Reader(place.servers, place.buffer)
    for _ in reader.batches(count, QUIET_S):
        pass
    took_s = _CLOCK.monotonic_s() - start_s
    reader.close()
    return took_s
