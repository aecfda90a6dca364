"""What one client may take of the proxy while others go on."""

import socket
import struct
from contextlib import ExitStack, closing

from kafkawire.batch.compression import compress
from kafkawire.batch.head import Codec
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.messages import cluster, produce
from proxy.kafka.limits import KafkaLimits
from proxy.limits import Limits
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.conftest import Proxy
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import GZIP, NO_PRODUCER, batch_of, plain, with_payload

MIB = 1 << 20


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port + 1), 30)


def is_served(proxy: Proxy) -> None:
    with closing(WireClient(f"127.0.0.1:{proxy.port + 1}")) as client:
        assert client.ask(cluster.ApiVersionsRequest("test", "1"), 3, cluster.ApiVersionsResponse).error_code == 0


def test_unfinished_requests_of_strangers_take_no_more_than_the_budget_and_a_deadline_frees_it(proxy: Proxy) -> None:
    limits = Limits(held_bytes_max=8 * MIB, frame_timeout_s=5)
    with proxy.open(proxy.registry, limits=limits), ExitStack() as stack:
        clients = [stack.enter_context(closing(connected(proxy))) for _ in range(6)]
        for client in clients:
            client.settimeout(30)
            client.sendall(struct.pack(">ihhi", 3 * MIB, 0, 9, 1))
        soon(lambda: proxy.count("delayline_kafka_proxy_held_bytes") == 6 * MIB)
        is_served(proxy)
        assert proxy.count("delayline_kafka_proxy_held_bytes") <= 8 * MIB
        for client in clients:
            assert client.recv(1) == b""
        soon(lambda: proxy.count("delayline_kafka_proxy_held_bytes") == 0)


def test_connections_of_one_address_are_bounded(proxy: Proxy) -> None:
    with proxy.open(proxy.registry, limits=Limits(connections_per_address_max=2)), ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(closing(connected(proxy)))
        with closing(connected(proxy)) as third:
            assert third.recv(1) == b""
        stack.close()
        soon(lambda: proxy.count("delayline_kafka_proxy_connections") == 0)
        is_served(proxy)


def test_a_bomb_is_too_large_and_its_connection_goes_on(proxy: Proxy) -> None:
    bomb = with_payload(batch_of([], **NO_PRODUCER), compress(Codec.GZIP, bytes(40 * MIB), b""), GZIP, 1)
    with proxy.open(proxy.registry, kafka_limits=KafkaLimits(plain_bytes_max=4 * MIB)):
        proxy.make_topic(2)
        with closing(WireClient(f"127.0.0.1:{proxy.port + 1}")) as client:
            for records, code in (
                (bomb, ErrorCode.MESSAGE_TOO_LARGE),
                (batch_of([plain(1)], **NO_PRODUCER), ErrorCode.NONE),
            ):
                parts = [produce.ProducePartition(index, records) for index in range(2)]
                request = produce.ProduceRequest(
                    acks=1, timeout_ms=5000, topic_data=[produce.ProduceTopic(proxy.place.topic, parts)]
                )
                answer = client.ask(request, 9, produce.ProduceResponse).responses[0].partition_responses
                assert [one.error_code for one in answer] == [code] * 2
    assert proxy.count("delayline_kafka_proxy_limited_total") >= 1
