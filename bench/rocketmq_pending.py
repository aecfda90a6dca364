"""B17: ten million messages pending on RocketMQ: what the worker needs in memory, and whether it delivers as fast.

Two workers on one broker, one with everything pending for 30 days, one with nothing. In turns, each gets a burst due
at one instant; the rate is that from the instant to the last one's store time, by the broker's clock.
"""

from statistics import median
from typing import NamedTuple

from bench.on_rocketmq.place import Place
from bench.on_rocketmq.rig import on_broker, send, working
from bench.processes.child import Child
from bench.report import Report, Target
from delayline.clock import SystemClock

PENDING = 10_000_000
BURST = 100_000
ROUNDS = 5
LOADED_PER_S, BURST_PER_S = 60_000, 8_000
"""The first is as fast as the sender goes; a burst is sent slower than it is accepted, well before its instant."""
LEAD_S = 12.0
TRIES = 4
FAR_MS = (3_600_000, 30 * 86_400_000)
QUIET_S = 120.0
_CLOCK = SystemClock()


class Lap(NamedTuple):
    """Messages delivered a second: with everything pending, and with nothing."""

    full: float
    empty: float


def run(scale: float) -> Report:
    """About 20 minutes and 10 GB of disk at scale 1."""
    pending, burst = max(20_000, int(PENDING * scale)), max(5000, int(BURST * min(scale * 10, 1)))
    report = Report(f"B17 {pending:,} messages pending on RocketMQ, 8 queues")
    report.notes.append(f"Bursts of {burst:,} due at one instant, medians of {ROUNDS} pairs in turns.")
    return on_broker(report, lambda server: _measure(report, server.settings.name_servers[0], pending, burst))


def _measure(report: Report, servers: str, pending: int, burst: int) -> None:
    full, empty = Place.make(servers), Place.make(servers)
    with working(empty) as small:
        with working(full):
            pass  # it has made the buffer topic
        send("buffer", full, pending, LOADED_PER_S, FAR_MS)
        with working(full, caught_up=False) as large:
            start_s = _CLOCK.monotonic_s()
            large.wait_ready()
            report.add("indexed", pending / (_CLOCK.monotonic_s() - start_s), "messages/s")
            laps = [Lap(_burst(full, burst), _burst(empty, burst)) for _ in range(ROUNDS + 1)]
            _report(report, large, small, laps[1:])  # the first pair warms up


def _burst(place: Place, count: int) -> float:
    """Messages a second. Raises RuntimeError where no burst is accepted before its instant."""
    for _ in range(TRIES):
        if (rate := _one_burst(place, count)) is not None:
            return rate
    raise RuntimeError(f"the instant came before everything was accepted, {TRIES} times")


def _one_burst(place: Place, count: int) -> float | None:
    """None where the instant came before everything was accepted. Raises RuntimeError where a message is early,
    missing, or there twice."""
    before = place.ends()
    due_ms = _CLOCK.now_ms() + int(1000 * (LEAD_S + count / BURST_PER_S))
    send("buffer", place, count, BURST_PER_S, (due_ms, due_ms))
    is_accepted = _CLOCK.now_ms() < due_ms
    place.wait_for(sum(before) + count, QUIET_S)
    found = list(place.delivered(before))
    numbers, stored_ms = {one.number for one in found}, [one.stored_ms for one in found]
    if len(numbers) != count or len(found) != count or min(stored_ms) < due_ms:
        raise RuntimeError(f"{len(found):,} deliveries of {count:,} messages, {due_ms - min(stored_ms)} ms early")
    return 1000 * count / max(1, max(stored_ms) - due_ms) if is_accepted else None


def _report(report: Report, large: Child, small: Child, laps: list[Lap]) -> None:
    kept = [lap.full / lap.empty for lap in laps]
    report.add("delivery rate, relative to a worker with nothing pending", median(kept), "", Target(">=", 0.8))
    report.add("in the worst pair", min(kept))
    report.add("in the best pair", max(kept))
    report.add("delivered with everything pending", median(lap.full for lap in laps), "messages/s")
    report.add("worker's memory", large.usage().resident_bytes / 1e6, "MB")
    report.add("worker's memory with nothing pending", small.usage().resident_bytes / 1e6, "MB")
