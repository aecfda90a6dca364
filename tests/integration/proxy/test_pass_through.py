"""What everybody gets through the proxy: every broker's answers, no broker's address, none of Delayline's topics."""

import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from delayline.records.message import Shard
from kafkawire.protocol.apis import APIS, ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import Message, RequestHeader, decode, encode, request_frame
from kafkawire.protocol.messages import cluster, fetch, metadata, produce, topics, transactions
from mq.kafka.librdkafka.bodies import Headers
from tests.brokers.certificates import make_certificate
from tests.conftest import started
from tests.integration.kafka.conftest import Place, body
from tests.integration.proxy.conftest import Proxy, consumed
from tests.integration.proxy.wire_client import WireClient
from tests.ports import free_range, is_listening
from tests.unit.mq.kafka.batches import batch_of, plain

if TYPE_CHECKING:
    from delayline.process.tls import TlsContext
    from tests.brokers.kafka import Kafka


@pytest.fixture
def client(opened: Proxy) -> Iterator[WireClient]:
    opened.make_topic(1)
    with closing(WireClient(opened.address)) as client:
        yield client


def buffer_of(proxy: Proxy) -> str:
    """The buffer topic, made."""
    from delayline.schedule.rules import DEFAULT_RULES

    return proxy.place.queue().ensure_buffer(proxy.place.topic, DEFAULT_RULES).name


def sent(client: WireClient, topic: str, records: bytes | None, version: int = 9) -> produce.ProducedPartition:
    request = produce.ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[produce.ProduceTopic(topic, [produce.ProducePartition(0, records)])]
    )
    return client.ask(request, version, produce.ProduceResponse).responses[0].partition_responses[0]


def is_closed(client: WireClient) -> bool:
    with suppress(ConnectionError):
        try:
            client.ask(cluster.ApiVersionsRequest(), 0, cluster.ApiVersionsResponse)
        except AssertionError:
            return True
        return False
    return True


def test_no_answer_reveals_a_real_address(opened: Proxy, client: WireClient) -> None:
    _, port = opened.place.kafka.bootstrap_servers.split(":")
    raw_port = struct.pack(">i", int(port))
    asked: list[Message] = [
        metadata.MetadataRequest(topics=[metadata.MetadataTopicName(name=opened.place.topic)]),
        cluster.FindCoordinatorRequest("group", 0, ["group"]),
        cluster.DescribeClusterRequest(),
    ]
    for request in asked:
        api = APIS[request.api]
        for version in range(api.oldest, api.newest + 1):
            found = bytes(client.body(request, version))
            assert raw_port not in found, (request, version)
    real = metadata.MetadataResponse
    brokers = client.ask(metadata.MetadataRequest(topics=None), 12, real).brokers
    assert [(one.node_id, one.host, one.port) for one in brokers] == [(1, "127.0.0.1", opened.port + 1)]


def test_only_versions_are_offered_that_are_let_through(client: WireClient) -> None:
    offered = client.ask(cluster.ApiVersionsRequest("test", "1"), 3, cluster.ApiVersionsResponse)
    newest = {one.api_key: one.max_version for one in offered.api_keys}
    assert (newest[ApiKey.PRODUCE], newest[ApiKey.FETCH], newest[ApiKey.API_VERSIONS]) == (12, 15, 4)
    assert 78 not in newest


def test_our_own_topics_are_not_listed_not_described_and_not_made_by_asking(
    opened: Proxy, client: WireClient
) -> None:
    buffer = buffer_of(opened)
    listed = client.ask(metadata.MetadataRequest(topics=None), 12, metadata.MetadataResponse)
    names = {topic.name for topic in listed.topics}
    assert opened.place.topic in names
    assert not [name for name in names if name and name.startswith(opened.place.namespace)]
    described = client.ask(
        metadata.MetadataRequest(topics=[metadata.MetadataTopicName(name=buffer)]), 12, metadata.MetadataResponse
    )
    assert [one.error_code for one in described.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_our_own_topics_are_refused_where_they_can_be_named(opened: Proxy, client: WireClient) -> None:
    buffer = buffer_of(opened)
    assert sent(client, buffer, batch_of([plain(1)])).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    deleted = client.ask(topics.DeleteTopicsRequest(topic_names=[buffer]), 5, topics.DeleteTopicsResponse)
    assert [one.error_code for one in deleted.responses] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    added = client.ask(
        transactions.AddPartitionsToTxnRequest("t", 1, 0, [transactions.TxnTopic(buffer, [0])]),
        3,
        transactions.AddPartitionsToTxnResponse,
    )
    codes = [one.partition_error_code for topic in added.results_by_topic for one in topic.results_by_partition]
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert opened.place.queue().log_range(Shard(opened.place.topic, "0")) == (0, 0)


def test_a_buffer_is_not_fetched_by_its_id_either(opened: Proxy, client: WireClient) -> None:
    sent(client, opened.place.topic, batch_of([plain(1, delay_ms=b"60000")]))
    topic_id = opened.place.queue().buffer(Shard(opened.place.topic, "0")).topic_id
    request = fetch.FetchRequest(
        max_wait_ms=100,
        topics=[fetch.FetchTopic(topic_id=topic_id, partitions=[fetch.FetchPartition(partition_max_bytes=1 << 20)])],
    )
    answer = client.ask(request, 15, fetch.FetchResponse)
    found = [one for topic in answer.responses for one in topic.partitions]
    assert [one.error_code for one in found] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert not found[0].records


def test_an_api_versions_request_of_tomorrow_is_answered_in_version_0(client: WireClient) -> None:
    payload = request_frame(
        RequestHeader(ApiKey.API_VERSIONS, 99, 7, "test"), encode(cluster.ApiVersionsRequest("t", "1"), 3)
    )
    answer = client.exchange(b"".join(payload))
    found = decode(cluster.ApiVersionsResponse, 0, answer[4:])
    assert (answer[:4], found.error_code) == (struct.pack(">i", 7), ErrorCode.UNSUPPORTED_VERSION)


def test_a_sasl_handshake_without_headers_behind_it_is_refused_and_ends_the_connection(client: WireClient) -> None:
    payload = request_frame(
        RequestHeader(ApiKey.SASL_HANDSHAKE, 0, 7, "test"), encode(cluster.SaslHandshakeRequest("PLAIN"), 1)
    )
    answer = client.exchange(b"".join(payload))
    assert decode(cluster.SaslHandshakeResponse, 1, answer[4:]).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert is_closed(client)


def test_an_api_that_is_not_let_through_ends_the_connection(client: WireClient) -> None:
    client.send(struct.pack(">ihhih", 10, 78, 1, 7, -1))
    assert is_closed(client)


def test_a_frame_beyond_the_limit_ends_the_connection(proxy: Proxy) -> None:
    with proxy.open(frame_bytes_max=1 << 20), closing(WireClient(proxy.address)) as client:
        client.send(struct.pack(">i", (1 << 20) + 1))
        assert is_closed(client)


def test_null_records_are_answered_and_do_not_reach_a_broker(opened: Proxy, client: WireClient) -> None:
    assert sent(client, opened.place.topic, None).error_code == ErrorCode.INVALID_RECORD
    assert sent(client, f"plain-{opened.place.topic}", None).error_code == ErrorCode.INVALID_RECORD


def test_large_records_pass_both_ways(opened: Proxy) -> None:
    opened.make_topic(1, max_message_bytes=str(16 << 20))
    value = bytes(range(256)) * (4 * 8192)
    producer = Producer({"bootstrap.servers": opened.address, "message.max.bytes": 16 << 20})
    for _ in range(4):
        producer.produce(opened.place.topic, value=value)
    assert producer.flush(30) == 0
    limits = {"fetch.message.max.bytes": 16 << 20, "fetch.max.bytes": 64 << 20, "receive.message.max.bytes": 1 << 27}
    got = consumed(opened.address, opened.place.topic, 4, settings=limits)
    assert [one.value() == value for one in got] == [True] * 4


@pytest.mark.parametrize("headers", [[], [("delay-ms", b"60000")]], ids=["immediate", "delayed"])
def test_a_producer_that_takes_no_answers_gets_none(opened: Proxy, headers: Headers) -> None:
    opened.make_topic(1)
    producer = Producer({"bootstrap.servers": opened.address, "acks": 0})
    for n in range(10):
        producer.produce(opened.place.topic, value=b"%d" % n, headers=headers)
    assert producer.flush(10) == 0
    where = opened.place.buffer if headers else opened.place.topic
    assert [one.value() for one in consumed(opened.place.kafka.bootstrap_servers, where, 10)] == [
        b"%d" % n for n in range(10)
    ]


def test_a_port_of_a_node_works_before_anything_is_known_of_the_node(proxy: Proxy) -> None:
    with proxy.open(), closing(WireClient(f"127.0.0.1:{proxy.port + 1}")) as client:
        answer = client.ask(cluster.ApiVersionsRequest(), 0, cluster.ApiVersionsResponse)
        assert answer.error_code == 0


def test_a_port_of_a_node_that_does_not_exist_hangs_up(proxy: Proxy) -> None:
    with proxy.open(), closing(WireClient(f"127.0.0.1:{proxy.port + 2}")) as client:
        assert is_closed(client)


def test_a_bootstrap_server_that_is_gone_is_passed_over(proxy: Proxy) -> None:
    from kafkawire.client.address import parse_servers

    dead = free_range(1)
    servers = parse_servers(f"127.0.0.1:{dead},{proxy.place.kafka.bootstrap_servers}")
    with proxy.open(bootstrap=servers):
        for _ in range(3):
            assert list(AdminClient({"bootstrap.servers": proxy.address}).list_topics(timeout=10).brokers) == [1]


def test_a_node_whose_id_has_no_port_is_never_shown_to_clients(proxy: Proxy) -> None:
    with proxy.open(node_id_base=5), pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": proxy.address, "log_level": 0}).list_topics(timeout=3)


def test_a_client_that_does_not_read_stops_what_is_sent_to_it(opened: Proxy, client: WireClient) -> None:
    """And gets everything once it reads again, in order."""
    count = 4000
    frames = [
        b"".join(
            request_frame(
                RequestHeader(ApiKey.API_VERSIONS, 3, number, "test"), encode(cluster.ApiVersionsRequest("t", "1"), 3)
            )
        )
        for number in range(count)
    ]
    sender = Thread(target=client.send, args=(b"".join(frames),), daemon=True)
    sender.start()
    assert [struct.unpack(">i", client.payload()[:4])[0] for _ in range(count)] == list(range(count))


def test_group_members_consume_through_the_proxy(opened: Proxy) -> None:
    opened.make_topic(2)
    queue = opened.place.queue()
    from mq.contract import Append

    queue.append([Append(opened.place.topic, str(n % 2), body(b"%d" % n)) for n in range(20)]).result(10)
    got = consumed(opened.address, opened.place.topic, 20)
    assert sorted(int(one.value()) for one in got) == list(range(20))


def test_the_proxy_ends_what_it_was_asked_and_then_its_connections(proxy: Proxy) -> None:
    with closing(ExitStack()) as stack:
        stack.enter_context(proxy.open())
        client = WireClient(proxy.address)
        client.ask(cluster.ApiVersionsRequest(), 0, cluster.ApiVersionsResponse)
    assert is_closed(client)
    assert not is_listening(proxy.port)


def test_clients_may_come_over_tls(proxy: Proxy, tmp_path: Path) -> None:
    proxy.make_topic(1)
    listener, tls = certified(tmp_path)
    with proxy.open(proxy.registry, listener_tls=listener):
        producer = Producer({"bootstrap.servers": proxy.address, **tls})
        for n in range(10):
            producer.produce(proxy.place.topic, value=b"%d" % n, headers=[("delay", b"1h")] if n % 2 else [])
        assert producer.flush(20) == 0
        got = consumed(proxy.address, proxy.place.topic, 5, settings=tls)
        assert [int(one.value()) for one in got] == [0, 2, 4, 6, 8]
        with closing(WireClient(proxy.address)) as plaintext:
            assert is_closed(plaintext)


def certified(folder: Path) -> tuple["TlsContext | None", dict[str, str]]:
    """A listener's certificate for 127.0.0.1, and what a client needs to know of it."""
    from delayline.process.tls import read_listener
    from delayline.process.watched import Watcher

    make_certificate(folder, "listener", "127.0.0.1")
    listener = read_listener(
        str(folder / "listener.crt"), str(folder / "listener.key"), "proxy.kafka.certfile", Watcher()
    )
    return listener, {"security.protocol": "ssl", "ssl.ca.location": str(folder / "listener.crt")}


def test_brokers_may_be_reached_over_tls(proxy: Proxy, tmp_path: Path) -> None:
    """Another proxy, with a listener of TLS and another namespace, stands for them."""
    from kafkawire.client.address import parse_servers
    from proxy.kafka.access import read_access

    proxy.make_topic(1)
    listener, tls = certified(tmp_path)
    encrypted = Proxy(Place(proxy.place.kafka, proxy.stack), proxy.stack)
    with (
        encrypted.open(listener_tls=listener, is_delay_enabled=lambda topic: False),
        proxy.open(proxy.registry, bootstrap=parse_servers(encrypted.address), access=read_access(tls)),
    ):
        producer = Producer({"bootstrap.servers": proxy.address, "enable.idempotence": True})
        for n in range(10):
            producer.produce(proxy.place.topic, value=b"%d" % n, headers=[("delay", b"1h")] if n % 2 else [])
        assert producer.flush(20) == 0
        assert [int(one.value()) for one in consumed(proxy.address, proxy.place.topic, 5)] == [0, 2, 4, 6, 8]
    waiting = consumed(proxy.place.kafka.bootstrap_servers, proxy.place.buffer, 5)
    assert [int(one.value()) for one in waiting] == [1, 3, 5, 7, 9]


@pytest.fixture
def own_kafka() -> "Iterator[Kafka]":
    from tests.brokers.kafka import Kafka

    with started(Kafka) as kafka:
        yield kafka


@pytest.fixture
def own_proxy(own_kafka: "Kafka") -> Iterator[Proxy]:
    with ExitStack() as stack:
        yield Proxy(Place(own_kafka, stack), stack)


def test_a_broker_that_comes_back_is_found_again(own_kafka: "Kafka", own_proxy: Proxy) -> None:
    proxy, kafka = own_proxy, own_kafka
    proxy.make_topic(1)
    with proxy.open(proxy.registry):
        producer = Producer({"bootstrap.servers": proxy.address, "enable.idempotence": True, "log_level": 0})
        for n in range(200):
            producer.produce(proxy.place.topic, value=b"%d" % n, headers=[("delay", b"1h")] if n % 2 else [])
            producer.poll(0)
            if n == 100:
                producer.flush(10)
                kafka.nodes[0].kill()
                kafka.nodes[0].start()
        kafka.wait_ready()
        assert producer.flush(40) == 0
        assert [int(one.value()) for one in consumed(proxy.address, proxy.place.topic, 100)] == list(range(0, 200, 2))
    waiting = consumed(kafka.bootstrap_servers, proxy.place.buffer, 100)
    assert [int(one.value()) for one in waiting] == list(range(1, 200, 2))
