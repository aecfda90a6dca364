"""The codecs against a real broker: it understands what is written, and what it writes is understood."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from kafkawire.batch.head import header_only, read_batch
from kafkawire.client.address import Address
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import Message, decode, encode
from kafkawire.protocol.messages import cluster, metadata, produce, topics, transactions
from proxy.kafka.produce.scan import Directives, scan_batch
from proxy.kafka.view.rewrite import Hidden, View, response_is_read, rewrite_response
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import CODECS, ProducerId, Sent, batch_of, plain

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

HIDDEN = Hidden(lambda name: name.startswith("hidden."), b"hidden.")
VIEW = View(lambda node_id, real: Address("proxy.example", 7), HIDDEN)
PRODUCE_VERSION = 11
READ_S = 30.0


@pytest.fixture
def client(kafka: "KafkaAt") -> Iterator[WireClient]:
    with closing(WireClient(kafka.bootstrap_servers)) as client:
        yield client


def made(client: WireClient, *names: str) -> None:
    request = topics.CreateTopicsRequest(topics=[topics.CreatableTopic(name, 1, 1) for name in names])
    answer = client.ask(request, 7, topics.CreateTopicsResponse)
    assert [one.error_code for one in answer.topics] == [0] * len(names)
    for name in names:
        soon(lambda name=name: producers(client, name).error_code == 0)  # only a leader answers that


def versions_offered(client: WireClient) -> dict[int, range]:
    """What the proxy would offer in front of this broker."""
    body = client.body(cluster.ApiVersionsRequest("test", "1"), 3)
    shown = decode(cluster.ApiVersionsResponse, 3, b"".join(rewrite_response(ApiKey.API_VERSIONS, 3, body, VIEW)))
    return {one.api_key: range(one.min_version, one.max_version + 1) for one in shown.api_keys}


def asked(name: str) -> list[tuple[Message, type[Message]]]:
    return [
        (cluster.ApiVersionsRequest("test", "1"), cluster.ApiVersionsResponse),
        (metadata.MetadataRequest(topics=[metadata.MetadataTopicName(name=name)]), metadata.MetadataResponse),
        (cluster.FindCoordinatorRequest("group", 0, ["group"]), cluster.FindCoordinatorResponse),
        (cluster.DescribeClusterRequest(), cluster.DescribeClusterResponse),
        (
            metadata.DescribeTopicPartitionsRequest(topics=[metadata.DescribedTopicName(name)]),
            metadata.DescribeTopicPartitionsResponse,
        ),
        (transactions.InitProducerIdRequest(None, 60_000), transactions.InitProducerIdResponse),
        (
            transactions.DescribeProducersRequest([transactions.ProducersTopic(name, [0])]),
            transactions.DescribeProducersResponse,
        ),
    ]


def test_every_version_of_what_a_broker_answers_is_read_and_written_byte_for_byte(client: WireClient) -> None:
    name = f"wire-{uuid4().hex}"
    made(client, name, f"hidden.{name}")
    offered = versions_offered(client)
    for request, answer in asked(name):
        for version in offered[request.api]:
            body = client.body(request, version)
            assert b"".join(encode(decode(answer, version, body), version)) == body, (answer, version)
            if response_is_read(request.api, version):
                rewritten = b"".join(rewrite_response(request.api, version, body, VIEW))
                decode(answer, version, rewritten)
                assert b"127.0.0.1" not in rewritten, (answer, version)


def test_a_list_of_all_topics_lacks_the_hidden_ones(client: WireClient) -> None:
    name = f"wire-{uuid4().hex}"
    made(client, name, f"hidden.{name}")
    body = client.body(metadata.MetadataRequest(topics=None), 12)
    shown = decode(metadata.MetadataResponse, 12, b"".join(rewrite_response(ApiKey.METADATA, 12, body, VIEW)))
    names = {topic.name for topic in shown.topics}
    assert name in names
    assert f"hidden.{name}" not in names


def written(client: WireClient, topic: str, records: bytes, version: int = PRODUCE_VERSION) -> int:
    """The error code."""
    request = produce.ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[produce.ProduceTopic(topic, [produce.ProducePartition(0, records)])]
    )
    return client.ask(request, version, produce.ProduceResponse).responses[0].partition_responses[0].error_code


def producers(client: WireClient, topic: str) -> transactions.PartitionProducers:
    request = transactions.DescribeProducersRequest([transactions.ProducersTopic(topic, [0])])
    return client.ask(request, 0, transactions.DescribeProducersResponse).topics[0].partitions[0]


def producer_id(client: WireClient) -> transactions.InitProducerIdResponse:
    """From a coordinator that may be loading yet."""
    request = transactions.InitProducerIdRequest(None, 60_000)
    return soon(
        lambda: None if (found := client.ask(request, 4, transactions.InitProducerIdResponse)).error_code else found
    )


def next_sequence(client: WireClient, topic: str, producer_id: int) -> int | None:
    active = producers(client, topic).active_producers
    found = [one.last_sequence + 1 for one in active if one.producer_id == producer_id]
    return found[0] if found else None


def read_by_librdkafka(kafka: "KafkaAt", topic: str, count: int) -> list[Sent]:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "check.crcs": True})
    consumer.subscribe([topic])
    with closing(consumer):
        found: list[Any] = []
        while len(found) < count:
            read = consumer.consume(count - len(found), READ_S)
            assert read, f"{count - len(found)} more do not come"
            found += [message for message in read if message.error() is None]  # as long as nobody knows the topic
        return [Sent(one.timestamp()[1], one.key(), one.value(), one.headers() or []) for one in found]


@pytest.mark.parametrize("codec", CODECS)
def test_both_parts_of_a_split_batch_are_taken_by_a_broker_and_read_by_a_client(
    kafka: "KafkaAt", client: WireClient, codec: int
) -> None:
    target = f"wire-{uuid4().hex}"
    made(client, target, f"{target}-b")
    producer = producer_id(client)
    ids: ProducerId = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    records = [plain(n, delay_ms=b"5") if n % 10 == 3 else plain(n, trace=b"x" * n) for n in range(100)]
    for part, base in ((records[:60], 0), (records[60:], 60)):
        sent = read_batch(batch_of(part, codec, base_sequence=base, **ids))
        scan = scan_batch(sent, Directives([b"delay-ms"]))
        parts = scan.split({one.place for one in scan.found})
        assert parts.immediate is not None
        assert parts.delayed is not None
        assert written(client, target, b"".join(parts.immediate.encode(base * 9 // 10))) == 0
        assert written(client, f"{target}-b", b"".join(parts.delayed.encode(base // 10))) == 0
    assert next_sequence(client, target, producer.producer_id) == 90
    assert next_sequence(client, f"{target}-b", producer.producer_id) == 10
    assert read_by_librdkafka(kafka, target, 90) == [one for n, one in enumerate(records) if n % 10 != 3]
    assert read_by_librdkafka(kafka, f"{target}-b", 10) == records[3::10]


@pytest.mark.parametrize("version", [3, 7, PRODUCE_VERSION])
def test_a_probe_is_answered_with_invalid_record_and_leaves_nothing(client: WireClient, version: int) -> None:
    topic = f"wire-{uuid4().hex}"
    made(client, topic)
    assert written(client, topic, b"", version) == ErrorCode.INVALID_RECORD
    assert written(client, topic, header_only(5, 0, 0, transactional=False), version) == ErrorCode.INVALID_RECORD
    assert next_sequence(client, topic, 5) is None
    assert written(client, "not-there", b"", version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
