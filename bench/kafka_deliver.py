"""B1: schedule and deliver on Kafka, beside a plain consume-produce loop of the same guarantee.

200,000 messages of 256 B with three headers on 8 partitions lie in the buffer topic and are due, but in a
transaction that is still open: when it is committed, worker or loop may read everything, and the clock runs until a
read_committed reader of the target topic has seen the last one. Ingest and dispatch both count. Worker and loop take
turns.
"""

from statistics import median

from bench.on_kafka.broker import Load, Place
from bench.on_kafka.child import Child, child
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker, working
from bench.report import Lap, Report, Target
from delayline.clock import SystemClock

MESSAGES = 200_000
ROUNDS = 5
QUIET_S = 60.0
DUE_AT_ONCE = ("delay-ms", b"1")
_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """About five minutes at scale 1."""
    count = max(1000, int(MESSAGES * scale))
    report = Report(f"B1 schedule and deliver, Kafka, {count:,} messages of 256 B, 8 partitions")
    report.notes.append(f"Medians of {ROUNDS} pairs in turns, each ratio within its pair.")
    report.notes.append("CPU is of all threads of the worker's or the loop's process.")
    return on_broker(report, lambda servers: _measure(report, servers, count))


def _measure(report: Report, servers: str, count: int) -> None:
    for atomic, name, wanted in ((True, "exactly once", 0.4), (False, "at least once", 0.5)):
        worker_lap(servers, count, atomic=atomic)  # the broker warms up
        pairs = [
            (worker_lap(servers, count, atomic=atomic), copy_lap(servers, count, atomic=atomic))
            for _ in range(ROUNDS)
        ]
        ratios = [copy.wall_s / ours.wall_s for ours, copy in pairs]
        report.add(f"{name}: rate relative to the loop's", median(ratios), "", Target(">=", wanted))
        report.add(f"{name}: in the worst pair", min(ratios))
        report.add(f"{name}: in the best pair", max(ratios))
        report.add(f"{name}: messages", median(count / ours.wall_s for ours, _ in pairs), "1/s")
        report.add(f"{name}: messages, the loop", median(count / copy.wall_s for _, copy in pairs), "1/s")
        report.add(f"{name}: CPU per message", median(1e6 * ours.cpu_s / count for ours, _ in pairs), "us")
        report.add(f"{name}: CPU per message, the loop", median(1e6 * copy.cpu_s / count for _, copy in pairs), "us")


def worker_lap(servers: str, count: int, *, atomic: bool) -> Lap:
    """The real worker."""
    place = Place.make(servers)
    with working(place, atomic=atomic) as worker:
        lap = _drain(worker, servers, place.buffer, place.topic, count)
    place.drop()
    return lap


def copy_lap(servers: str, count: int, *, atomic: bool) -> Lap:
    """The loop that it is compared with."""
    place = Place.make(servers)
    source = f"{place.topic}-source"
    place.make_topic(source)
    with child("copy", servers=servers, source=source, target=place.topic, atomic=atomic) as copy:
        copy.wait_ready()
        lap = _drain(copy, servers, source, place.topic, count)
    place.drop()
    return lap


def _drain(mover: Child, servers: str, source: str, target: str, count: int) -> Lap:
    """From the moment when the records become readable until the last one has arrived."""
    reader = Reader(servers, target)
    load = Load(servers, source)
    load.add(range(count), [DUE_AT_ONCE])
    before = mover.usage()
    start_s = _CLOCK.monotonic_s()
    load.release()
    reader.all_once(count, QUIET_S)
    wall_s = _CLOCK.monotonic_s() - start_s
    reader.close()
    return Lap(wall_s, mover.usage().cpu_s - before.cpu_s)
