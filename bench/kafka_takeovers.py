"""B15: how late messages are on Kafka while the same worker takes over shards of another topic.

2,000 messages/s flow through one topic. All shards of another one are lost and taken over again and again, in every
other stretch of some seconds: once a second, as when workers come and go one after another, and four times, which is
a group that never rests. What counts is how late the flow's messages of the one kind of stretch are against
those of the other, by the broker's clock. The first half second of a stretch belongs to neither.
"""

import tempfile
from collections.abc import Sequence

from bench.on_kafka.broker import Place
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker
from bench.processes.child import child
from bench.report import Report, Target
from delayline.records.headers import DUE

PER_S = 2000
MEASURED_S = 120
WARM_S = 10
STRETCH_S = 5.0
EVERY_S = (1.0, 0.25)
BETWEEN_MS = 500
DELAYS_MS = {"delay_ms_min": 500, "delay_ms_max": 1500}
COST_MS_MAX = 5
QUIET_S = 60.0


def run(scale: float) -> Report:
    """About five minutes at scale 1."""
    seconds = max(4 * int(STRETCH_S), int(MEASURED_S * scale))
    report = Report(f"B15 lateness beside takeovers, Kafka, {PER_S:,} messages/s for {seconds} s, 8 partitions")
    report.notes.append(f"Another topic's 8 shards are taken over together, in every other {STRETCH_S:g} s.")

    def measure(servers: str) -> None:
        for every_s in EVERY_S:
            _measure(report, servers, seconds, every_s)

    return on_broker(report, measure)


def _measure(report: Report, servers: str, seconds: int, every_s: float) -> None:
    place = Place.make(servers)
    other = Place(servers, place.namespace, f"{place.topic}-retaken")
    other.make_topic(other.topic)
    count = (WARM_S + seconds) * PER_S
    late: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        given = {"servers": servers, "namespace": place.namespace, "topic": place.topic, "folder": folder}
        with child(
            "on_kafka.retaking", **given, others=[other.topic], stretch_s=STRETCH_S, every_s=every_s
        ) as worker:
            worker.wait_ready()
            worker.wait_ready()
            reader = Reader(servers, place.topic)
            with child("on_kafka.sender", servers=servers, topic=place.buffer, count=count, per_s=PER_S, **DELAYS_MS):
                for messages in reader.batches(count, QUIET_S):
                    for message in messages:
                        due_ms = int(dict(message.headers() or ())[DUE.decode()])  # type: ignore[arg-type]
                        late.append((due_ms, message.timestamp()[1] - due_ms))
            reader.close()
            worker.ask("stretches")
            stretches = worker.hear()
    _add(report, late[WARM_S * PER_S :], stretches, every_s)
    place.drop()


def _add(
    report: Report, late: Sequence[tuple[int, int]], stretches: Sequence[tuple[int, int, int]], every_s: float
) -> None:
    alone = _within(late, [one for one in stretches if not one[2]])
    beside = _within(late, [one for one in stretches if one[2]])
    target = Target("<=", COST_MS_MAX) if every_s == EVERY_S[0] else None
    for name, found in (("alone", alone), (f"beside takeovers every {every_s:g} s", beside)):
        for share, what in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max")):
            report.add(f"{name}: {what} of {len(found):,}", _at(found, share), "ms late")
    report.add("takeovers", sum(one[2] for one in stretches), "shards")
    report.add(f"p99: what takeovers every {every_s:g} s cost", _at(beside, 0.99) - _at(alone, 0.99), "ms", target)
    report.add("early", sum(late_ms < 0 for _, late_ms in late), "messages", Target("<=", 0))


def _within(late: Sequence[tuple[int, int]], stretches: Sequence[tuple[int, int, int]]) -> list[int]:
    """Ascending."""
    spans = [range(begin_ms + BETWEEN_MS, end_ms) for begin_ms, end_ms, _ in stretches]
    return sorted(late_ms for due_ms, late_ms in late if any(due_ms in span for span in spans))


def _at(ascending: Sequence[int], share: float) -> int:
    return ascending[int(share * (len(ascending) - 1))]
