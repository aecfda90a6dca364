"""Requests that are sent again, to a real worker."""

from typing import Any

import httpx

from tests.acceptance.asking import HTTP, delivered, wait_delivered, wait_for
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server


def _send(server: Server, topic: str, key: str, value: str, delay: str = "1h") -> httpx.Response:
    body: dict[str, Any] = {"value": value, "schedule": {"delay": delay}}
    return HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json=body, headers={"Idempotency-Key": key})


def test_a_request_that_is_sent_again_is_answered_as_the_first_time_and_delivered_once(shared: Server) -> None:
    first, again = (_send(shared, "again", "k", "a", "1s") for _ in range(2))
    other = _send(shared, "again", "k", "b", "1s")
    found = wait_delivered(shared, ["a"], "again")
    after = _send(shared, "again", "k", "a", "1s")

    assert (first.status_code, again.status_code, after.status_code, other.status_code) == (201, 201, 201, 422)
    assert first.json() == again.json() == after.json()
    replays = [answer.headers.get("idempotency-replayed") for answer in (first, again, after)]
    assert replays == [None, "true", "true"]
    assert found == delivered(shared.url, "again") == ["a"]


def test_a_key_is_known_after_a_crash_while_its_message_waits(make_server: MakeServer) -> None:
    server = make_server()
    server.start()
    server.wait_ready()
    first = _send(server, "kept", "k", "a")
    server.kill()
    server.start()
    server.wait_ready()
    again = wait_for(lambda: _send(server, "kept", "k", "a"), lambda answer: answer.status_code == 201)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert _send(server, "kept", "k", "b").status_code == 422
