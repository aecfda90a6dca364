"""B7: ten million messages pending on Kafka: what the worker needs in memory, and whether it still delivers as fast.

Two workers on one broker, one with everything pending for 30 days, one with nothing. In turns, each gets as many
messages that are due at once as B1 delivers; the clock runs from their release to the last one's arrival.
"""

from statistics import median

from bench.kafka_rebuild import far_delays
from bench.on_kafka.broker import Load, Place
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker, working
from bench.processes.child import Child
from bench.report import Report, Target
from delayline.clock import SystemClock

PENDING = 10_000_000
BURST = 100_000
ROUNDS = 5
QUIET_S = 120.0
DUE_AT_ONCE = ("delay-ms", b"1")
LOADED_AT_ONCE = 1_000_000
_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """About 20 minutes and 12 GB of disk at scale 1."""
    pending, burst = max(20_000, int(PENDING * scale)), max(5000, int(BURST * min(scale * 10, 1)))
    report = Report(f"B7 {pending:,} messages pending on Kafka, 8 partitions")
    report.notes.append(f"Bursts of {burst:,} that are due, medians of {ROUNDS} pairs in turns.")
    return on_broker(report, lambda servers: _measure(report, servers, pending, burst), log_bytes=1200 * pending)


def _measure(report: Report, servers: str, pending: int, burst: int) -> None:
    full, empty = Place.make(servers), Place.make(servers)
    with working(empty) as small:
        with working(full):
            pass  # it has made the buffer topic
        _load(full, pending)
        with working(full, caught_up=False) as large:
            start_s = _CLOCK.monotonic_s()
            large.wait_ready()
            report.add("indexed", pending / (_CLOCK.monotonic_s() - start_s), "messages/s")
            _report(report, large, small, _pairs(full, empty, burst))


def _load(place: Place, pending: int) -> None:
    """A transaction for each million, because brokers bound how long one may take."""
    delays = far_delays()
    for first in range(0, pending, LOADED_AT_ONCE):
        load = Load(place.servers, place.buffer)
        load.add(range(first, min(first + LOADED_AT_ONCE, pending)), delays)
        load.release()


def _pairs(full: Place, empty: Place, burst: int) -> list[tuple[float, float]]:
    """Seconds per burst: with everything pending, and with nothing. The first pair warms up."""
    readers = [Reader(place.servers, place.topic) for place in (full, empty)]
    laps = []
    for _ in range(ROUNDS + 1):
        laps.append((_burst(full, readers[0], burst), _burst(empty, readers[1], burst)))
    for reader in readers:
        reader.close()
    return laps[1:]


def _burst(place: Place, reader: Reader, count: int) -> float:
    load = Load(place.servers, place.buffer)
    load.add(range(count), [DUE_AT_ONCE])
    start_s = _CLOCK.monotonic_s()
    load.release()
    reader.all_once(count, QUIET_S)
    return _CLOCK.monotonic_s() - start_s


def _report(report: Report, large: Child, small: Child, laps: list[tuple[float, float]]) -> None:
    kept = [empty_s / full_s for full_s, empty_s in laps]
    report.add("delivery rate, relative to a worker with nothing pending", median(kept), "", Target(">=", 0.8))
    report.add("in the worst pair", min(kept))
    report.add("in the best pair", max(kept))
    report.add("worker's memory", large.usage().resident_bytes / 1e6, "MB")
    report.add("worker's memory with nothing pending", small.usage().resident_bytes / 1e6, "MB")
