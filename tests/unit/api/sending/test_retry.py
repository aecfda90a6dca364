"""What a consumer group sends back over HTTP, and what it reads."""

from typing import Any

import pytest

from delayline.records.message import Header
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem

BUFFER = "delayline.buffer.orders"
ATTEMPT = "delayline-attempt"


def send_back(api: Api, *headers: dict[str, Any], **schedule: Any) -> Any:
    return api.send({"partition": 0, "headers": [*headers], "schedule": {"retry": "billing", **schedule}})


@pytest.mark.parametrize(
    ("attempts", "due_in_ms"), [([], 10_000), ([{"value": "1"}], 30_000), ([{"value_base64": "MTY="}], 0)]
)
def test_a_retry_enters_the_log_with_the_attempt_that_the_consumer_echoes(
    attempts: list[dict[str, str]], due_in_ms: int
) -> None:
    api = Api()
    echoed = [{"name": "src", "value": "web"}, {"name": "delayline-id", "value": "orders.0.1.2"}]
    echoed += [{"name": ATTEMPT, **attempt} for attempt in attempts]
    answer = send_back(api, *echoed)
    assert answer.status_code == 201, answer.text
    assert answer.json()["message_id"] == f"orders.0.0.{NOW_MS + due_in_ms}"
    expected: list[Header] = [(ATTEMPT.encode(), b"1" if due_in_ms else b"16")] if attempts else []
    (record,) = api.records(BUFFER)
    assert record.headers == [(b"src", b"web"), *expected, (b"delay-retry", b"billing")]


@pytest.mark.parametrize(
    ("headers", "schedule", "pointer"),
    [
        ([], {"delay": "1s"}, "/schedule/retry"),
        ([], {"own_id": "7"}, "/schedule/retry"),
        ([], {"retry": "my group"}, "/schedule/retry"),
        ([{"name": ATTEMPT, "value": "x"}], {}, "/headers"),
        ([{"name": ATTEMPT, "value": "1"}, {"name": ATTEMPT, "value": "1"}], {}, "/headers"),
    ],
)
def test_what_makes_no_sense_is_refused(headers: list[Any], schedule: dict[str, Any], pointer: str) -> None:
    api = Api()
    answer = send_back(api, *headers, **schedule)
    assert problem(answer) == (400, "invalid-schedule")
    assert [found for found, _ in pointers(answer)] == [pointer]
    assert api.queue.topics() == []


def test_an_attempt_means_nothing_without_a_retry() -> None:
    api = Api()
    answer = api.send({"headers": [{"name": ATTEMPT, "value": "x"}], "schedule": {"delay": "1s"}})
    assert answer.status_code == 201
    assert api.records(BUFFER)[0].headers == [(b"delay-ms", b"1000")]


@pytest.mark.parametrize("kind", ["retry", "dlq"])
def test_the_topics_of_a_group_can_be_read_and_not_be_written(kind: str) -> None:
    api = Api()
    topic = f"delayline.{kind}.billing"
    assert problem(api.get(f"/v1/topics/{topic}/records")) == (404, "topic-unknown")
    assert problem(api.send({"value": 1}, f"/v1/topics/{topic}/messages")) == (403, "forbidden")
    api.queue.group_topic(topic, api.queue.ensure_topic("orders"))
    assert api.get(f"/v1/topics/{topic}/records").json() == {"records": []}
