"""Clients that mean no good, over raw sockets: the server goes on, others are served, the answer is HTTP's own."""

import re
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.acceptance.asking import send, wait_delivered, wait_for
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server

DESCRIPTORS = 160
Connect = Callable[..., socket.socket]
HEAD = b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n"
STUCK = (
    b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: localhost\r\n"
    b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(server, b"first bytes", "127.0.0.2")`: a connection from that address, closed after the test."""
    with ExitStack() as stack:

        def make(server: Server, data: bytes = b"", source: str = "127.0.0.2") -> socket.socket:
            made = socket.create_connection(("127.0.0.1", server.port), 10, (source, 0))
            stack.enter_context(made)
            made.sendall(data)
            return made

        yield make


def answer_on(connection: socket.socket, within_s: float = 15.0) -> bytes:
    """Everything until the server closes."""
    connection.settimeout(within_s)
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def status_of(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[1]) if found else 0


def assert_well(server: Server) -> None:
    """Another client's message goes through."""
    assert httpx.get(f"{server.url}/readyz", timeout=5).status_code == 200
    topic = f"canary-{time.monotonic_ns()}"
    send(server.url, topic, ["well"], delay="10ms")
    assert wait_delivered(server, ["well"], topic) == ["well"]


def dropped(server: Server, reason: str) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=5).text
    found = re.search(rf'^delayline_http_connections_dropped_total{{reason="{reason}"}} (\S+)$', text, re.M)
    return float(found[1]) if found else 0.0


def resident_bytes(server: Server) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Deadlines of half a second."""
    times = {f"api__{name}_timeout": "500ms" for name in ("head", "body", "idle", "send")}
    server = Server(tmp_path_factory.mktemp("impatient") / "data", **times)
    server.start()
    server.wait_ready()
    yield server
    server.kill()


def test_three_hundred_idle_connections_leave_the_process_its_files(
    make_server: MakeServer, connect: Connect
) -> None:
    server = make_server()
    server.descriptors_max = DESCRIPTORS
    server.start()
    server.wait_ready()
    for _ in range(300):
        connect(server)
    assert_well(server)
    assert dropped(server, "evicted") > 100


def test_an_idle_connection_is_closed(impatient: Server, connect: Connect) -> None:
    silent = connect(impatient)
    kept = connect(impatient, HEAD + b"\r\n")
    assert answer_on(silent) == b""
    assert status_of(answer_on(kept)) == 200


def test_a_head_that_trickles_is_given_up(impatient: Server, connect: Connect) -> None:
    slow = connect(impatient, HEAD)
    assert status_of(answer_on(slow)) == 408
    assert dropped(impatient, "head-too-slow") >= 1


def test_blank_lines_for_ever_are_no_request(impatient: Server, connect: Connect) -> None:
    slow = connect(impatient, b"\r\n")
    assert status_of(answer_on(slow)) == 408


@pytest.mark.parametrize(
    ("line", "status"),
    [
        pytest.param(b"x" * 10_000, 431, id="one header without an end"),
        pytest.param(b"a: " + b"b" * 1000 + b"\r\n", 431, id="many headers"),
        pytest.param(b"a:\r\n", 431, id="many small headers"),
        pytest.param(b"\r\n" * 1000, 431, id="blank lines"),
        pytest.param(b"GET " + b"/" * 10_000, 431, id="a path without an end"),
    ],
)
def test_a_head_without_an_end_is_refused_and_not_kept(
    shared: Server, connect: Connect, line: bytes, status: int
) -> None:
    first = b"" if line.startswith((b"GET", b"\r\n")) else HEAD + (b"x: " if line.startswith(b"xx") else b"")
    endless = connect(shared, first)
    before, refused = resident_bytes(shared), dropped(shared, "head-too-large")
    try:
        for _ in range((8 << 20) // len(line)):
            endless.sendall(line)
            line = line.removeprefix(b"GET ")
    except OSError:
        pass
    assert resident_bytes(shared) - before < 4 << 20
    assert status_of(answer_on(endless)) in (status, 0)  # what was sent behind the answer may have reset it
    assert_well(shared)
    assert dropped(shared, "head-too-large") == refused + 1


def test_a_head_a_little_too_large_is_answered(shared: Server, connect: Connect) -> None:
    large = connect(shared, HEAD + b"x: " + b"y" * (64 << 10) + b"\r\n\r\n")
    answer = answer_on(large)
    assert status_of(answer) == 431
    assert b"/problems/head-too-large" in answer
    assert (
        status_of(answer_on(connect(shared, HEAD + b"connection: close\r\nx: " + b"y" * 60_000 + b"\r\n\r\n"))) == 200
    )


def test_trailers_without_an_end_are_refused(shared: Server, connect: Connect) -> None:
    refused = dropped(shared, "head-too-large")
    head = STUCK.replace(b"content-length: 100\r\n\r\n{", b"transfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\nx: ")
    assert status_of(answer_on(connect(shared, head + b"y" * (256 << 10)))) in (431, 0)
    assert dropped(shared, "head-too-large") == refused + 1
    assert_well(shared)


def test_bodies_that_are_stuck_keep_nobody_else_out(make_server: MakeServer, connect: Connect) -> None:
    server = make_server(api__requests_max="40", api__body_timeout="20s")
    server.start()
    server.wait_ready()
    stuck = [connect(server, STUCK) for _ in range(60)]
    refused = [status_of(answer_on(one)) for one in stuck[-30:]]
    assert set(refused) == {429}
    assert_well(server)


def test_a_body_that_is_stuck_is_given_up(impatient: Server, connect: Connect) -> None:
    assert status_of(answer_on(connect(impatient, STUCK))) == 408


def test_a_body_that_nobody_reads_ends_with_the_answer(impatient: Server, connect: Connect) -> None:
    body = b"content-length: 1000000\r\n\r\n"
    unread = connect(impatient, HEAD + body)
    assert status_of(answer_on(unread)) == 200
    assert dropped(impatient, "slow-body") == 1


def test_one_address_does_not_take_all_streams(make_server: MakeServer, connect: Connect) -> None:
    server = make_server(api__streams_max="4")
    server.start()
    server.wait_ready()
    send(server.url, "orders", ["x"], delay="0s")
    follow = HEAD.replace(b"/v1/info", b"/v1/topics/orders/records?follow=sse") + b"\r\n"
    streams = [connect(server, follow) for _ in range(3)]
    statuses = [status_of(stream.recv(4096)) for stream in streams]
    assert statuses == [200, 200, 429]
    with httpx.stream("GET", f"{server.url}/v1/topics/orders/records", params={"follow": "sse"}) as other:
        assert other.status_code == 200


def test_an_answer_that_nobody_reads_is_given_up(impatient: Server, connect: Connect) -> None:
    for _ in range(5):
        send(impatient.url, "large", ["x" * 900_000], delay="0s")
    slow = connect(impatient)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall((HEAD.replace(b"/v1/info", b"/v1/topics/large/records?limit=100") + b"\r\n") * 12)
    assert wait_for(lambda: dropped(impatient, "slow-reader"), lambda count: count == 1) == 1


def test_connections_that_are_all_busy_are_no_reason_to_end(make_server: MakeServer, connect: Connect) -> None:
    server = make_server(api__connections_max="20", api__requests_max="1000", api__address_share_percent="100")
    server.start()
    server.wait_ready()
    for _ in range(20):
        connect(server, STUCK)
    refused = connect(server, HEAD + b"\r\n", "127.0.0.3")
    answer = answer_on(refused)
    assert status_of(answer) == 503
    assert b"retry-after: 1\r\n" in answer


def test_one_address_gets_no_more_than_its_connections(make_server: MakeServer, connect: Connect) -> None:
    server = make_server(api__connections_max="20", api__requests_max="1000")
    server.start()
    server.wait_ready()
    for _ in range(10):
        connect(server, STUCK)
    assert status_of(answer_on(connect(server, HEAD + b"\r\n"))) == 429
    assert_well(server)


def test_requests_that_nobody_waits_for_are_bounded(shared: Server, connect: Connect) -> None:
    many = connect(shared, (HEAD + b"\r\n") * 2000)
    assert 0 < answer_on(many).count(b"HTTP/1.1 200 ") <= 40
    assert_well(shared)


def test_what_is_no_http_is_answered_and_closed(shared: Server, connect: Connect) -> None:
    refused = dropped(shared, "malformed-request")
    assert status_of(answer_on(connect(shared, b"\x16\x03\x01\x02\x00\x01\x00"))) == 400
    assert dropped(shared, "malformed-request") == refused + 1
