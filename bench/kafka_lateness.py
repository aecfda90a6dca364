"""B2: how late messages are on Kafka at a steady 10,000 per second, 0.5 to 3.5 seconds ahead.

Two moments count: when the broker appended the delivery (its clock stamps target and buffer alike, so `early` is
exact), and when a read_committed reader had it in its hands. Beside it, in the same run, what any transaction takes:
one record, committed and read.
"""

from dataclasses import dataclass, field
from uuid import uuid4

from confluent_kafka import Message, Producer

from bench.kafka_deliver import worker_lap
from bench.on_kafka.broker import ANSWER_S, Place
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker, working
from bench.processes.child import child
from bench.report import Report, Target
from delayline.clock import SystemClock
from delayline.records.headers import DUE

PER_S = 10_000
MEASURED_S = 40
WARM_S = 8
"""Messages of the first seconds warm up broker and worker and are not judged, except for being early."""

WARMING = 400_000
"""Messages delivered before anything is measured: a broker that has just started is several times slower, and still
twice as slow 100,000 messages later."""

TRANSACTIONS = 100
QUIET_S = 60.0
_CLOCK = SystemClock()


@dataclass(slots=True)
class Seen:
    """Lateness in ms of every message, in the order of arrival: appended, and in the reader's hands."""

    appended_ms: list[int] = field(default_factory=list)
    arrived_ms: list[int] = field(default_factory=list)

    def note(self, message: Message, now_ms: int) -> None:
        found: dict[str, bytes] = dict(message.headers() or ())  # type: ignore[arg-type]
        due_ms = int(found[DUE.decode()])
        self.appended_ms.append(message.timestamp()[1] - due_ms)
        self.arrived_ms.append(now_ms - due_ms)


def run(scale: float) -> Report:
    """About two minutes at scale 1."""
    seconds = max(2, int(MEASURED_S * scale))
    report = Report(f"B2 lateness, Kafka, {PER_S:,} messages/s for {seconds} s, 8 partitions")
    report.notes.append(f"Due 0.5 to 3.5 s after acceptance; the first {WARM_S} s are judged for being early only.")
    return on_broker(report, lambda servers: _measure(report, servers, seconds))


def _measure(report: Report, servers: str, seconds: int) -> None:
    worker_lap(servers, WARMING)
    floor = sorted(_transactions(servers))
    report.add("one record in a transaction, committed and read, p50", _at(floor, 0.5), "ms")
    report.add("one record in a transaction, committed and read, p99", _at(floor, 0.99), "ms")
    seen = _seen(servers, (WARM_S + seconds) * PER_S)
    judged = seen.appended_ms[WARM_S * PER_S :], seen.arrived_ms[WARM_S * PER_S :]
    appended, arrived = (sorted(late) for late in judged)
    report.add("arrived, p50", _at(arrived, 0.5), "ms", Target("<=", 10))
    report.add("arrived, p99", _at(arrived, 0.99), "ms", Target("<=", 60))
    report.add("arrived, p99.9", _at(arrived, 0.999), "ms")
    report.add("appended, p50", _at(appended, 0.5), "ms")
    report.add("appended, p99", _at(appended, 0.99), "ms")
    report.add("appended, p99.9", _at(appended, 0.999), "ms")
    report.add("appended, lowest", min(seen.appended_ms), "ms", Target(">=", 0))
    early = sum(late_ms < 0 for late_ms in seen.appended_ms)
    report.add(f"early, of {len(seen.appended_ms):,}", early, "messages", Target("<=", 0))


def _seen(servers: str, count: int) -> Seen:
    place, seen = Place.make(servers), Seen()
    reader = Reader(servers, place.topic)
    delays = {"delay_ms_min": 500, "delay_ms_max": 3500}
    with (
        working(place),
        child("on_kafka.sender", servers=servers, topic=place.buffer, count=count, per_s=PER_S, **delays),
    ):
        for messages in reader.batches(count, QUIET_S):
            now_ms = _CLOCK.now_ms()
            for message in messages:
                seen.note(message, now_ms)
    reader.close()
    place.drop()
    return seen


def _transactions(servers: str) -> list[float]:
    """Milliseconds from the beginning of a transaction of one record until a read_committed reader has it."""
    place = Place.make(servers)
    reader = Reader(servers, place.topic)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"floor-{uuid4()}", "linger.ms": 0})
    producer.init_transactions(ANSWER_S)
    took_ms = []
    for _ in range(TRANSACTIONS):
        start_s = _CLOCK.monotonic_s()
        producer.begin_transaction()
        producer.produce(place.topic, b"floor", partition=0)
        producer.commit_transaction(ANSWER_S)
        for _ in reader.batches(1, QUIET_S):
            took_ms.append(1000 * (_CLOCK.monotonic_s() - start_s))
    reader.close()
    place.drop()
    return took_ms[1:]


def _at(ascending: list[int] | list[float], share: float) -> float:
    return ascending[int(share * (len(ascending) - 1))]
