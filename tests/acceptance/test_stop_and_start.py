"""Servers that are stopped, killed and started again on the same folder."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.acceptance.asking import HTTP, delivered, numbers, send, wait_delivered, wait_for
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server

STOPS_WITHIN_S = 5.0
READY_WITHIN_S = 10.0


class Senders:
    """Batches from two threads for as long as somebody answers; knows what was acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.acknowledged: list[str] = []
        self.unknown: set[str] = set()
        self.surprises: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in "ab"]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(timeout=10)

    def _run(self, name: str) -> None:
        with httpx.Client(base_url=self._url, timeout=5) as http:
            for batch in range(10_000):
                values = [f"{name}-{batch}-{number}" for number in range(20)]
                if not self._send(http, values):
                    return

    def _send(self, http: httpx.Client, values: list[str]) -> bool:
        messages = [{"value": value, "schedule": {"delay_ms": 30 * number}} for number, value in enumerate(values, 1)]
        try:
            answer = http.post("/v1/topics/orders/messages", json={"messages": messages})
        except httpx.TransportError:
            self.unknown.update(values)
            return False
        if answer.status_code == 201:
            self.acknowledged += values
        elif answer.status_code == 503:
            self.unknown.update(values)
        else:
            self.surprises.append(answer.text)
        return answer.status_code == 201


@contextmanager
def open_stream(server: Server) -> Iterator[Iterator[str]]:
    """The lines of a stream of the topic `orders`, from which something has come already."""
    send(server.url, "orders", ["first"], delay="1ms")
    wait_delivered(server, ["first"])
    url = f"{server.url}/v1/topics/orders/records?follow=sse"
    with httpx.Client(timeout=10) as http, http.stream("GET", url) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("data:"))
        yield lines


@pytest.mark.thorough
def test_a_second_start_is_ready_soon_and_delivers_what_waited(server: Server) -> None:
    send(server.url, "orders", numbers(100), delay="1500ms")
    code, _ = server.stop()
    server.start()
    seconds = server.wait_ready()
    found = wait_delivered(server, numbers(100))
    assert (code, found) == (0, numbers(100))
    assert seconds < READY_WITHIN_S


def test_a_clean_stop_and_a_start_repeat_nothing(server: Server) -> None:
    send(server.url, "orders", numbers(200), delay="10ms")
    before = wait_delivered(server, numbers(200))
    server.stop()
    server.start()
    server.wait_ready()
    send(server.url, "orders", ["last"], delay="10ms")
    assert wait_delivered(server, [*before, "last"]) == sorted([*numbers(200), "last"])


def test_sigterm_ends_it_soon_under_load_and_with_an_open_stream_and_loses_nothing(server: Server) -> None:
    senders = Senders(server.url)
    with open_stream(server) as lines:
        senders.start()
        wait_for(lambda: len(senders.acknowledged), lambda count: count > 2000)
        code, seconds = server.stop()
        rest = list(lines)
    senders.join()
    server.start()
    server.wait_ready()
    wait_for(lambda: set(delivered(server.url)), lambda found: found >= set(senders.acknowledged))
    found = wait_delivered(server, senders.acknowledged)
    assert (code, senders.surprises) == (0, [])
    assert seconds < STOPS_WITHIN_S
    assert len(senders.acknowledged) > 2000
    assert len(found) == len(set(found)), "something was delivered twice"
    assert set(senders.acknowledged) <= set(found) <= {*senders.acknowledged, *senders.unknown, "first"}
    assert any(line.startswith("data:") for line in rest)


def test_a_stop_with_nothing_to_do_is_logged_and_leaves_no_trace_of_trouble(server: Server) -> None:
    code, seconds = server.stop()
    log = server.log.read_text()
    assert (code, "stopped" in log, "Traceback" in log) == (0, True, False)
    assert seconds < STOPS_WITHIN_S


def test_what_was_acknowledged_before_a_sigkill_is_delivered_once_after_it(server: Server) -> None:
    send(server.url, "orders", numbers(300), delay="2s")
    send(server.url, "orders", ["far"], delay="3s")
    server.kill()
    server.start()
    seconds = server.wait_ready()
    found = wait_delivered(server, [*numbers(300), "far"])
    assert found == [*numbers(300), "far"]
    assert seconds < READY_WITHIN_S


@pytest.mark.thorough
def test_two_hundred_topics_are_ready_soon_after_a_start_and_all_deliver(server: Server) -> None:
    topics = [f"topic-{number}" for number in range(200)]
    for topic in topics:
        send(server.url, topic, ["x"], delay="2500ms")
    server.stop()
    server.start()
    seconds = server.wait_ready()
    names = {topic["name"] for topic in HTTP.get(f"{server.url}/v1/topics").json()["topics"]}
    late = [topic for topic in topics if wait_for(lambda t=topic: _newest(server, t), bool) != ["x"]]
    assert (late, set(topics) - names) == ([], set())
    assert seconds < READY_WITHIN_S


def _newest(server: Server, topic: str) -> list[str]:
    records = HTTP.get(f"{server.url}/v1/topics/{topic}/records").json()["records"]
    return [record["value"] for record in records]


def test_a_full_disk_refuses_new_messages_and_delivers_those_that_wait(make_server: MakeServer) -> None:
    before = make_server("data")
    before.start()
    before.wait_ready()
    send(before.url, "orders", numbers(20), delay="2500ms")
    before.stop()
    full = make_server("data", store__disk_free_min="1TiB")
    full.start()
    full.wait_ready()
    answer = httpx.post(f"{full.url}/v1/topics/orders/messages", json={"value": 1, "schedule": {"delay": "1s"}})
    found = wait_delivered(full, numbers(20))
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/queue-unavailable")
    assert "1048576 MiB are kept free" in answer.json()["detail"]
    assert found == numbers(20)
