"""Real processes on a real RocketMQ: what the job finds, and the one message that they are made to lose."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from delayline.buffer.decisions import encode_decision
from delayline.buffer.outcome import LOW_WATER, AuditRecord, decode_audit
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.message import Key, MessageId
from delayline.records.record import decode_body
from mq.contract import Append
from mq.rocketmq.body import to_member
from reconcile.logic.plan import Held
from rocketmq.wire.bodies import Queue
from tests.acceptance.asking import HTTP, Ran, run, send, wait_for
from tests.brokers.rocketmq import BROKER
from tests.fault.server import Server
from tests.reconcile.test_end_to_end_kafka import LaterClock, ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mq.rocketmq.queue import RocketmqQueue
    from mq.rocketmq.settings import RocketmqSettings
    from reconcile.readers.rocketmq import RocketmqReader
    from reconcile.spark.job import RunVerdict
    from rocketmq.client.client import Client
    from tests.brokers.rocketmq import RocketMqAt

QUEUES = 2
PLAIN = [f"m{number}" for number in range(30)]


@pytest.fixture
def client(rocketmq: "RocketMqAt") -> "Iterator[Client]":
    from rocketmq.client.client import Client

    with Client(rocketmq.settings) as made:
        yield made


@pytest.fixture
def topic(client: "Client") -> str:
    name = f"orders-{uuid4().hex[:8]}"
    client.admin.create_topic(name, BROKER, QUEUES)
    return name


@pytest.fixture
def installation(rocketmq: "RocketMqAt") -> dict[str, str]:
    return {
        "mq__kind": "rocketmq",
        "mq__bootstrap_servers": rocketmq.settings.name_servers[0],
        "namespace": f"ns{uuid4().hex[:8]}",
        "delay__topics": "orders-*",
        "delay__discovery_interval": "200ms",
        "audit__low_water_interval": "200ms",
    }


@pytest.fixture
def server(installation: dict[str, str], tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "data", **installation)
    started.start()
    started.wait_ready()
    yield started
    started.kill()


@pytest.fixture
def settings(installation: dict[str, str]) -> "RocketmqSettings":
    from mq.rocketmq.settings import RocketmqSettings

    names, namespace = installation["mq__bootstrap_servers"], installation["namespace"]
    return RocketmqSettings(name_servers=names, namespace=namespace, discovery_interval_s=0.2)


@pytest.fixture
def queue(settings: "RocketmqSettings") -> "Iterator[RocketmqQueue]":
    """Beside the server, for what the test itself looks at and forges."""
    from mq.rocketmq.queue import RocketmqQueue

    with closing(RocketmqQueue(settings, SystemClock())) as made:
        yield made


def reader_of(settings: "RocketmqSettings", clock: SystemClock) -> "RocketmqReader":
    from reconcile.readers.rocketmq import RocketmqReader

    return RocketmqReader(settings, clock)


@pytest.fixture
def reader(settings: "RocketmqSettings") -> "Iterator[RocketmqReader]":
    """What it holds, it holds in three hours."""
    with closing(reader_of(settings, LaterClock())) as opened:
        yield opened


def marks(queue: "RocketmqQueue", held: Held, audit: str) -> dict[int | None, AuditRecord]:
    """The last low-water mark of each shard, by its number."""
    found: dict[int | None, AuditRecord] = {}
    for partition, (start, end) in held.audit.items():
        records = queue.read(audit, held.partitions.name(partition), start, end - start)
        records_of = [decode_audit(decode_body(one.body).value or b"")[0] for one in records]
        found |= {held.partitions.number(one.shard): one for one in records_of if one.kind == LOW_WATER}
    return found


def is_all_reported(queue: "RocketmqQueue", reader: "RocketmqReader", topic: str, audit: str) -> bool:
    """Whether the audit has an outcome of all that was ever written, as far as the workers know."""
    held = reader.held()
    ends = {shard: end for shard, (_, end) in held.buffers[topic].shards.items()}
    last = marks(queue, held, audit)
    return ends.keys() == last.keys() and all(
        (last[shard].next or 0) >= end and last[shard].pending == 0 for shard, end in ends.items()
    )


def values(queue: "RocketmqQueue", topic: str) -> list[str]:
    found = []
    for name in queue.topic(topic).partitions:
        start, end = queue.offsets(topic, name)
        found += [decode_body(one.body).value or b"" for one in queue.read(topic, name, start, end - start)]
    return sorted(value.decode() for value in found)


def reconcile(spark: "SparkSession", reader: "RocketmqReader", output: Path) -> "RunVerdict":
    from reconcile.directory.files import LocalFiles
    from reconcile.settings import JobSettings
    from reconcile.spark.job import run as run_job

    return run_job(JobSettings(output=str(output)), reader, LocalFiles(output), spark, SystemClock())


def first_run(spark: "SparkSession", settings: "RocketmqSettings", output: Path) -> "RunVerdict":
    """Now: nothing has closed yet."""
    with closing(reader_of(settings, SystemClock())) as now:
        return reconcile(spark, now, output)


def forge_a_decision(queue: "RocketmqQueue", names: Names, victim: MessageId) -> None:
    """Somebody writes that the message has ended, which is not so."""
    body = encode_decision([Key(victim.due_ms, victim.offset)])
    queue.append([Append(names.buffer(victim.shard.topic), victim.shard.partition, body)]).result(30)


def repair(installation: dict[str, str], plan: Path) -> Ran:
    return run("reconcile", "repair", str(plan), "--apply", "--json", **installation)


@pytest.mark.thorough
def test_the_one_message_that_was_lost_is_named_and_comes_after_its_repair(
    spark: "SparkSession",
    installation: dict[str, str],
    server: Server,
    settings: "RocketmqSettings",
    client: "Client",
    queue: "RocketmqQueue",
    reader: "RocketmqReader",
    topic: str,
    tmp_path: Path,
) -> None:
    ledger, names = tmp_path / "ledger", settings.names
    (cancelled,) = send(server.url, topic, ["cancelled"], delay="1h")
    assert wait_for(lambda: marks(queue, reader.held(), names.audit).keys(), lambda shards: len(shards) == QUEUES, 60)
    assert first_run(spark, settings, ledger).exit_code == 0
    send(server.url, topic, PLAIN, delay="1s")
    send(server.url, topic, ["repeated"], every="1s", times=3)
    moved, victim = send(server.url, topic, ["moved", "victim"], delay="1h")
    ask(server, "DELETE", cancelled)
    ask(server, "PATCH", moved, json={"schedule": {"delay": "2s"}})
    server.kill()
    forge_a_decision(queue, names, MessageId.parse(victim["message_id"]))
    server.start()
    server.wait_ready()
    wanted = sorted([*PLAIN, "moved", *["repeated"] * 3])
    assert wait_for(lambda: values(queue, topic), lambda found: len(found) >= len(wanted), 60) == wanted
    assert wait_for(lambda: is_all_reported(queue, reader, topic, names.audit), bool, 60)

    verdict = reconcile(spark, reader, ledger)

    assert (verdict.exit_code, verdict.summary.findings_total) == (2, 1)
    (found,) = verdict.summary.findings
    lost = MessageId.parse(victim["message_id"])
    assert (found.category, found.id) == ("missing", victim["message_id"])
    assert (found.topic, found.shard, found.offset, found.due_ms) == (*lost.shard, lost.offset, lost.due_ms)
    totals = verdict.summary.topics[0].ledger
    assert (totals.delivered, totals.cancelled, totals.missing, totals.difference) == (len(wanted), 1, 1, 0)

    plan = tmp_path / "plan.json"
    plan.write_bytes((ledger / "repair-plan.json").read_bytes())
    with closing(queue.claim("repair")):
        refused = repair(installation, plan)
    first, second = repair(installation, plan), repair(installation, plan)
    assert (refused.code, "another process has it" in refused.err) == (1, True)
    steps = [one["what"] for ran in (first, second) for one in json.loads(ran.out)["messages"]]
    assert steps == ["sent again", "has ended"]
    ask(server, "POST", victim, ":deliver")
    assert wait_for(lambda: values(queue, topic), lambda found: "victim" in found, 60) == sorted([*wanted, "victim"])
    assert wait_for(lambda: is_all_reported(queue, reader, topic, names.audit), bool, 60)

    after = reconcile(spark, reader, ledger)

    assert (after.exit_code, after.summary.topics[0].findings) == (0, {})
    totals = after.summary.topics[0].ledger
    assert (totals.delivered, totals.missing, totals.difference) == (len(wanted) + 1, 0, 0)

    topics = against_the_topics(spark, reader, ledger)
    assert (topics.exit_code, topics.summary.findings) == (0, [])
    forge_a_delivery(queue, client, topic)
    topics = against_the_topics(spark, reader, ledger)
    assert {one.category for one in topics.summary.findings} == {"altered", "duplicated", "misplaced"}
    assert {(one.id, one.shard) for one in topics.summary.findings} == {(victim["message_id"], lost.shard.partition)}


def against_the_topics(spark: "SparkSession", reader: "RocketmqReader", output: Path) -> "RunVerdict":
    from reconcile.directory.files import LocalFiles
    from reconcile.settings import JobSettings
    from reconcile.spark.against import compare

    settings = JobSettings(output=str(output), against="targets")
    return compare(settings, reader, LocalFiles(output), spark, LaterClock(), stamps_deliveries=True)


def forge_a_delivery(queue: "RocketmqQueue", client: "Client", topic: str) -> None:
    """The victim once more, in another queue and with another value."""
    for number, name in enumerate(queue.topic(topic).partitions):
        start, end = queue.offsets(topic, name)
        for one in queue.read(topic, name, start, end - start):
            if decode_body(one.body).value == b"victim":
                member = to_member(one.body)._replace(body=b"Victim")
                client.broker.send_batch(Queue(topic, BROKER, (number + 1) % QUEUES), [member])


class Traffic(Thread):
    """A message after the other, each due a moment later, until it is to stop."""

    def __init__(self, server: Server, topic: str) -> None:
        super().__init__(daemon=True)
        self._server, self._topic, self._stopping = server, topic, Event()
        self.sent: list[dict[str, Any]] = []

    def run(self) -> None:
        while not self._stopping.wait(0.02):
            url = f"{self._server.url}/v1/topics/{self._topic}/messages"
            number = len(self.sent)
            message = {"key": str(number), "value": f"t{number}", "schedule": {"delay": "300ms"}}
            answer = HTTP.post(url, json=message, timeout=20)
            assert answer.status_code == 201, answer.text
            self.sent.append(answer.json())

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)


@pytest.mark.thorough
def test_runs_beside_traffic_find_nothing_and_count_all_of_it_in_the_end(
    spark: "SparkSession",
    server: Server,
    settings: "RocketmqSettings",
    queue: "RocketmqQueue",
    reader: "RocketmqReader",
    topic: str,
    tmp_path: Path,
) -> None:
    ledger, names = tmp_path / "ledger", settings.names
    send(server.url, topic, ["first"], delay="1s")
    traffic = Traffic(server, topic)
    traffic.start()
    try:
        beside = [first_run(spark, settings, ledger).summary]
        beside += [reconcile(spark, reader, ledger).summary for _ in range(2)]
    finally:
        traffic.stop()
    assert wait_for(lambda: is_all_reported(queue, reader, topic, names.audit), bool, 60)
    last = reconcile(spark, reader, ledger)

    assert [one.findings_total for one in beside] == [0, 0, 0]
    assert last.exit_code == 0
    totals = last.summary.topics[0].ledger
    assert (totals.delivered, totals.missing, totals.difference) == (len(traffic.sent) + 1, 0, 0)
    assert len(traffic.sent) > 50
