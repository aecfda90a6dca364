"""Pages of a topic's records."""

import pytest

from tests.unit.api.in_memory import RECORDS, Api, pointers, problem


def _filled(count: int, partition: int = 0) -> Api:
    api = Api()
    for n in range(count):
        api.send({"value": n, "partition": partition})
        api.clock.advance(1)
    return api


def _offsets(api: Api, **params: int) -> list[int]:
    return [record["offset"] for record in api.get(RECORDS, params=params).json()["records"]]


def test_a_record_is_shown_with_everything_that_it_has() -> None:
    api = Api()
    api.send({"key": "k", "value": {"a": 1}, "headers": [{"name": "h", "value": "v"}], "partition": 2})
    assert api.get(RECORDS).json() == {
        "records": [
            {
                "partition": 2,
                "offset": 0,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "key": "k",
                "value": '{"a":1}',
                "headers": [{"name": "h", "value": "v"}],
            }
        ]
    }


def test_bytes_that_are_no_text_are_shown_in_base64() -> None:
    api = Api()
    api.send({"key_base64": "/w==", "value_base64": "AP8=", "partition": 0})
    (record,) = api.get(RECORDS).json()["records"]
    assert (record["key"], record["key_base64"]) == (None, "/w==")
    assert (record["value"], record["value_base64"]) == (None, "AP8=")


def test_the_newest_page_is_shown_oldest_first() -> None:
    assert _offsets(_filled(10), limit=3) == [7, 8, 9]


def test_a_page_has_a_hundred_records_by_default() -> None:
    assert _offsets(_filled(120)) == list(range(20, 120))


def test_the_newest_of_all_partitions_come_in_order_of_time() -> None:
    api = Api()
    for n in range(8):
        api.send({"value": n, "partition": n % 3})
        api.clock.advance(1)
    page = api.get(RECORDS, params={"limit": 5}).json()["records"]
    assert [record["value"] for record in page] == ["3", "4", "5", "6", "7"]


def test_a_page_from_an_offset_goes_forward() -> None:
    assert _offsets(_filled(10), partition=0, offset=2, limit=3) == [2, 3, 4]


def test_a_page_from_the_end_is_empty() -> None:
    assert _offsets(_filled(3), partition=0, offset=3) == []


def test_a_partition_can_be_asked_alone() -> None:
    api = _filled(2, partition=1)
    assert _offsets(api, partition=0) == []
    assert _offsets(api, partition=1) == [0, 1]


def test_a_page_of_nothing_is_empty() -> None:
    assert _offsets(_filled(3), limit=0) == []
    assert _offsets(_filled(3), limit=0, partition=0, offset=1) == []


def test_a_page_of_large_records_holds_the_newest_that_fit() -> None:
    api = Api()
    for _ in range(30):
        api.send({"value": "x" * 400_000, "partition": 0})
    assert _offsets(api, partition=0) == list(range(20, 30))


def test_an_offset_outside_the_log_is_refused() -> None:
    answer = _filled(2).get(RECORDS, params={"partition": 0, "offset": 3})
    assert problem(answer) == (400, "invalid-request")
    assert pointers(answer) == [("?offset", "out-of-range")]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=1001", "?limit"),
        ("limit=-1", "?limit"),
        ("limit=ten", "?limit"),
        ("limit=", "?limit"),
        ("limit=1&limit=2", "?limit"),
        ("offset=1", "?offset"),
        ("partition=4", "?partition"),
        ("partition=%D9%A1", "?partition"),
        ("follow=poll", "?follow"),
        ("colour=blue", "?colour"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(query: str, pointer: str) -> None:
    answer = _filled(1).get(f"{RECORDS}?{query}")
    assert problem(answer) == (400, "invalid-request")
    assert [where for where, _ in pointers(answer)] == [pointer]


@pytest.mark.parametrize("query", ["=", "limit", "%ff=1", "limit=%ff", "a;b"])
def test_a_query_that_cannot_be_read_is_refused(query: str) -> None:
    assert problem(_filled(1).get(f"{RECORDS}?{query}")) == (400, "invalid-request")


def test_reading_makes_no_topic() -> None:
    api = Api()
    assert problem(api.get(RECORDS)) == (404, "topic-unknown")
    assert api.queue.topics() == []


def test_dead_letters_can_be_read_and_buffers_are_hidden() -> None:
    api = Api()
    api.send({"value": 1, "schedule": {"delay": "1s"}})
    assert api.get("/v1/topics/delayline.dead/records").json() == {"records": []}
    assert problem(api.get("/v1/topics/delayline.buffer.orders/records")) == (404, "topic-unknown")
