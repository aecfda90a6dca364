"""B16: how late messages are on RocketMQ, beside the same broker's own timer and delay levels, in turns.

    steady    200,000 messages within a minute, 1 to 10 s ahead; levels: a second ahead
    faster    5,000 messages a second, 0.5 to 3.5 s ahead
    instant   200,000 messages due at one instant

Lateness is by the broker's clock, which stamps what it stores: no reader takes part. CPU is that of our worker and of
the broker, for the whole way of a message.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from statistics import median
from typing import NamedTuple

from bench.on_rocketmq.place import Place
from bench.on_rocketmq.rig import on_broker, send, working
from bench.processes.child import Child
from bench.report import Report, Target, cpu_s_of
from delayline.clock import SystemClock
from tests.brokers.rocketmq import RocketMq

MESSAGES, STEADY_S = 200_000, 60
FASTER_PER_S, FASTER_S = 5_000, 30
WARM_S = 5
LEAD_S = 8.0
ACCEPTED_PER_S = {"buffer": 20_000, "timer": 4_000}
"""Slower than each is accepted: the instant lies far enough ahead."""
AHEAD_MS, NEARER_MS = (1_000, 10_000), (500, 3_500)
QUIET_S = 120.0
ROUNDS = 3
NAMES = {"buffer": "Delayline", "timer": "RocketMQ's timer", "level": "RocketMQ's levels"}
BOTH = ("buffer", "timer")
THEIR_DRAIN_PER_S = 38_000
"""Of the timer, as was once measured here."""
_CLOCK = SystemClock()


class Round(NamedTuple):
    """Lateness in ms of the messages that count, those that were early, how many there were, and CPU seconds of the
    broker and of our worker."""

    late_ms: list[int]
    early: int
    messages: int
    broker_cpu_s: float
    worker_cpu_s: float


def run(scale: float) -> Report:
    """About fifteen minutes at scale 1."""
    report = Report("B16 lateness on RocketMQ, beside its own timer and levels, 8 queues")
    report.notes.append(f"Medians of {ROUNDS} rounds in turns; the first {WARM_S} s are judged for being early only.")
    return on_broker(report, lambda server: _measure(report, server, scale))


def _measure(report: Report, server: RocketMq, scale: float) -> None:
    per_s = MESSAGES // STEADY_S
    steady_s, faster_s = (max(WARM_S + 5, int(seconds * scale)) for seconds in (STEADY_S, FASTER_S))
    for way in ("buffer", "timer"):  # a broker that has just started is several times slower
        _paced(server, way, per_s, WARM_S, AHEAD_MS)
    steady = _in_turns(tuple(NAMES), lambda way: _paced(server, way, per_s, steady_s, AHEAD_MS))
    _add_late(report, f"{per_s:,}/s", steady, {"p99": 100.0})
    faster = _in_turns(BOTH, lambda way: _paced(server, way, FASTER_PER_S, faster_s, NEARER_MS))
    _add_late(report, f"{FASTER_PER_S:,}/s", faster, {"p50": 20.0, "p99": 80.0})
    count = max(5000, int(MESSAGES * scale))
    _add_drained(report, count, _in_turns(BOTH, lambda way: _instant(server, way, count)))


def _in_turns(ways: Sequence[str], play: Callable[[str], Round]) -> dict[str, list[Round]]:
    """By way, in the order of the rounds."""
    rounds: dict[str, list[Round]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, found in rounds.items():
            found.append(play(way))
    return rounds


# --- rounds


def _paced(server: RocketMq, way: str, per_s: int, seconds: int, ahead_ms: tuple[int, int]) -> Round:
    return _round(server, way, per_s * seconds, per_s, ahead_ms, min(WARM_S, seconds - 1) * per_s)


def _instant(server: RocketMq, way: str, count: int) -> Round:
    per_s = ACCEPTED_PER_S[way]
    due_ms = _CLOCK.now_ms() + int(1000 * (LEAD_S + count / per_s))
    return _round(server, way, count, per_s, (due_ms, due_ms), 0)


def _round(server: RocketMq, way: str, count: int, per_s: int, ahead_ms: tuple[int, int], warm: int) -> Round:
    """The first `warm` messages do not count for lateness. Raises RuntimeError where one is missing, or twice."""
    place = Place.make(server.settings.name_servers[0])
    with working(place) if way == "buffer" else nullcontext() as worker:
        before_s = _cpu_s(server, worker)
        send(way, place, count, per_s, ahead_ms)
        if ahead_ms[0] == ahead_ms[1] and _CLOCK.now_ms() >= ahead_ms[0]:
            raise RuntimeError("the instant came before everything was accepted")
        place.wait_for(count, QUIET_S)
        broker_s, worker_s = (after - before for after, before in zip(_cpu_s(server, worker), before_s, strict=True))
    found = sorted(place.delivered())
    if len({one.number for one in found}) != count or len(found) != count:
        raise RuntimeError(f"{NAMES[way]}: {len(found):,} deliveries of {count:,} messages")
    late_ms = [one.stored_ms - one.due_ms for one in found]
    return Round(sorted(late_ms[warm:]), sum(late < 0 for late in late_ms), count, broker_s, worker_s)


def _cpu_s(server: RocketMq, worker: Child | None) -> tuple[float, float]:
    """Of the broker and the worker so far."""
    return cpu_s_of(server.broker.pid), 0.0 if worker is None else worker.usage().cpu_s


# --- figures


def _add_late(report: Report, name: str, rounds: Mapping[str, list[Round]], targets: Mapping[str, float]) -> None:
    for way, found in rounds.items():
        for share, text in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")):
            late_ms = median(_at(one.late_ms, share) for one in found)
            target = Target("<=", targets[text]) if way == "buffer" and text in targets else None
            report.add(f"{name}, {NAMES[way]}: late, {text}", late_ms, "ms", target)
        _add_rest(report, name, way, found)


def _add_drained(report: Report, count: int, rounds: Mapping[str, list[Round]]) -> None:
    name, rates = f"{count:,} at one instant", dict[str, float]()
    for way, found in rounds.items():
        last_ms = median(max(1, one.late_ms[-1]) for one in found)
        rates[way] = 1000 * count / last_ms
        target = Target(">=", 2 * THEIR_DRAIN_PER_S) if way == "buffer" else None
        report.add(f"{name}, {NAMES[way]}: drained", rates[way], "1/s", target)
        report.add(f"{name}, {NAMES[way]}: the last one", last_ms, "ms late")
        _add_rest(report, name, way, found)
    report.add(f"{name}: drained, relative to the timer", rates["buffer"] / rates["timer"], "", Target(">=", 2))


def _add_rest(report: Report, name: str, way: str, rounds: Sequence[Round]) -> None:
    """Early ones, and CPU."""
    early, total = sum(one.early for one in rounds), sum(one.messages for one in rounds)
    target = Target("<=", 0) if way == "buffer" else None
    report.add(f"{name}, {NAMES[way]}: early, of {total:,}", early, "messages", target)
    cpu_us = 1e6 * median((one.broker_cpu_s + one.worker_cpu_s) / one.messages for one in rounds)
    worker_us = 1e6 * median(one.worker_cpu_s / one.messages for one in rounds)
    report.add(f"{name}, {NAMES[way]}: CPU of broker and worker", cpu_us, "us/message")
    if way == "buffer":
        report.add(f"{name}, {NAMES[way]}: CPU of the worker alone", worker_us, "us/message")


def _at(ascending: Sequence[int], share: float) -> int:
    return ascending[int(share * (len(ascending) - 1))]
