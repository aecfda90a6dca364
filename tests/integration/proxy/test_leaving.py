"""Clients that send and go: what was read from their sockets goes where it belongs."""

import socket
import struct
from collections.abc import Callable
from contextlib import closing

import pytest

from kafkawire.client.address import parse_servers
from kafkawire.protocol.message import RequestHeader, encode, request_frame
from kafkawire.protocol.messages import metadata, produce
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.conftest import Proxy, consumed
from tests.integration.proxy.test_split import in_buffer, in_target
from tests.unit.mq.kafka.batches import Sent, batch_of, plain

COUNT = 300
PER_REQUEST = 10
LATER = {"delay_ms": b"600000"}


def _record(n: int) -> Sent:
    return plain(0, **(LATER if n % 3 == 1 else {}))._replace(value=b"%d" % n)


def frames(topic: str, acks: int, count: int = COUNT) -> list[bytes]:
    """Produces of ten records each, every third of them with a delay."""
    made = []
    for first in range(0, count, PER_REQUEST):
        records = batch_of([_record(n) for n in range(first, first + PER_REQUEST)], producer_id=-1, base_sequence=-1)
        topics = [produce.ProduceTopic(topic, [produce.ProducePartition(0, records)])]
        request = produce.ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics)
        header = RequestHeader(request.api, 9, first + 1, "leaving")
        made.append(b"".join(request_frame(header, encode(request, 9))))
    return made


def _metadata() -> bytes:
    request = metadata.MetadataRequest(None)
    return b"".join(request_frame(RequestHeader(request.api, 9, 1, "leaving"), encode(request, 9)))


def close(connection: socket.socket) -> None:
    connection.close()


def half_close(connection: socket.socket) -> None:
    """It can still be answered."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(1 << 16):
        pass
    connection.close()


@pytest.mark.parametrize("leave", [close, half_close])
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_everything_sent_before_a_client_closed_goes_where_it_belongs(
    opened: Proxy, acks: int, leave: Callable[[socket.socket], None]
) -> None:
    opened.make_topic(1)
    connection = socket.create_connection(("127.0.0.1", opened.port))
    connection.sendall(b"".join(frames(opened.place.topic, acks)))
    leave(connection)
    assert in_target(opened, COUNT * 2 // 3) == [n for n in range(COUNT) if n % 3 != 1]
    assert in_buffer(opened, COUNT // 3) == [n for n in range(COUNT) if n % 3 == 1]
    soon(lambda: opened.count("delayline_kafka_proxy_connections") == 0)


def test_a_client_that_closes_before_the_broker_is_reached_is_served(opened: Proxy) -> None:
    opened.make_topic(1)
    connections = []
    for frame in frames(opened.place.topic, 0):
        connections.append(socket.create_connection(("127.0.0.1", opened.port)))
        connections[-1].sendall(frame)
        connections[-1].close()
    assert sorted(in_target(opened, COUNT * 2 // 3)) == [n for n in range(COUNT) if n % 3 != 1]
    assert sorted(in_buffer(opened, COUNT // 3)) == [n for n in range(COUNT) if n % 3 == 1]


def test_half_a_request_is_left_out(opened: Proxy) -> None:
    opened.make_topic(1)
    whole, last = frames(opened.place.topic, 0, 2 * PER_REQUEST)
    connection = socket.create_connection(("127.0.0.1", opened.port))
    connection.sendall(whole + last[:-1])
    connection.close()
    assert in_buffer(opened, 3) == [1, 4, 7]
    soon(lambda: opened.count("delayline_kafka_proxy_connections") == 0)
    assert len(consumed(opened.address, opened.place.topic, 20, timeout_s=3, quiet_s=1)) == 7


def test_a_client_is_not_waited_for_longer_than_the_setting_allows(proxy: Proxy) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with proxy.open(proxy.registry, bootstrap=parse_servers(address), drain_max_s=0.2):
            with closing(socket.create_connection(("127.0.0.1", proxy.port))) as connection:
                connection.sendall(_metadata())
                soon(lambda: proxy.count("delayline_kafka_proxy_received_bytes_total") > 0)
            soon(lambda: proxy.count("delayline_kafka_proxy_connections") == 0)
            assert proxy.count("delayline_kafka_proxy_undrained_total") == 1


def test_a_reset_ends_the_connection_and_nobody_waits(opened: Proxy) -> None:
    opened.make_topic(1)
    connection = socket.create_connection(("127.0.0.1", opened.port))
    connection.sendall(_metadata())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    soon(lambda: opened.count("delayline_kafka_proxy_connections") == 0)
