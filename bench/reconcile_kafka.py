"""B14: what reading costs the reconcile job on Kafka, with its own reader and through Spark's connector, beside a
plain consumer that counts bytes.

500,000 buffered messages of 256 B with three headers on 8 partitions, and as many outcome rows, 1000 in each audit
record. Every reader takes its turn in each of three rounds; Spark throws the rows away (`noop`). CPU is that of the
JVM with its Python workers, or of the consumer's own process; the first lap of each is not counted.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import Any

from confluent_kafka import Producer

from bench.on_kafka.broker import PARTITIONS, Load, Place
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker
from bench.report import Report, cpu_s_of
from delayline.buffer.outcome import AuditRow, Outcome, encode_audit
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.message import Shard
from delayline.records.record import decode_body
from tests.brokers.distribution import CACHE, copy_once

MESSAGES = 500_000
ROUNDS = 3
QUIET_S = 60.0
POM = Path(__file__).resolve().parents[1] / "deploy" / "spark" / "kafka-connector" / "pom.xml"
JARS = CACHE.parent / "spark-kafka" / "jars"
ACCEPTED_MS, DUE_MS = 1_767_225_600_000, 4_102_444_800_000
DUE_LATER = ("deliver-at", b"%d" % DUE_MS)

Laps = Mapping[str, Callable[[], float]]
"""By what reads: a lap, which returns how many CPU seconds it took."""


def run(scale: float) -> Report:
    """About five minutes at scale 1."""
    count = max(8000, int(MESSAGES * scale))
    report = Report(f"B14 reading for the reconcile job, Kafka, {count:,} messages and outcome rows, 8 partitions")
    report.notes.append(
        f"Medians of {ROUNDS} rounds in turns; CPU of the JVM and its Python workers, Spark local[2]."
    )
    return on_broker(report, lambda servers: _measure(report, servers, count))


def _measure(report: Report, servers: str, count: int) -> None:
    copy_once(POM, JARS)
    place = Place.make(servers)
    audit = Names(place.namespace).audit
    for topic in (place.buffer, audit):
        place.make_topic(topic)
    load = Load(servers, place.buffer)
    load.add(range(count), [DUE_LATER])
    load.release()
    records = _fill_audit(servers, place.topic, audit, count)
    with ExitStack() as stack:
        for what, laps in _laps(stack, place, audit, count, records):
            _add(report, what, laps, count)
    place.drop()


def _fill_audit(servers: str, topic: str, audit: str, count: int) -> int:
    """How many records it took."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": "zstd", "linger.ms": 20})
    records = 0
    for number in range(PARTITIONS):
        offsets = range(count // PARTITIONS)
        rows = (
            AuditRow(n, f"{topic}.{number}.{n}.4102444800000", 41 * 10**11, 10**12, Outcome.DELIVERED)
            for n in offsets
        )
        for body in encode_audit(Shard(topic, str(number)), 1, DUE_MS, rows):
            producer.produce(audit, decode_body(body).value, partition=number)
            producer.poll(0)
            records += 1
    producer.flush()
    return records


def _laps(stack: ExitStack, place: Place, audit: str, count: int, records: int) -> Iterator[tuple[str, Laps]]:
    from pyspark.sql import SparkSession

    from mq.kafka.settings import KafkaSettings
    from reconcile.logic.plan import Read
    from reconcile.readers.connector import KafkaConnectorReader
    from reconcile.readers.kafka import KafkaReader

    os.environ["PYSPARK_PYTHON"] = sys.executable  # a process of its own runs this
    spark = SparkSession.Builder().master("local[2]").config(map=_options()).getOrCreate()
    stack.callback(spark.stop)
    settings = KafkaSettings(bootstrap_servers=place.servers, namespace=place.namespace)
    own = stack.enter_context(closing(KafkaReader(settings, SystemClock())))
    connector = stack.enter_context(closing(KafkaConnectorReader(settings, SystemClock(), spark)))
    readers = {"own reader": own, "connector": connector}
    held = own.held()
    reads = [Read(place.topic, shard, *planned) for shard, planned in held.buffers[place.topic].shards.items()]

    def lap(rows: Callable[[Any], Any], reader: Any) -> float:
        return _cpu_of_tree(spark, lambda: rows(reader).write.format("noop").mode("overwrite").save())

    def laps(rows: Callable[[Any], Any], topic: str, read: int) -> Laps:
        ours = {name: partial(lap, rows, reader) for name, reader in readers.items()}
        return {**ours, "consumer": partial(_consume, place.servers, topic, read)}

    yield "accepted record", laps(lambda reader: reader.accepted(spark, reads), place.buffer, count)
    yield "outcome row", laps(lambda reader: reader.audit(spark, held.audit).done, audit, records)


def _options() -> dict[str, Any]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": ",".join(map(str, JARS.glob("*.jar"))),
        "spark.ui.enabled": "false",
    }


def _add(report: Report, what: str, laps: Laps, count: int) -> None:
    for lap in laps.values():
        lap()
    rounds = [{name: 1e6 * lap() / count for name, lap in laps.items()} for _ in range(ROUNDS)]
    for name in laps:
        report.add(f"{what}: CPU, {name}", median(each[name] for each in rounds), "us")
    report.add(
        f"{what}: own reader over connector", median(each["own reader"] / each["connector"] for each in rounds)
    )


def _consume(servers: str, topic: str, count: int) -> float:
    before = getrusage(RUSAGE_SELF)
    reader = Reader(servers, topic)
    size = sum(len(message) for messages in reader.batches(count, QUIET_S) for message in messages)
    reader.close()
    after = getrusage(RUSAGE_SELF)
    assert size > 0, "records have values"
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cpu_of_tree(spark: Any, work: Callable[[], None]) -> float:
    """CPU seconds of Spark's JVM and everything below it."""
    pid = spark.sparkContext._gateway.proc.pid
    before = _cpu_s(pid)
    work()
    return _cpu_s(pid) - before


def _cpu_s(pid: int) -> float:
    """Of a process, of those it has waited for, and of those below it, whichever of its threads has begun them."""
    try:
        own = cpu_s_of(pid, with_children=True)
        below = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in _read(task / "children").split()]
    except FileNotFoundError:
        return 0.0  # it ended: its parent has its time
    return own + sum(_cpu_s(int(child)) for child in below)


def _read(path: Path) -> str:
    """Nothing of a thread that has just ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
