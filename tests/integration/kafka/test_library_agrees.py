"""What a transaction leaves behind is what one of librdkafka's leaves, on brokers of both generations."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from delayline.buffer.cursor import Cursor
from delayline.records.record import encode_body
from mq.kafka.admin.cluster import Cluster
from mq.kafka.admin.limits import Limits
from mq.kafka.admin.offsets import GroupOffsets
from mq.kafka.data_path.finishing import Nobody
from mq.kafka.data_path.producer import WireTransactions
from mq.kafka.data_path.sends import Aborted, Bulk, Send
from mq.kafka.data_path.spoken import direct
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.bodies import parts_of
from mq.kafka.librdkafka.producers import Failure
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker.cursors import decode_metadata, encode_metadata
from tests.brokers.distribution import NEWEST, OLDER
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, soon
from tests.tiers import sample

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

T0 = 1_767_225_600_000
PARTITIONS = 3
BATCH_BYTES_MAX = {"wire": 200_000, "librdkafka": 1_000_000}
"""Of the topics: the wire cuts batches at the topic's setting, librdkafka at its own."""
GIVEN = "given.time"
"""Ends the names of topics whose records keep the time that they were sent with."""

Sends = list[Send | Bulk]


@pytest.fixture(scope="module", params=sample([NEWEST, OLDER], every=2))
def broker(request: pytest.FixtureRequest) -> "Iterator[KafkaAt]":
    if request.param == NEWEST:
        yield request.getfixturevalue("kafka")
        return
    from tests.brokers.kafka import Kafka

    with started(lambda: Kafka(version=request.param)) as older:
        yield older


class Library:
    """The same transactions by librdkafka."""

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._producer = Producer({**settings.transactional(transactional_id), "linger.ms": 10})
        self._producer.init_transactions(PATIENCE_S)

    def close(self) -> None:
        self._producer.flush(PATIENCE_S)

    def run(self, sends: Sends, offsets: Sequence[TopicPartition] = (), metadata: Any = None) -> None:
        failures: list[Failure] = []

        def heard(error: KafkaError | None, message: Message) -> None:
            if error is not None and not trouble.purged(error):
                failures.append(Failure(message.topic() or "", message.partition() or 0, error))

        self._producer.begin_transaction()
        for send in sends:
            for body, time_ms in [(send.body, send.timestamp_ms)] if isinstance(send, Send) else send.deliveries:
                key, value, headers = parts_of(body)
                self._producer.produce(
                    send.topic, value, key, send.partition, heard, timestamp=time_ms or 0, headers=headers
                )
        self._producer.flush(PATIENCE_S)
        if failures:
            self._producer.abort_transaction(PATIENCE_S)
            raise Aborted(failures[0].error, failures)
        if offsets:
            self._producer.send_offsets_to_transaction(list(offsets), metadata, PATIENCE_S)
        self._producer.commit_transaction(PATIENCE_S)


class Path(NamedTuple):
    """One of the two, with topics and a group of its own."""

    transactions: WireTransactions | Library
    topic: str
    settings: KafkaSettings
    member: Any

    def read(self, partition: int) -> list[tuple[Any, ...]]:
        """Every committed record: offset, key, value, headers, and the time that it was given."""
        asked = {
            "bootstrap.servers": self.settings.bootstrap_servers,
            "group.id": f"{self.topic}-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        found: list[tuple[Any, ...]] = []
        with closing(Consumer(asked)) as consumer:
            consumer.assign([TopicPartition(self.topic, partition, 0)])
            while True:
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF
                    return found
                kind, time_ms = message.timestamp()
                stamp = time_ms if GIVEN in self.topic and message.key() != b"now" else kind
                found.append((message.offset(), message.key(), message.value(), message.headers(), stamp))

    def committed(self, partition: int) -> tuple[int, str | None]:
        offsets = GroupOffsets(self.settings, self.settings.group, stable=True, timeout_s=PATIENCE_S, clock=CLOCK)
        with closing(offsets):
            position = offsets.committed(self.topic, partition)
            return position.offset, position.metadata


@pytest.fixture(params=sample(["append.time", GIVEN], every=2))
def paths(broker: "KafkaAt", request: pytest.FixtureRequest) -> Iterator[list[Path]]:
    with ExitStack() as stack:
        yield [_path(broker, name, request.param, stack) for name in ("wire", "librdkafka")]


def _path(broker: "KafkaAt", name: str, kind: str, stack: ExitStack, **properties: str) -> Path:
    namespace = f"agree{uuid4().hex[:8]}"
    topic = f"{namespace}-{name}-{kind}"
    config = {
        "max.message.bytes": str(BATCH_BYTES_MAX[name]),
        "message.timestamp.type": "CreateTime" if kind == GIVEN else "LogAppendTime",
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result()
    dotted = {key.replace("_", "."): value for key, value in properties.items()}
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers, namespace=namespace, properties=dotted)
    member = stack.enter_context(closing(Consumer(settings.member(name))))
    member.subscribe([topic])
    soon(lambda: (member.poll(0.1), member.assignment())[1])
    cluster = Cluster(settings, CLOCK, lambda _: None)
    transactional_id = f"{namespace}-id"
    made: WireTransactions | Library
    if name == "librdkafka":
        made = Library(settings, transactional_id)
    else:
        nodes, codec = direct(settings, name, CLOCK)
        stack.enter_context(closing(nodes))
        limits, pause = Limits(cluster), Event().wait
        made = WireTransactions(settings, transactional_id, nodes, codec, limits, CLOCK, pause, Nobody())
    return Path(stack.enter_context(closing(made)), topic, settings, member.consumer_group_metadata)


def body(number: int, size: int = 50) -> bytes:
    headers = [(b"delayline-id", b"%d" % number), (b"empty", b""), (b"null", None)][: number % 4]
    return encode_body(b"k%d" % number if number % 3 else None, bytes(size) if number % 5 else None, headers)


def transactions_of(topic: str) -> list[Sends]:
    """Small and large, with times and without, some of several batches."""
    stamped = [(body(number), T0 + 1000 * number) for number in range(100)]
    now = [(encode_body(b"now", b"%d" % number), None) for number in range(3000)]
    return [
        [Send(topic, 0, body(1), T0)],
        [Bulk(topic, 0, stamped), Bulk(topic, 1, stamped[::-1]), Send(topic, 0, body(7), T0 + 5)],
        [Bulk(topic, 2, now), Send(topic, 1, body(8, 9000), T0)],
        [Bulk(topic, 0, [(body(number, 30_000), T0) for number in range(1, 30)])],
        [Bulk(topic, 1, []), Send(topic, 2, encode_body(None, None), T0)],
    ]


def test_logs_and_cursors_are_the_same(paths: list[Path]) -> None:
    for path in paths:
        for number, sends in enumerate(transactions_of(path.topic)):
            cursor = Cursor(next_offset=number, owner_epoch=number, writer="w" * number, topic_id=bytes(16))
            offsets = [
                TopicPartition(path.topic, row, number, metadata=encode_metadata(cursor)) for row in range(PARTITIONS)
            ]
            path.transactions.run(sends, offsets, path.member())
    wire, library = paths
    for partition in range(PARTITIONS):
        soon(lambda row=partition: len(wire.read(row)) == len(library.read(row)))
        assert wire.read(partition) == library.read(partition)
        assert wire.committed(partition) == library.committed(partition)
        assert decode_metadata(wire.committed(partition)[1] or "").writer == "wwww"


def test_a_record_that_the_topic_does_not_take_is_refused_alike_and_nothing_is_seen(paths: list[Path]) -> None:
    refused = []
    for path in paths:
        sends: Sends = [
            Send(path.topic, 0, body(1)),
            Send(path.topic, 1, encode_body(None, bytes(max(BATCH_BYTES_MAX.values())))),
        ]
        with pytest.raises(Aborted) as caught:
            path.transactions.run(sends)
        path.transactions.run([Send(path.topic, 0, body(2))])
        failures = [(failure.partition, failure.error.code()) for failure in caught.value.failures]
        seen = soon(lambda path=path: path.read(0))
        refused.append((caught.value.error.code(), failures, [one[1:4] for one in seen], path.read(1)))
    assert refused[0] == refused[1]


@pytest.mark.parametrize("compression", sample(["zstd", "lz4", "snappy", "gzip"], every=4))
def test_compressed_batches_are_read_by_others(broker: "KafkaAt", compression: str) -> None:
    with ExitStack() as stack:
        path = _path(broker, "wire", "append.time", stack, compression_type=compression)
        bodies = [body(number, 500) for number in range(3000)]
        path.transactions.run([Bulk(path.topic, 0, [(one, None) for one in bodies])])
        soon(lambda: len(path.read(0)) == len(bodies))
        found = [encode_body(key, value, _names_as_bytes(headers)) for _, key, value, headers, _ in path.read(0)]
        assert found == bodies


def _names_as_bytes(headers: Any) -> list[tuple[bytes, bytes | None]]:
    return [(name.encode(), value) for name, value in headers or ()]
