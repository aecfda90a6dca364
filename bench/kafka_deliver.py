"""B1: schedule and deliver on Kafka, over the wire and through librdkafka, beside a plain consume-produce loop of
the same guarantee.

200,000 messages of 256 B with three headers on 8 partitions lie in the buffer topic and are due, but in a
transaction that is still open: when it is committed, worker or loop may read everything, and the clock runs until a
read_committed reader of the target topic has seen the last one. Ingest and dispatch both count.
"""

from collections.abc import Sequence
from functools import partial
from statistics import median

from bench.on_kafka.broker import Load, Place
from bench.on_kafka.child import Child, child
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import AT_LEAST_ONCE, LIBRARY, WIRE, Way, on_broker, working
from bench.report import Lap, Report, Target
from delayline.clock import SystemClock

MESSAGES = 200_000
ROUNDS = 5
QUIET_S = 60.0
DUE_AT_ONCE = ("delay-ms", b"1")
COPY = "copy"
TARGETS = {WIRE: (Target(">=", 1.0), Target("<=", 1.2)), LIBRARY: (Target(">=", 0.4), None)}
"""Of rate and CPU, both relative to the loop's in the same round."""

_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """About six minutes at scale 1."""
    count = max(1000, int(MESSAGES * scale))
    report = Report(f"B1 schedule and deliver, Kafka, {count:,} messages of 256 B, 8 partitions")
    report.notes.append(f"Medians of {ROUNDS} rounds in which everybody has a turn, each ratio within its round.")
    report.notes.append("CPU is of all threads of the worker's or the loop's process.")
    return on_broker(report, lambda servers: _measure(report, servers, count))


def _measure(report: Report, servers: str, count: int) -> None:
    worker_lap(servers, count, WIRE)  # the broker warms up
    for ways in ((WIRE, LIBRARY), (AT_LEAST_ONCE,)):
        rounds = [_round(servers, count, ways, number) for number in range(ROUNDS)]
        copies = [laps[COPY] for laps in rounds]
        for way in ways:
            _add(report, way, count, [laps[way.name] for laps in rounds], copies)
        name = "copy loop" if ways[0].atomic else "copy loop, at least once"
        report.add(f"{name}: messages", median(count / copy.wall_s for copy in copies), "1/s")
        report.add(f"{name}: CPU per message", median(1e6 * copy.cpu_s / count for copy in copies), "us")


def _round(servers: str, count: int, ways: Sequence[Way], number: int) -> dict[str, Lap]:
    """Each begins with another one."""
    turns = {way.name: partial(worker_lap, servers, count, way) for way in ways}
    turns[COPY] = partial(copy_lap, servers, count, atomic=ways[0].atomic)
    names = list(turns)
    first = number % len(names)
    return {name: turns[name]() for name in names[first:] + names[:first]}


def _add(report: Report, way: Way, count: int, laps: Sequence[Lap], copies: Sequence[Lap]) -> None:
    ratios = [copy.wall_s / lap.wall_s for lap, copy in zip(laps, copies, strict=True)]
    costs = [lap.cpu_s / copy.cpu_s for lap, copy in zip(laps, copies, strict=True)]
    wanted, cost_max = TARGETS.get(way, (None, None))
    report.add(f"{way.name}: rate relative to the loop's", median(ratios), "", wanted)
    report.add(f"{way.name}: in the worst round", min(ratios))
    report.add(f"{way.name}: in the best round", max(ratios))
    report.add(f"{way.name}: CPU relative to the loop's", median(costs), "", cost_max)
    report.add(f"{way.name}: messages", median(count / lap.wall_s for lap in laps), "1/s")
    report.add(f"{way.name}: CPU per message", median(1e6 * lap.cpu_s / count for lap in laps), "us")


def worker_lap(servers: str, count: int, way: Way) -> Lap:
    """The real worker."""
    place = Place.make(servers)
    with working(place, way=way) as worker:
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
