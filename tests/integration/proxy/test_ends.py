"""What was read before a connection ends for another reason than its client goes where it belongs."""

import socket
import struct
from contextlib import closing

from kafkawire.protocol.message import RequestHeader, encode, request_frame
from kafkawire.protocol.messages import produce
from tests.fault.proxy.logs import values
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.conftest import Proxy
from tests.unit.mq.kafka.batches import NO_PRODUCER, batch_of, plain

LATER = {"delay_ms": b"600000"}
COUNT = 50
FIRST_DELAYED = 5


def frames(topic: str, acks: int, count: int = COUNT) -> bytes:
    """One Produce per record; from FIRST_DELAYED on every tenth is delayed."""
    return b"".join(_frame(topic, acks, n) for n in range(count))


def _frame(topic: str, acks: int, n: int, value: bytes = LATER["delay_ms"]) -> bytes:
    records = batch_of([plain(n, **({"delay_ms": value} if n % 10 == FIRST_DELAYED else {}))], **NO_PRODUCER)
    request = produce.ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[produce.ProduceTopic(topic, [produce.ProducePartition(0, records)])],
    )
    return b"".join(request_frame(RequestHeader(request.api, 9, n, "ends"), encode(request, 9)))


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port + 1), 30)  # the only node's


def stored(proxy: Proxy, topic: str) -> list[bytes]:
    return [value for one in values(proxy.place.kafka.bootstrap_servers, topic, 1) for value in one]


def all_arrive(proxy: Proxy, count: int = COUNT) -> None:
    delayed = [b"v%d" % n for n in range(count) if n % 10 == FIRST_DELAYED]
    others = [b"v%d" % n for n in range(count) if n % 10 != FIRST_DELAYED]
    soon(lambda: len(stored(proxy, proxy.place.topic)) >= len(others))
    assert stored(proxy, proxy.place.topic) == others
    soon(lambda: len(stored(proxy, proxy.place.buffer)) >= len(delayed))
    assert stored(proxy, proxy.place.buffer) == delayed


def test_what_stands_before_a_request_that_ends_the_connection_is_carried_out(opened: Proxy) -> None:
    opened.make_topic(1)
    with closing(connected(opened)) as client:
        unknown = struct.pack(">ihhi", 8, 999, 0, 1)
        client.sendall(frames(opened.place.topic, 0) + unknown + _frame(opened.place.topic, 0, 51))
        assert client.recv(1) == b""
    all_arrive(opened)


def test_a_refused_record_ends_its_producer_that_takes_no_answers_when_what_stands_before_is_stored(
    opened: Proxy,
) -> None:
    opened.make_topic(1)
    with closing(connected(opened)) as client:
        client.sendall(frames(opened.place.topic, 0) + _frame(opened.place.topic, 0, 55, b"yesterday"))
        assert client.recv(1) == b""
    all_arrive(opened)


def test_a_proxy_that_stops_carries_out_what_it_has_read_from_a_producer_that_takes_no_answers(proxy: Proxy) -> None:
    with proxy.open(proxy.registry):
        proxy.make_topic(1)
        client = connected(proxy)
        sent = frames(proxy.place.topic, 0)
        client.sendall(sent)
        soon(lambda: proxy.count("delayline_kafka_proxy_received_bytes_total") >= len(sent))
    client.close()
    all_arrive(proxy)
