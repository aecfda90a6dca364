"""Bounds: of bodies, keys, headers, records, and of everything in flight at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mq.contract import HEADER_ROOM_BYTES
from tests.unit.api.in_memory import MESSAGES, Api, pointers, problem

JSON = {"content-type": "application/json"}


def test_a_body_at_its_limit_is_taken_and_one_byte_more_is_not() -> None:
    api = Api(body_bytes_max=100)
    text = '{"value":"%s"}'
    assert api.send_text(text % ("x" * (100 - len(text) + 2))).status_code == 201
    answer = api.send_text(text % ("x" * (101 - len(text) + 2)))
    assert problem(answer) == (413, "too-large")
    assert answer.headers["connection"] == "close"


async def _chunks(count: int) -> AsyncIterator[bytes]:
    yield b'{"value":"'
    for _ in range(count):
        yield b"x" * 50
    yield b'"}'


def test_a_body_without_announced_length_is_cut_off_at_the_limit() -> None:
    api = Api(body_bytes_max=1000)
    ok, too_large = (
        api.request("POST", MESSAGES, content=_chunks(count), headers=JSON).status_code for count in (5, 10_000)
    )
    assert (ok, too_large) == (201, 413)


def test_a_body_that_does_not_arrive_is_given_up() -> None:
    api = Api(body_timeout_s=0.02)

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(30)

    assert problem(api.request("POST", MESSAGES, content=stuck(), headers=JSON)) == (408, "request-timeout")


@pytest.mark.parametrize("announced", ["nonsense", "-1", "1" * 19])
def test_an_announced_length_that_is_no_number_is_refused(announced: str) -> None:
    answer = Api().send_text("{}", **{"content-length": announced})
    assert problem(answer) == (400, "invalid-request")


def test_bodies_in_flight_are_bounded_together() -> None:
    api = Api(in_flight_bytes_max=10)
    answer = api.send({"value": "more than ten bytes"})
    assert problem(answer) == (503, "limit-exceeded")
    assert answer.headers["retry-after"] == "1"


def test_requests_in_flight_are_bounded_and_health_is_answered_all_the_same() -> None:
    api = Api(requests_max=2, append_timeout_s=5)
    api.queue.silent = True

    async def three_at_once(http: httpx.AsyncClient) -> tuple[httpx.Response, list[int]]:
        waiting = [asyncio.ensure_future(http.post(MESSAGES, json={"partition": 0})) for _ in range(2)]
        while len(api.queue.unanswered) < 2:  # noqa: ASYNC110 - until both have come this far
            await asyncio.sleep(0)
        refused = await http.post(MESSAGES, json={})
        statuses = [(await http.get(path)).status_code for path in ("/healthz", "/readyz", "/metrics")]
        super(type(api.queue), api.queue).append_each(api.queue.unanswered)
        statuses += [(await answer).status_code for answer in waiting]
        statuses.append((await http.get("/v1/info")).status_code)
        return refused, statuses

    refused, statuses = api.run(three_at_once)
    assert problem(refused) == (503, "limit-exceeded")
    assert statuses == [200, 200, 200, 201, 201, 200]


def test_what_async_has_handed_over_counts_until_it_is_stored() -> None:
    api = Api(requests_max=1)
    api.queue.silent = True

    async def hand_over_twice(http: httpx.AsyncClient) -> list[int]:
        post: Any = lambda: http.post(MESSAGES, params={"mode": "async"}, json={"partition": 0})  # noqa: E731
        statuses = [(await post()).status_code, (await post()).status_code]
        await asyncio.sleep(0)
        super(type(api.queue), api.queue).append_each(api.queue.unanswered)
        await asyncio.sleep(0)
        return [*statuses, (await post()).status_code]

    assert api.run(hand_over_twice) == [202, 503, 202]


def test_a_key_has_a_limit() -> None:
    api = Api()
    assert api.send({"key": "k" * 4096}).status_code == 201
    answer = api.send({"key": "k" * 4097})
    assert problem(answer) == (400, "limit-exceeded")
    assert pointers(answer) == [("/key", "too-long")]


def test_headers_have_a_limit() -> None:
    api = Api()
    headers = [{"name": f"h{n}"} for n in range(257)]
    assert api.send({"headers": headers[:256]}).status_code == 201
    answer = api.send({"headers": headers})
    assert problem(answer) == (400, "limit-exceeded")
    assert pointers(answer) == [("/headers", "too-many")]


def test_a_record_may_fill_its_topic_and_a_delayed_one_leaves_room_for_our_headers() -> None:
    api = Api(record_bytes_max=HEADER_ROOM_BYTES + 1000)
    assert api.send({"value": "x" * 5000}).status_code == 201
    assert problem(api.send({"value": "x" * 6000})) == (413, "too-large")
    assert api.send({"value": "x" * 900, "schedule": {"delay": "1s"}}).status_code == 201
    assert problem(api.send({"value": "x" * 1000, "schedule": {"delay": "1s"}})) == (413, "too-large")


def test_a_query_has_a_limit() -> None:
    assert problem(Api().get("/v1/topics?" + "x" * 5000)) == (400, "limit-exceeded")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", MESSAGES.replace("orders", "third"), {"value": 1}),
        ("POST", MESSAGES.replace("orders", "third"), {"value": 1, "schedule": {"delay": "1h"}}),
        ("POST", "/v1/topics", {"name": "third"}),
    ],
)
def test_a_topic_more_than_there_may_be_is_a_limit_and_not_unknown(method: str, path: str, body: Any) -> None:
    api = Api(topics_max=9)
    assert api.send({"name": "first"}, "/v1/topics").status_code == 201
    assert [api.send({"name": f"n{n}"}, "/v1/topics").status_code for n in range(8)][-1] == 429
    answer = api.request(method, path, json=body)
    assert problem(answer) == (429, "limit-exceeded")
    assert "topics.max" in answer.json()["detail"]
    assert answer.headers["retry-after"] == "1"
