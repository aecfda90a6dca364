"""The shell: a process of its own, asked over real sockets."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from api.server import GRACE_S, HttpPort, serve
from delayline.process.listening import CannotListen
from tests.ports import free_port
from tests.unit.api.in_memory import MESSAGES, RECORDS, Api

BUSY_S = 6.0
"""Within which a process ends on a busy machine; streams alone would hold it for ever."""

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def _server(*how: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    port = free_port()
    command = [sys.executable, "-m", "tests.unit.api.serve_api", str(port), *how]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ.copy()
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_the_server_answers_as_soon_as_it_logs_that_it_has_started() -> None:
    with _server() as (_, url):
        answer = httpx.post(url + MESSAGES, json={"value": 1, "schedule": {"delay": "1s"}})
    assert answer.status_code == 201
    assert "server" not in answer.headers


@pytest.mark.slow
def test_a_client_that_sends_on_gets_the_answer_to_a_body_that_is_too_large() -> None:
    with _server() as (_, url):
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as channel:
            head = f"POST {MESSAGES} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            channel.sendall(f"{head}content-length: {40 << 20}\r\n\r\n".encode())
            for _ in range(40):
                channel.sendall(bytes(1 << 20))
            assert channel.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.slow
def test_a_request_that_is_under_way_when_the_server_stops_is_answered_and_leaves_no_trace_in_the_log() -> None:
    with _server("undecided") as (process, url), ThreadPoolExecutor(1) as threads:
        assert process.stdout is not None
        waits = {"value": 1, "schedule": {"delay": "1h", "own_id": "a"}}
        asked = threads.submit(httpx.post, url + MESSAGES, json=waits, timeout=10)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        answer = asked.result()
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/queue-unavailable")
        assert "Traceback" not in process.stdout.read()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_its_grace_even_with_open_streams_and_the_caller_goes_on(number: int) -> None:
    with _server() as (process, url), httpx.Client(base_url=url, timeout=5) as http:
        http.post(MESSAGES, json={"value": 1, "partition": 0})
        with http.stream("GET", RECORDS, params={"follow": "sse"}) as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("data:"))
            started = time.monotonic()
            process.send_signal(number)
            assert [line for line in lines if line.startswith("data:")] == []
        assert process.wait(timeout=10) == 0
        assert time.monotonic() - started < GRACE_S + BUSY_S
        assert process.stdout is not None
        assert process.stdout.readline() == "ended\n"


@pytest.mark.slow
def test_a_body_too_large_is_refused_on_the_wire_and_the_connection_ends() -> None:
    with _server() as (_, url), socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 5) as raw:
        head = f"POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        raw.sendall(f"{head}content-length: 999999999\r\n\r\n".encode())
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b"/problems/too-large" in received


def test_head_has_no_body_on_the_wire() -> None:
    with _server() as (_, url):
        answer = httpx.head(url + "/v1/info")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_a_port_in_use_is_one_clear_sentence_and_nothing_is_announced() -> None:
    announced: list[bool] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        taken = HttpPort(Api().app, "127.0.0.1", port, "worker.port")
        with pytest.raises(
            CannotListen,
            match=f"port {port} on 127.0.0.1 is in use by another program; choose another with worker.port",
        ):
            serve(taken, on_started=lambda _: announced.append(True))
    assert announced == []


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "not an address"])
def test_an_address_that_is_not_of_this_machine_is_one_clear_sentence(host: str) -> None:
    with pytest.raises(CannotListen) as refused:
        serve(HttpPort(Api().app, host, free_port(), "worker.port"), on_started=lambda _: None)
    assert host in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_host_in_absolute_form_counts_and_not_the_header() -> None:
    """RFC 9112, 3.2.2: a page's name that points here is refused in either form."""
    with _server() as (_, url):
        port = int(url.rpartition(":")[2])
        for host, header, status in (("evil.example", "localhost", b"421"), ("localhost", "evil.example", b"200")):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as channel:
                channel.sendall(f"GET http://{host}/v1/info HTTP/1.1\r\nhost: {header}\r\n\r\n".encode())
                assert channel.recv(12).split()[1] == status
