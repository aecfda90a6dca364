"""Real processes on a real Kafka: what the job finds of them, and of the one message that they are made to lose."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from delayline.buffer.decisions import encode_decision
from delayline.buffer.outcome import LOW_WATER, AuditRecord, decode_audit
from delayline.clock import SystemClock
from delayline.records.message import Key, MessageId
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.kafka.librdkafka.bodies import Headers
from reconcile.logic.plan import Held
from reconcile.repair import Repair, Verdict
from reconcile.report.repair_plan import decode_repair_plan
from tests.acceptance.asking import HTTP, send, wait_for
from tests.acceptance.on_kafka import PARTITIONS, make_topic, settings_of
from tests.fault.server import Server, read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mq.kafka.settings import KafkaSettings
    from reconcile.readers.kafka import KafkaReader
    from reconcile.spark.job import RunVerdict
    from tests.brokers.kafka import KafkaAt

DONE = (200, 202, 204)
HOUR_MS = 3_600_000
PLAIN = [f"m{number}" for number in range(30)]


class LaterClock(SystemClock):
    """It shows what time it will be in three hours, when the windows of today's messages have closed."""

    def now_ms(self) -> int:
        return super().now_ms() + 3 * HOUR_MS


@pytest.fixture
def topic(kafka: "KafkaAt") -> str:
    name = f"orders-{uuid4().hex[:8]}"
    make_topic(kafka, name)
    return name


@pytest.fixture
def installation(kafka: "KafkaAt") -> dict[str, str]:
    return {**settings_of(kafka), "audit__low_water_interval": "200ms"}


@pytest.fixture
def server(installation: dict[str, str], topic: str, tmp_path: Path) -> Iterator[Server]:
    """It finds the topic there: a broker that has just made one may not know it yet."""
    started = Server(tmp_path / "data", **installation)
    started.start()
    started.wait_ready()
    yield started
    started.kill()


@pytest.fixture
def settings(installation: dict[str, str]) -> "KafkaSettings":
    from mq.kafka.settings import KafkaSettings

    servers, namespace = (installation[name] for name in ("mq__bootstrap_servers", "namespace"))
    return KafkaSettings(bootstrap_servers=servers, namespace=namespace)


@pytest.fixture
def reader(settings: "KafkaSettings") -> "Iterator[KafkaReader]":
    """What it holds, it holds in three hours."""
    from reconcile.readers.kafka import KafkaReader

    opened = KafkaReader(settings, LaterClock())
    yield opened
    opened.close()


def marks(settings: "KafkaSettings", held: Held) -> dict[int, AuditRecord]:
    """The last low-water mark of each shard."""
    from mq.kafka.planned.ranges import read_range

    found: dict[int, AuditRecord] = {}
    for partition, (start, end) in held.audit.items():
        for chunk in read_range(settings, SystemClock(), settings.names.audit, partition, start, end):
            records = [decode_audit(message.value() or b"")[0] for message in chunk]
            found |= {int(record.shard): record for record in records if record.kind == LOW_WATER}
    return found


def all_is_audited(settings: "KafkaSettings", reader: "KafkaReader", topic: str) -> bool:
    """Whether the audit has an outcome of all that was ever written, as far as the workers know."""
    held = reader.held()
    ends = {shard: end for shard, (_, end) in held.buffers[topic].shards.items()}
    by_shard = marks(settings, held)
    return ends.keys() == by_shard.keys() and all(
        (by_shard[shard].next or 0) >= end and by_shard[shard].pending == 0 for shard, end in ends.items()
    )


def values(server: Server, topic: str) -> list[str]:
    return sorted(record["value"] for record in read_topic(server.url, topic, PARTITIONS))


def forge_a_decision(settings: "KafkaSettings", victim: MessageId) -> None:
    """Somebody writes that the message has ended, which is not so."""
    from confluent_kafka import Producer

    record = decode_body(encode_decision([Key(victim.due_ms, victim.offset)]))
    headers: Headers = [(name.decode(), value) for name, value in record.headers]
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    buffer = settings.names.buffer(victim.shard.topic)
    producer.produce(buffer, record.value, partition=int(victim.shard.partition), headers=headers)
    producer.flush()


def reconcile(spark: "SparkSession", reader: "KafkaReader", output: Path) -> "RunVerdict":
    from reconcile.directory.files import LocalFiles
    from reconcile.settings import JobSettings
    from reconcile.spark.job import run

    return run(JobSettings(output=str(output)), reader, LocalFiles(output), spark, SystemClock())


def first_run(spark: "SparkSession", settings: "KafkaSettings", output: Path) -> "RunVerdict":
    """Now: nothing has closed yet. From here on the service keeps what the job has not read."""
    from reconcile.readers.kafka import KafkaReader

    with closing(KafkaReader(settings, SystemClock())) as now:
        return reconcile(spark, now, output)


@pytest.mark.thorough
def test_the_one_message_that_was_lost_is_named_and_comes_after_its_repair(
    spark: "SparkSession",
    settings: "KafkaSettings",
    server: Server,
    reader: "KafkaReader",
    topic: str,
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "ledger"
    (cancelled,) = send(server.url, topic, ["cancelled"], delay="1h")
    assert wait_for(lambda: marks(settings, reader.held()).keys(), lambda shards: len(shards) == PARTITIONS, 60)
    assert first_run(spark, settings, ledger).exit_code == 0
    send(server.url, topic, PLAIN, delay="1s")
    send(server.url, topic, ["repeated"], every="1s", times=3)
    moved, victim = send(server.url, topic, ["moved", "victim"], delay="1h")
    ask(server, "DELETE", cancelled)
    ask(server, "PATCH", moved, json={"schedule": {"delay": "2s"}})
    server.kill()
    forge_a_decision(settings, MessageId.parse(victim["message_id"]))
    server.start()
    server.wait_ready()
    wanted = sorted([*PLAIN, "moved", *["repeated"] * 3])
    assert wait_for(lambda: values(server, topic), lambda found: len(found) >= len(wanted), 60) == wanted
    assert wait_for(lambda: all_is_audited(settings, reader, topic), bool, 60)

    verdict = reconcile(spark, reader, ledger)

    assert (verdict.exit_code, verdict.summary.findings_total) == (2, 1)
    (found,) = verdict.summary.findings
    lost = MessageId.parse(victim["message_id"])
    assert (found.category, found.id) == ("missing", victim["message_id"])
    assert (found.topic, str(found.shard), found.offset, found.due_ms) == (*lost.shard, lost.offset, lost.due_ms)
    totals = verdict.summary.topics[0].ledger
    assert (totals.delivered, totals.cancelled, totals.missing, totals.difference) == (len(wanted), 1, 1, 0)

    put_back(settings, ledger)
    ask(server, "POST", victim, ":deliver")
    assert wait_for(lambda: values(server, topic), lambda found: "victim" in found, 60) == sorted([*wanted, "victim"])
    assert wait_for(lambda: all_is_audited(settings, reader, topic), bool, 60)

    after = reconcile(spark, reader, ledger)

    assert (after.exit_code, after.summary.topics[0].findings) == (0, {})
    totals = after.summary.topics[0].ledger
    assert (totals.delivered, totals.missing, totals.difference) == (len(wanted) + 1, 0, 0)

    topics = against_the_topics(spark, reader, ledger)
    assert (topics.exit_code, topics.summary.findings) == (0, [])
    forge_a_delivery(settings, reader, topic)
    topics = against_the_topics(spark, reader, ledger)
    assert {one.category for one in topics.summary.findings} == {"altered", "duplicated", "misplaced"}
    assert {one.id for one in topics.summary.findings} == {victim["message_id"]}


def against_the_topics(spark: "SparkSession", reader: "KafkaReader", output: Path) -> "RunVerdict":
    from reconcile.directory.files import LocalFiles
    from reconcile.settings import JobSettings
    from reconcile.spark.against import compare

    settings = JobSettings(output=str(output), against="targets")
    return compare(settings, reader, LocalFiles(output), spark, LaterClock(), stamps_deliveries=True)


def forge_a_delivery(settings: "KafkaSettings", reader: "KafkaReader", topic: str) -> None:
    """The victim once more, in another partition and with another value."""
    from confluent_kafka import Producer

    from mq.kafka.planned.ranges import read_range

    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for partition, held in reader._held(topic)[1].items():
        chunks = read_range(settings, SystemClock(), topic, partition, *held)
        for message in (message for chunk in chunks for message in chunk if message.value() == b"victim"):
            other = (partition + 1) % PARTITIONS
            producer.produce(topic, b"Victim", partition=other, headers=message.headers())
    producer.flush()


def put_back(settings: "KafkaSettings", ledger: Path) -> None:
    """What the run reports missing is sent again."""
    from mq.kafka.queue import KafkaQueue

    plan = decode_repair_plan((ledger / "repair-plan.json").read_bytes())
    with closing(KafkaQueue(settings, SystemClock())) as queue:
        repair = Repair(queue, "kafka", settings.names, lambda topic: DEFAULT_RULES, SystemClock())
        repair.claim()
        steps = [repair.send(step) for step in repair.look(plan)]
        again = repair.look(plan)
    assert [step.verdict for step in (*steps, *again)] == [Verdict.SENT, Verdict.ENDED]


def ask(server: Server, method: str, message: dict[str, Any], what: str = "", **body: Any) -> None:
    """Once a worker knows the message."""
    url = f"{server.url}/v1/messages/{message['message_id']}{what}"
    status = wait_for(lambda: HTTP.request(method, url, **body).status_code, lambda status: status in DONE, 60)
    assert status in DONE
