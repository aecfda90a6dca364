"""The reader of buffers beside a consumer of librdkafka on one log: it brings what that brings.

The broker compacts at once, and closes connections that are idle for a moment.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafkawire.client.address import parse_servers
from kafkawire.client.metadata import Nodes
from kafkawire.client.reader import WireReader
from kafkawire.client.reading import At, Gone, Part, Read
from kafkawire.security.access import read_access
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.bodies import record_of
from mq.kafka.settings import KafkaSettings
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, soon

SEED = 11
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
QUIET_S = 0.5
Rows = list[tuple[int, int, bytes]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    properties = {
        "log.cleaner.backoff.ms": "100",
        "log.retention.check.interval.ms": "100",
        "connections.max.idle.ms": "1500",
        "connection.failed.authentication.delay.ms": "0",
    }
    with started(lambda: Kafka(properties=properties)) as kafka:
        yield kafka


def made(broker: Kafka, **config: str) -> str:
    """A topic of one partition."""
    name = f"buffer-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    settings = {**APPEND_TIME, **{key.replace("_", "."): value for key, value in config.items()}}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result()
    return name


def producer(broker: Kafka, **config: Any) -> Producer:
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20, **dotted})


@contextmanager
def on_the_wire(servers: str, properties: dict[str, str] | None = None) -> Iterator[WireReader]:
    access = read_access(properties or {})
    with (
        closing(Nodes(parse_servers(servers), access, "test", 10, CLOCK)) as nodes,
        closing(WireReader(nodes, 10, CLOCK)) as reader,
    ):
        yield reader


class Library:
    """Reads one partition as WireReader does."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(KafkaSettings(bootstrap_servers=servers).reader())

    def assign(self, at: At, offset: int) -> None:
        self._consumer.assign([TopicPartition(*at, offset)])
        self._at, self._next_offset = at, offset

    def unassign(self, _: At) -> None:
        self._consumer.unassign()

    def log_end(self, at: At) -> int:
        return int(self._consumer.get_watermark_offsets(TopicPartition(*at), cached=True)[1])

    def close(self) -> None:
        self._consumer.close()

    def read(self, records_max: int, wait_s: float) -> list[Read]:
        before, records = self._next_offset, []
        for message in self._consumer.consume(records_max, wait_s):
            error = message.error()
            if error is None:
                records.append(record_of(message))
                self._next_offset = records[-1].offset + 1
            elif trouble.end_of_partition(error):
                self._next_offset = max(self._next_offset, message.offset() or 0)  # behind markers, too
            else:
                assert trouble.out_of_range(error), error
                self.unassign(self._at)
                return [Gone(self._at, error.str())]
        return [Part(self._at, records, self._next_offset)] if self._next_offset > before else []


@contextmanager
def both(broker: Kafka) -> Iterator[tuple[WireReader, Library]]:
    with (
        on_the_wire(broker.bootstrap_servers) as wire,
        closing(Library(broker.bootstrap_servers)) as library,
    ):
        yield wire, library


def everything(reader: WireReader | Library, at: At, offset: int, records_max: Callable[[], int]) -> tuple[Rows, int]:
    """What can be read from `offset` on, until nothing more comes, and where reading then is."""
    rows: Rows = []
    next_offset = offset
    reader.assign(at, offset)
    quiet_s = CLOCK.monotonic_s() + 10 * QUIET_S
    while CLOCK.monotonic_s() < quiet_s:
        for found in reader.read(records_max(), 0.1):
            assert isinstance(found, Part)
            rows += [(row[0], row[1], row[2]) for row in found.records]
            next_offset = found.next_offset
            quiet_s = CLOCK.monotonic_s() + QUIET_S
    reader.unassign(at)
    return rows, next_offset


def fill(broker: Kafka, topic: str, dice: Random) -> Producer:
    """Batches of every compression, of producers with transactions and without, interleaved; the last transaction is
    open."""
    names = [f"{topic}-{number}" for number in range(3)]
    writers = [producer(broker, transactional_id=name, transaction_timeout_ms=60_000) for name in names]
    free = [producer(broker, compression_type=codec) for codec in CODECS]
    for writer in writers:
        writer.init_transactions(PATIENCE_S)
        writer.begin_transaction()
    for step in range(120):
        writer = dice.choice([*writers, *free])
        for number in range(dice.randrange(1, 30)):
            headers: list[Any] = [("delay-ms", b"5"), ("none", None)][: dice.randrange(3)]
            value = dice.choice([None, b"", dice.randbytes(dice.randrange(400)), b"x" * dice.randrange(20_000)])
            writer.produce(topic, value, key=dice.choice([None, b"%d.%d" % (step, number)]), headers=headers)
        writer.flush(PATIENCE_S)
        if writer in writers and dice.random() < 0.5:
            writer.commit_transaction(PATIENCE_S) if dice.random() < 0.5 else writer.abort_transaction(PATIENCE_S)
            writer.begin_transaction()
    for writer in writers[:2]:
        writer.abort_transaction(PATIENCE_S)
    writers[2].produce(topic, b"open")
    free[0].produce(topic, b"behind it")
    for writer in (writers[2], free[0]):
        writer.flush(PATIENCE_S)
    return writers[2]


def test_both_readers_bring_the_same_of_a_log_with_everything_in_it(broker: Kafka) -> None:
    print(f"SEED={SEED}")
    dice = Random(SEED)
    topic = made(broker)
    unfinished = fill(broker, topic, dice)
    at = At(topic, 0)
    with both(broker) as readers:
        whole = [everything(reader, at, 0, lambda: 1000) for reader in readers]
        parts = []
        for offset in [row[0] for row in dice.sample(whole[1][0], 5)]:
            parts.append([everything(reader, at, offset, lambda: dice.randrange(1, 300)) for reader in readers])
        unfinished.abort_transaction(PATIENCE_S)
        ended = [everything(reader, at, 0, lambda: 5000) for reader in readers]
    assert len(whole[0][0]) > 300
    assert [wire for wire, _ in parts] == [library for _, library in parts]
    assert (whole[0], ended[0]) == (whole[1], ended[1])
    assert ended[0][0][: len(whole[0][0])] == whole[0][0]
    assert ended[0][1] > whole[0][1]


@pytest.mark.thorough
def test_both_readers_bring_the_same_of_a_log_that_was_compacted(broker: Kafka) -> None:
    topic = made(
        broker,
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="0",
    )
    at = At(topic, 0)

    def churn() -> None:
        writer = producer(broker, compression_type="lz4")
        for number in range(400):
            writer.produce(topic, b"x" * 100, key=b"%d" % (number % 30))
        writer.flush(PATIENCE_S)

    with both(broker) as (wire, library):

        def compacted() -> bool:
            churn()
            rows, next_offset = everything(library, at, 0, lambda: 1000)
            return 0 < len(rows) < next_offset - 400

        soon(compacted)
        rows = [everything(reader, at, 0, lambda: 1000)[0] for reader in (wire, library)]
    last = [{row[2]: row for row in found} for found in rows]
    assert last[0].keys() == last[1].keys()
    assert [row[0] for row in rows[0]] == sorted({row[0] for row in rows[0]})


def test_both_readers_return_where_the_log_begins_and_ends(broker: Kafka) -> None:
    topic = made(broker)
    writer = producer(broker)
    for number in range(10):
        writer.produce(topic, b"%d" % number)
    writer.flush(PATIENCE_S)
    at = At(topic, 0)
    seen = []
    with both(broker) as readers:
        for reader in readers:
            reader.assign(at, 11)
            (gone,) = soon(lambda reader=reader: list(reader.read(10, 0.1)))
            reader.assign(at, 4)
            rows: list[Any] = []
            soon(lambda reader=reader, rows=rows: rows.extend(reader.read(100, 0.1)) or rows)
            seen.append((type(gone), reader.log_end(at), rows[0].records[0][0]))
    assert seen == [(Gone, 10, 4)] * 2


@pytest.mark.thorough
def test_after_the_broker_has_closed_an_idle_connection_reading_goes_on(broker: Kafka) -> None:
    topic = made(broker)
    at = At(topic, 0)
    writer = producer(broker)
    writer.produce(topic, b"a")
    writer.flush(PATIENCE_S)
    with on_the_wire(broker.bootstrap_servers) as reader:
        everything(reader, at, 0, lambda: 10)
        (link,) = reader.links.values()
        soon(lambda: list(reader.read(10, 0.2)) or link.connection is None)
        writer.produce(topic, b"b")
        writer.flush(PATIENCE_S)
        rows, _ = everything(reader, at, 1, lambda: 10)
    assert [row[0] for row in rows] == [1]
