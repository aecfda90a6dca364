"""B5: 200,000 messages due at one instant on Kafka, beside NATS JetStream's own schedules in the same run.

All are accepted well before the instant. What counts is what a reader sees: how fast they come, and how late the
last one is. Kafka delivers exactly once to a read_committed reader; NATS stores without an fsync per message.
"""

from bench.on_kafka.broker import Load, Place
from bench.on_kafka.nats import running, server
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker, working
from bench.report import Report, Target
from delayline.clock import SystemClock

MESSAGES = 200_000
ROUNDS = 3
LEAD_MIN_S = 5.0
PER_S_MIN = 6000
"""Slower than any of the two accepts: the instant lies far enough ahead."""

QUIET_S = 120.0
_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """About six minutes at scale 1."""
    count = max(1000, int(MESSAGES * scale))
    report = Report(f"B5 {count:,} messages due at one instant, Kafka beside NATS")
    report.notes.append(f"Medians of {ROUNDS} rounds in turns. Arrival at a reader on this machine.")
    return on_broker(report, lambda servers: _measure(report, servers, count))


def _measure(report: Report, servers: str, count: int) -> None:
    program = server()
    ours: list[list[int]] = []
    theirs: list[list[int]] = []
    for _ in range(ROUNDS):
        ours.append(_ours(servers, count))
        if program is not None:
            theirs.append(_nats(program, count))
    _add(report, "Kafka, exactly once", ours)
    if not theirs:
        report.notes.append("No NATS beside it: nats-server is not on this machine, see bench/install-tools.sh.")
        return
    _add(report, "NATS", theirs)
    report.add("time to the last one, NATS relative to ours", _last_ms(theirs) / _last_ms(ours), "", Target(">=", 1))


def _add(report: Report, name: str, rounds: list[list[int]]) -> None:
    lasts = [round_[-1] for round_ in rounds]
    report.add(f"{name}: drained", 1000 * len(rounds[0]) / _last_ms(rounds), "1/s")
    report.add(f"{name}: half of them", _middle([round_[len(round_) // 2] for round_ in rounds]), "ms late")
    report.add(f"{name}: the last one", _last_ms(rounds), "ms late")
    report.add(f"{name}: the last one, best round", min(lasts), "ms late")
    report.add(f"{name}: the last one, worst round", max(lasts), "ms late")
    report.add(f"{name}: early", sum(late_ms < 0 for round_ in rounds for late_ms in round_), "messages")


def _last_ms(rounds: list[list[int]]) -> float:
    return max(1.0, _middle([round_[-1] for round_ in rounds]))


def _middle(numbers: list[int]) -> float:
    return float(sorted(numbers)[len(numbers) // 2])


def _instant_ms(count: int) -> int:
    return _CLOCK.now_ms() + int(1000 * (LEAD_MIN_S + count / PER_S_MIN))


def _check_accepted(due_ms: int) -> None:
    if _CLOCK.now_ms() >= due_ms:
        raise RuntimeError("the instant came before everything was accepted: this machine is too slow or too busy")


def _ours(servers: str, count: int) -> list[int]:
    """Lateness of each message, in ms, in the order of arrival."""
    place = Place.make(servers)
    late: list[int] = []
    with working(place):
        reader, load = Reader(servers, place.topic), Load(servers, place.buffer)
        due_ms = _instant_ms(count)
        load.add(range(count), [("deliver-at", b"%d" % due_ms)])
        load.release()
        _check_accepted(due_ms)
        for messages in reader.batches(count, QUIET_S):
            late += [_CLOCK.now_ms() - due_ms] * len(messages)
        reader.close()
    place.drop()
    return late


def _nats(program: str, count: int) -> list[int]:
    with running(program) as nats:
        due_ms = _instant_ms(count)
        nats.schedule(count, due_ms)
        _check_accepted(due_ms)
        return [at_ms - due_ms for at_ms in nats.arrivals(count)]
