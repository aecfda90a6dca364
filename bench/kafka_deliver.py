"""B1: schedule and deliver on Kafka, beside a plain consume-produce loop of the same guarantee.

200,000 messages of 256 B with three headers on 8 partitions lie in the buffer topic and are due, but in a
transaction that is still open: when it is committed, worker or loop may read everything, and the clock runs until a
read_committed reader of the target topic has seen the last one. Ingest and dispatch both count.
"""

from statistics import median

from bench.on_kafka.broker import Load, Place
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker, working
from bench.processes.child import Child, child
from bench.report import Lap, Report, Target
from delayline.clock import SystemClock

MESSAGES = 200_000
ROUNDS = 5
QUIET_S = 60.0
DUE_AT_ONCE = ("delay-ms", b"1")
RATE, COST = Target(">=", 1.0), Target("<=", 1.2)
"""Of rate and CPU, both relative to the loop's in the same round."""

_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """About two minutes at scale 1."""
    count = max(1000, int(MESSAGES * scale))
    report = Report(f"B1 schedule and deliver, Kafka, {count:,} messages of 256 B, 8 partitions")
    report.notes.append(f"Medians of {ROUNDS} rounds in which everybody has a turn, each ratio within its round.")
    report.notes.append("CPU is of all threads of the worker's or the loop's process.")
    return on_broker(report, lambda servers: _measure(report, servers, count))


def _measure(report: Report, servers: str, count: int) -> None:
    worker_lap(servers, count)  # the broker warms up
    rounds = [_round(servers, count, number) for number in range(ROUNDS)]
    ratios = [copy.wall_s / lap.wall_s for lap, copy in rounds]
    report.add("worker: rate relative to the loop's", median(ratios), "", RATE)
    report.add("worker: in the worst round", min(ratios))
    report.add("worker: in the best round", max(ratios))
    report.add("worker: CPU relative to the loop's", median(lap.cpu_s / copy.cpu_s for lap, copy in rounds), "", COST)
    for name, laps in zip(("worker", "copy loop"), zip(*rounds, strict=True), strict=True):
        report.add(f"{name}: messages", median(count / lap.wall_s for lap in laps), "1/s")
        report.add(f"{name}: CPU per message", median(1e6 * lap.cpu_s / count for lap in laps), "us")


def _round(servers: str, count: int, number: int) -> tuple[Lap, Lap]:
    """The worker's lap and the loop's; another one begins each time."""
    if number % 2:
        copy = copy_lap(servers, count)
        return worker_lap(servers, count), copy
    return worker_lap(servers, count), copy_lap(servers, count)


def worker_lap(servers: str, count: int) -> Lap:
    """The real worker."""
    place = Place.make(servers)
    with working(place) as worker:
        lap = _drain(worker, servers, place.buffer, place.topic, count)
    place.drop()
    return lap


def copy_lap(servers: str, count: int) -> Lap:
    """The loop that it is compared with."""
    place = Place.make(servers)
    source = f"{place.topic}-source"
    place.make_topic(source)
    with child("on_kafka.copy", servers=servers, source=source, target=place.topic) as copy:
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
