"""Laps of traffic through endpoints, in turns, and their report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from uuid import uuid4

from bench.on_kafka import traffic
from bench.on_kafka.broker import Place
from bench.processes.child import child
from bench.processes.endpoint import Endpoint
from bench.report import Report, Target

ROUNDS = 7
MB = 1 << 20
PACED_MB_PER_S = 10


@dataclass(frozen=True, slots=True)
class Lap:
    """So many MB in so many seconds, with the proxy's CPU seconds and the latencies of single records."""

    mb: float
    wall_s: float
    cpu_s: float
    p50_ms: float
    p99_ms: float

    @property
    def mb_per_s(self) -> float:
        return self.mb / self.wall_s

    @property
    def cpu_ms_per_mb(self) -> float:
        return 1000 * self.cpu_s / self.mb


Rounds = dict[str, list[Lap]]
"""Of each endpoint, by its name: one lap per round."""


def in_turns(endpoints: Sequence[Endpoint], lap: Callable[[Endpoint], Lap]) -> Rounds:
    """One round warms up and is not counted. Each begins with another endpoint."""
    rounds: Rounds = {endpoint.name: [] for endpoint in endpoints}
    for number in range(1 + ROUNDS):
        first = number % len(endpoints)
        for endpoint in (*endpoints[first:], *endpoints[:first]):
            measured = lap(endpoint)
            if number > 0:
                rounds[endpoint.name].append(measured)
    return rounds


def produced(endpoint: Endpoint, topic: str, mb: float, *, mb_per_s: float = 0, delayed_share: float = 0) -> Lap:
    """At full speed where `mb_per_s` is 0."""
    per_s = int(mb_per_s * MB) // traffic.RECORD_BYTES
    return _lap(endpoint, mb, role="produce", topic=topic, per_s=per_s, delayed_share=delayed_share)


def consumed(endpoint: Endpoint, topic: str, mb: float) -> Lap:
    """The first so many MB of the topic."""
    return _lap(endpoint, mb, role="consume", topic=topic)


def _lap(endpoint: Endpoint, mb: float, **what: object) -> Lap:
    with child(
        "on_kafka.traffic", servers=endpoint.servers, count=int(mb * MB) // traffic.RECORD_BYTES, **what
    ) as client:
        client.wait_ready()
        before_s = endpoint.cpu_s()
        client.ask("go")
        timed = traffic.Timed(*client.hear())
        return Lap(mb, timed.wall_s, endpoint.cpu_s() - before_s, timed.p50_ms, timed.p99_ms)


def produced_anew(
    endpoint: Endpoint, place: Place, mb: float, *, mb_per_s: float = 0, delayed_share: float = 0
) -> Lap:
    """Into a topic of its own, which is dropped afterwards."""
    own = Place(place.servers, place.namespace, f"{place.topic}-{uuid4().hex[:8]}")
    own.make_topic(own.topic)
    lap = produced(endpoint, own.topic, mb, mb_per_s=mb_per_s, delayed_share=delayed_share)
    own.drop()
    return lap


# --- the report; `straight` is the endpoint that is the broker itself


def add_rates(report: Report, what: str, rounds: Rounds, straight: Endpoint, ours: Endpoint, wanted: float) -> None:
    """Throughput relative to the broker's own, of each round; then the rates, and CPU per MB."""
    ratios = {name: _ratios(laps, rounds[straight.name]) for name, laps in rounds.items() if name != straight.name}
    for name, found in ratios.items():
        target = Target(">=", wanted) if name == ours.name else None
        report.add(f"{what}: {name} relative to direct", median(found), "", target)
        report.add(f"{what}: {name}, worst round", min(found))
        report.add(f"{what}: {name}, best round", max(found))
    for name, laps in rounds.items():
        report.add(f"{what}: {name}", median(lap.mb_per_s for lap in laps), "MB/s")
    for name in ratios:
        used = [lap.cpu_ms_per_mb for lap in rounds[name]]
        report.add(f"{what}: CPU of {name}", median(used), "ms/MB")
        report.add(f"{what}: CPU of {name}, from", min(used), "ms/MB")
        report.add(f"{what}: CPU of {name}, to", max(used), "ms/MB")


def add_rounds_ahead(report: Report, what: str, rounds: Rounds, ours: Endpoint, peer: Endpoint, wanted: int) -> None:
    ahead = sum(ratio > 1 for ratio in _ratios(rounds[ours.name], rounds[peer.name]))
    report.add(f"{what}: rounds of {ROUNDS} ahead of {peer.name}", ahead, "", Target(">=", wanted))


def add_latencies(
    report: Report, rounds: Rounds, straight: Endpoint, ours: Endpoint, p50_ms: float, p99_ms: float | None
) -> None:
    """From `produce` to the acknowledgement, at 10 MB/s; how much longer it takes than straight, round by round."""
    for name, laps in rounds.items():
        report.add(f"at {PACED_MB_PER_S} MB/s: {name}, p50", median(lap.p50_ms for lap in laps), "ms")
        report.add(f"at {PACED_MB_PER_S} MB/s: {name}, p99", median(lap.p99_ms for lap in laps), "ms")
    pairs = list(zip(rounds[ours.name], rounds[straight.name], strict=True))
    longer = {
        "p50": (median(mine.p50_ms - theirs.p50_ms for mine, theirs in pairs), p50_ms),
        "p99": (median(mine.p99_ms - theirs.p99_ms for mine, theirs in pairs), p99_ms),
    }
    for name, (found_ms, most_ms) in longer.items():
        target = Target("<=", most_ms) if most_ms is not None else None
        report.add(f"at {PACED_MB_PER_S} MB/s: {name}, {ours.name} more than direct", found_ms, "ms", target)


def _ratios(laps: Sequence[Lap], others: Sequence[Lap]) -> list[float]:
    return [lap.mb_per_s / other.mb_per_s for lap, other in zip(laps, others, strict=True)]
