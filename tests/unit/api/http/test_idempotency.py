"""`Idempotency-Key`: what enters the log, where it goes, and what a request that is sent again is answered."""

import asyncio
from typing import Any

import httpx
import pytest

from api.sending.partitioner import partition_index
from delayline.buffer.outcome import Outcome
from delayline.buffer.record import Message, read
from delayline.questions.inquiry import Found, Resolution, State
from delayline.records.headers import IDEMPOTENCY
from delayline.records.message import MessageId, Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from tests.unit.api.in_memory import MESSAGES, NOW_MS, Api, problem

BUFFER = "delayline.buffer.orders"
FIRST = MessageId(Shard("orders", "2"), 9, NOW_MS + 30_000)
BODY = {"value": 1, "schedule": {"delay": "30s"}}


def send(of: Api, key: str | None, body: Any = BODY, query: str = "") -> httpx.Response:
    return of.send(body, MESSAGES + query, headers={} if key is None else {"Idempotency-Key": key})


def keys(of: Api) -> list[tuple[str, str]]:
    """(partition, what the API wrote beside the message), as ingest reads it."""
    found = []
    for partition in of.queue.topic("orders").partitions:
        for record in of.records(BUFFER, partition):
            meaning = read(encode_body(record.key, record.value, record.headers), NOW_MS, Rules())
            assert isinstance(meaning, Message)
            assert meaning.terms is not None
            assert meaning.terms.idempotency is not None
            found.append((partition, meaning.terms.idempotency.key))
    return found


def test_the_key_travels_with_the_message_and_places_it() -> None:
    sent = Api()
    answer = send(sent, "9b2e")
    partition = str(partition_index(b"9b2e", 4))
    assert answer.status_code == 201
    assert "idempotency-replayed" not in answer.headers
    assert keys(sent) == [(partition, "9b2e")]
    assert sent.owners.operations == [(Shard("orders", partition), 0)]


def test_a_key_a_partition_and_an_own_id_go_before_in_choosing_the_place() -> None:
    sent = Api()
    placed: list[dict[str, Any]] = [{"key": "a"}, {"partition": 3}, {"schedule": {"delay": "1s", "own_id": "b"}}]
    for number, more in enumerate(placed):
        assert send(sent, f"k{number}", {**BODY, **more}).status_code == 201
    assert sorted(keys(sent)) == sorted(
        [(str(partition_index(b"a", 4)), "k0"), ("3", "k1"), (str(partition_index(b"b", 4)), "k2")]
    )


def test_quotes_are_not_part_of_a_key() -> None:
    sent = Api()
    send(sent, "abc")
    send(sent, '"abc"')
    assert [key for _, key in keys(sent)] == ["abc", "abc"]


def _digest(of: Api) -> str:
    (record,) = of.all_records(BUFFER)
    return (dict(record.headers)[IDEMPOTENCY] or b"").decode().split(" ")[0]


def test_the_digest_is_that_of_the_body_and_the_topic() -> None:
    digests = []
    for body in (BODY, BODY, {"value": 2, "schedule": {"delay": "30s"}}):
        sent = Api()
        send(sent, "k", body)
        digests.append(_digest(sent))
    assert digests[0] == digests[1] != digests[2]


def replayed(reason: str, **found: Any) -> Api:
    made = Api()
    made.owners.decide = lambda: Resolution(Outcome.DUPLICATE, reason, str(FIRST))
    if found:
        made.owners.messages[str(FIRST)] = Found(FIRST, **found)
    return made


@pytest.mark.parametrize("state", [State.PENDING, State.DELIVERED])
def test_the_same_request_gets_the_first_answer_whatever_has_become_of_the_message(state: State) -> None:
    again = replayed("idempotency", state=state, accepted_at_ms=NOW_MS, due_ms=NOW_MS + 99, version=7)
    answer = send(again, "k")
    assert answer.status_code == 201
    assert (answer.headers["idempotency-replayed"], answer.headers["etag"]) == ("true", '"0"')
    assert answer.headers["location"] == f"/v1/messages/{FIRST}"
    assert answer.json() == {
        "message_id": str(FIRST),
        "topic": "orders",
        "partition": 2,
        "state": "accepted",
        "accepted_at": "2026-01-01T00:00:00.000Z",
        "due_at": "2026-01-01T00:00:30.000Z",
        "own_id": None,
        "version": 0,
        "deduplicated": False,
    }


def test_a_replay_of_what_nobody_remembers_lacks_the_moment_only() -> None:
    answer = send(replayed("idempotency"), "k")
    assert (answer.json()["message_id"], answer.json()["accepted_at"]) == (str(FIRST), None)
    assert answer.headers["idempotency-replayed"] == "true"


def test_another_request_with_the_key_is_refused() -> None:
    assert problem(send(replayed("idempotency-reused"), "k")) == (422, "idempotency-reused")


def test_a_duplicate_by_its_own_id_is_no_replay() -> None:
    again = replayed("own-id", state=State.PENDING, accepted_at_ms=NOW_MS, due_ms=NOW_MS + 99)
    answer = send(again, "k", {"value": 1, "schedule": {"delay": "30s", "own_id": "x"}})
    assert answer.json()["deduplicated"] is True
    assert "idempotency-replayed" not in answer.headers


def test_without_a_decision_the_sender_is_asked_to_retry() -> None:
    silent = Api(operation_timeout_s=0.01)
    silent.owners.decide = lambda: None
    answer = send(silent, "k")
    assert problem(answer) == (503, "owner-unavailable")
    assert answer.headers["retry-after"] == "1"


def test_a_request_that_is_not_answered_yet_is_in_flight_and_then_no_more() -> None:
    slow = Api(operation_timeout_s=0.3)
    slow.owners.decide = lambda: None

    async def both(http: httpx.AsyncClient) -> list[httpx.Response]:
        async def one(key: str, topic: str = "orders") -> httpx.Response:
            path = MESSAGES.replace("orders", topic)
            return await http.post(path, json=BODY, headers={"Idempotency-Key": key})

        answers = await asyncio.gather(one("k"), one("k"), one("other"), one("k", "mail"))
        slow.owners.decide = lambda: Resolution(Outcome.APPLIED)
        return [*answers, await one("k")]

    answers = slow.run(both)
    assert [answer.status_code for answer in answers] == [503, 409, 503, 503, 201]
    assert problem(answers[1]) == (409, "idempotency-in-flight")


@pytest.mark.parametrize(
    "body",
    [
        {"value": 1},
        {"value": 1, "schedule": {"delay": "0s"}},
        {"messages": [BODY]},
        {"atomic": False, "messages": [BODY]},
    ],
)
def test_what_nobody_would_check_is_refused(body: Any) -> None:
    refused = Api()
    assert problem(send(refused, "k", body)) == (400, "not-supported")
    assert refused.queue.topics() == []


@pytest.mark.parametrize("key", ["", '""', '"a', 'a"', "a b", "a\\b", "a" * 256, "\u00e9"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    refused = Api()
    answer = refused.send(BODY, headers=httpx.Headers([(b"Idempotency-Key", key.encode("latin-1"))]))
    assert problem(answer) == (400, "invalid-request")
    assert refused.queue.topics() == []


@pytest.mark.parametrize("mode", ["async", "oneway"])
def test_a_sender_that_does_not_wait_gets_no_decision(mode: str) -> None:
    sent = Api()
    assert send(sent, "a" * 255, query=f"?mode={mode}").status_code == 202
    assert [key for _, key in keys(sent)] == ["a" * 255]
    assert sent.owners.operations == []
