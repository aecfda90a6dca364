"""Asking what has become of a message."""

from dataclasses import replace

import pytest

from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Ending, Event, Found, Gone, OwnerUnavailable, State
from delayline.records.message import MessageId
from delayline.schedule.terms import Terms
from tests.unit.api.in_memory import NOW_MS, Api, problem

ID = f"orders.3.1041.{NOW_MS + 30_000}"
PATH = f"/v1/messages/{ID}"


def _found(state: State = State.PENDING, ending: Ending | None = None, version: int = 0) -> Found:
    return Found(
        id=MessageId.parse(ID),
        state=state,
        accepted_at_ms=NOW_MS,
        due_ms=NOW_MS + 30_000,
        version=version,
        key=b"7",
        value=b"\xff\x00",
        headers=((b"src", b"web"), (b"raw", b"\xfe"), (b"none", None)),
        ending=ending,
    )


def _api(answer: Found | Gone) -> Api:
    api = Api()
    api.owners.messages[ID] = answer
    return api


def test_a_waiting_message_is_shown_without_what_it_carries() -> None:
    answer = _api(_found()).get(PATH)
    assert answer.status_code == 200
    assert answer.json() == {
        "message_id": ID,
        "own_id": None,
        "topic": "orders",
        "partition": 3,
        "state": "pending",
        "accepted_at": "2026-01-01T00:00:00.000Z",
        "due_at": "2026-01-01T00:00:30.000Z",
        "next_due_at": None,
        "version": 0,
        "deduplicated": False,
        "outcome": None,
        "history": [],
    }


def test_the_full_view_shows_what_it_carries_down_to_every_byte() -> None:
    answer = _api(_found()).get(PATH, params={"view": "full"}).json()
    assert (answer["key"], answer["value"], answer["value_base64"]) == ("7", None, "/wA=")
    assert answer["headers"] == [
        {"name": "src", "value": "web"},
        {"name": "raw", "value": None, "value_base64": "/g=="},
        {"name": "none", "value": None},
    ]


def test_a_delivered_message_shows_its_outcome_and_no_payload_even_in_full() -> None:
    ending = Ending(Outcome.DELIVERED, NOW_MS + 30_012, 12)
    answer = _api(_found(State.DELIVERED, ending)).get(PATH, params={"view": "full"}).json()
    assert answer["state"] == "delivered"
    assert answer["outcome"] == {
        "state": "delivered",
        "at": "2026-01-01T00:00:30.012Z",
        "lateness_ms": 12,
        "reason": None,
    }
    assert "value" not in answer


def test_the_version_is_the_etag_however_often_one_asks() -> None:
    api = _api(_found(version=4))
    assert [api.get(PATH).headers["etag"] for _ in range(2)] == ['"4"', '"4"']


def test_head_answers_like_get() -> None:
    answer = _api(_found()).request("HEAD", PATH)
    assert (answer.status_code, answer.headers["etag"]) == (200, '"0"')


def test_a_message_whose_end_is_forgotten_is_410_and_not_404() -> None:
    assert problem(_api(Gone()).get(PATH)) == (410, "already-terminal")


def test_a_message_that_never_was_is_not_found() -> None:
    assert problem(Api().get(PATH)) == (404, "not-found")


@pytest.mark.parametrize("text", ["x", "orders.3.1041", "orders.3.1041.soon", "orders.3.-1.5", "a" * 600])
def test_text_that_is_no_message_id_is_not_found_either(text: str) -> None:
    assert problem(Api().get(f"/v1/messages/{text}")) == (404, "not-found")


def test_an_owner_that_is_away_is_a_503_to_be_asked_again() -> None:
    api = Api()
    api.owners.failure = OwnerUnavailable()
    answer = api.get(PATH)
    assert problem(answer) == (503, "owner-unavailable")
    assert answer.headers["retry-after"] == "1"


def test_an_owner_that_does_not_answer_is_a_503() -> None:
    api = Api(owner_timeout_s=0.02)
    api.owners.silent = True
    assert problem(api.get(PATH)) == (503, "owner-unavailable")


def test_a_view_that_does_not_exist_is_refused() -> None:
    assert problem(Api().get(PATH, params={"view": "none"})) == (400, "invalid-request")


def test_what_happened_to_a_message_is_listed_in_its_order() -> None:
    history = (Event(NOW_MS, "accepted", "client", 0), Event(NOW_MS + 5, "rolled", "worker", 1))
    answer = _api(replace(_found(version=1), history=history, terms=Terms(own_id="order-7"))).get(PATH).json()
    assert answer["own_id"] == "order-7"
    assert answer["history"] == [
        {"at": "2026-01-01T00:00:00.000Z", "event": "accepted", "by": "client", "version": 0},
        {"at": "2026-01-01T00:00:00.005Z", "event": "rolled", "by": "worker", "version": 1},
    ]
