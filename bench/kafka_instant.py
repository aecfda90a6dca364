"""B5: 200,000 messages and a million due at one instant on Kafka, beside NATS JetStream's own schedules.

All are accepted well before the instant. What counts is what a reader sees: how fast they come, and how late the
last one is; and how late another topic's messages are meanwhile, by the broker's clock. Kafka delivers exactly once
to a read_committed reader; NATS stores without an fsync per message.
"""

from collections.abc import Iterator
from typing import NamedTuple

from bench.on_kafka.broker import Load, Place
from bench.on_kafka.nats import running, server
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker, working
from bench.processes.child import child
from bench.report import Report, Target
from delayline.clock import SystemClock
from delayline.records.headers import DUE

MESSAGES, MANY = 200_000, 1_000_000
ROUNDS = 3
LEAD_S = 5.0
PER_S_MIN, THEIRS_PER_S_MIN = 20_000, 6000
"""Slower than Kafka, and NATS, accept: the instant lies far enough ahead."""

FLOW_PER_S = 500
FLOW_DELAY_MS = {"delay_ms_min": 500, "delay_ms_max": 1500}
FLOW_AFTER_S = 15.0
"""The other topic's messages go on for so long behind the instant: longer than anything is drained."""

QUIET_S = 120.0
_CLOCK = SystemClock()


class Drained(NamedTuple):
    """Lateness of each message in ms, in the order of arrival; and of the other topic's that fell due meanwhile."""

    late_ms: list[int]
    others_ms: list[int]


def run(scale: float) -> Report:
    """About eight minutes at scale 1."""
    report = Report("B5 messages due at one instant, Kafka beside NATS")
    report.notes.append(f"Medians of {ROUNDS} rounds in turns. Arrival at a reader on this machine.")
    report.notes.append(
        f"Another topic's {FLOW_PER_S} messages/s: lateness of those due until the last one has come."
    )
    return on_broker(report, lambda servers: _measure(report, servers, scale))


def _measure(report: Report, servers: str, scale: float) -> None:
    count, many = max(1000, int(MESSAGES * scale)), max(1000, int(MANY * scale))
    program = server()
    ours: list[Drained] = []
    theirs: list[Drained] = []
    for _ in range(ROUNDS):
        ours.append(_ours(servers, count))
        if program is not None:
            theirs.append(_nats(program, count))
    _add(report, f"Delayline, {count:,}", ours, judge=True)
    if theirs:
        _add(report, f"NATS, {count:,}", theirs, judge=False)
        ratio = _last_ms(theirs) / _last_ms(ours)
        report.add("time to the last one, NATS relative to ours", ratio, "", Target(">=", 1))
    else:
        report.notes.append("No NATS beside it: nats-server is not on this machine, see bench/install-tools.sh.")
    _add(report, f"Delayline, {many:,}", [_ours(servers, many) for _ in range(ROUNDS)], judge=True)


def _add(report: Report, name: str, rounds: list[Drained], *, judge: bool) -> None:
    lasts = [round_.late_ms[-1] for round_ in rounds]
    count = len(rounds[0].late_ms)
    report.add(f"{name}: drained", 1000 * count / _last_ms(rounds), "1/s", Target(">=", 100_000) if judge else None)
    report.add(f"{name}: half of them", _middle([round_.late_ms[count // 2] for round_ in rounds]), "ms late")
    report.add(f"{name}: the last one", _last_ms(rounds), "ms late")
    report.add(f"{name}: the last one, best round", min(lasts), "ms late")
    report.add(f"{name}: the last one, worst round", max(lasts), "ms late")
    early = sum(late_ms < 0 for round_ in rounds for late_ms in round_.late_ms)
    report.add(f"{name}: early", early, "messages", Target("<=", 0))
    others = sorted(late_ms for round_ in rounds for late_ms in round_.others_ms)
    if others:
        worst = others[int(0.99 * (len(others) - 1))]
        target = Target("<=", 100) if judge else None
        report.add(f"{name}: another topic's, p99 of {len(others):,}", worst, "ms late", target)


def _last_ms(rounds: list[Drained]) -> float:
    return max(1.0, _middle([round_.late_ms[-1] for round_ in rounds]))


def _middle(numbers: list[int]) -> float:
    return float(sorted(numbers)[len(numbers) // 2])


def _instant_ms(count: int, per_s: int) -> int:
    return _CLOCK.now_ms() + int(1000 * (LEAD_S + count / per_s))


def _check_accepted(due_ms: int) -> None:
    if _CLOCK.now_ms() >= due_ms:
        raise RuntimeError("the instant came before everything was accepted: this machine is too slow or too busy")


def _ours(servers: str, count: int) -> Drained:
    place = Place.make(servers)
    other = Place(servers, place.namespace, f"{place.topic}-flow")
    other.make_topic(other.topic)
    late: list[int] = []
    with working(place, others=[other]):
        reader, load = Reader(servers, place.topic), Load(servers, place.buffer)
        due_ms = _instant_ms(count, PER_S_MIN)
        load.add(range(count), [("deliver-at", b"%d" % due_ms)])
        flow_s = (due_ms - _CLOCK.now_ms()) / 1000 + FLOW_AFTER_S
        flow = int(flow_s * FLOW_PER_S)
        with child(
            "on_kafka.sender", servers=servers, topic=other.buffer, count=flow, per_s=FLOW_PER_S, **FLOW_DELAY_MS
        ):
            load.release()
            _check_accepted(due_ms)
            for messages in reader.batches(count, QUIET_S):
                late += [_CLOCK.now_ms() - due_ms] * len(messages)
            reader.close()
            meanwhile = range(due_ms, due_ms + late[-1])
            others = [late_ms for at_ms, late_ms in _flowed(servers, other.topic, flow) if at_ms in meanwhile]
    place.drop()
    return Drained(late, others)


def _flowed(servers: str, topic: str, count: int) -> Iterator[tuple[int, int]]:
    """(due, lateness by the broker's clock) of each of `count` messages."""
    reader = Reader(servers, topic)
    for messages in reader.batches(count, QUIET_S):
        for message in messages:
            due_ms = int(dict(message.headers() or ())[DUE.decode()])  # type: ignore[arg-type]
            yield due_ms, message.timestamp()[1] - due_ms
    reader.close()


def _nats(program: str, count: int) -> Drained:
    with running(program) as nats:
        due_ms = _instant_ms(count, THEIRS_PER_S_MIN)
        nats.schedule(count, due_ms)
        _check_accepted(due_ms)
        return Drained([at_ms - due_ms for at_ms in nats.arrivals(count)], [])
