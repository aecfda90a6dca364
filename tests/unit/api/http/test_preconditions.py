"""Operations on one version of a message, and operations that are not waited for."""

from typing import Any

import httpx
import pytest
from starlette.requests import Request

from api.http.preconditions import options_of
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import VERSION_MISMATCH, Ending, Found, Gone, Resolution, ShardFigures, State
from delayline.records.headers import IF_MATCH
from delayline.records.message import MessageId, OperationId, Shard
from delayline.records.record import encode_body
from mq.contract import Append
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem

ID = f"orders.3.1041.{NOW_MS + 30_000}"
PATH = f"/v1/messages/{ID}"
BUFFER = "delayline.buffer.orders"
SHARD = Shard("orders", "3")
METHODS = [("DELETE", "", None), ("PATCH", "", {"schedule": {"delay": "1s"}}), ("POST", ":deliver", None)]


def api(state: State = State.PENDING, **settings: Any) -> Api:
    made = Api(**settings)
    made.queue.ensure_topic("orders")
    made.queue.ensure_buffer("orders", made.rules)
    ending = None if state is State.PENDING else Ending(Outcome(state.value), NOW_MS)
    made.owners.messages[ID] = Found(MessageId.parse(ID), state, NOW_MS, NOW_MS + 30_000, 4, ending=ending)
    return made


def undecided(**settings: Any) -> Api:
    made = api(operation_timeout_s=0.02, **settings)
    made.owners.decide = lambda: None
    return made


def operate(of: Api, method: str, suffix: str, body: Any, query: str = "", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return of.request(method, f"{PATH}{suffix}{query}", json=body, headers=named)


def written(of: Api) -> list[bytes | None]:
    """The conditions of the operations in the log."""
    return [dict(record.headers).get(IF_MATCH) for record in of.records(BUFFER, "3")]


@pytest.mark.parametrize(("method", "suffix", "body"), METHODS)
def test_the_version_travels_with_the_operation_and_its_owner_decides(method: str, suffix: str, body: Any) -> None:
    asked = api()
    assert operate(asked, method, suffix, body, If_Match='"4"').status_code in (200, 204)
    assert written(asked) == [b"4"]


@pytest.mark.parametrize(("method", "suffix", "body"), METHODS)
def test_a_message_with_another_version_is_left_alone(method: str, suffix: str, body: Any) -> None:
    changed = api()
    changed.owners.decide = lambda: Resolution(Outcome.UNMATCHED, VERSION_MISMATCH)
    answer = operate(changed, method, suffix, body, If_Match='"3"')
    assert problem(answer) == (412, "version-mismatch")
    assert "version 4" in answer.json()["detail"]


def test_a_message_that_ended_while_its_version_was_asked_for_has_ended() -> None:
    ended = api()

    def decide() -> Resolution:
        ended.owners.messages[ID] = Gone()
        return Resolution(Outcome.UNMATCHED, VERSION_MISMATCH)

    ended.owners.decide = decide
    assert problem(operate(ended, "DELETE", "", None, If_Match='"3"')) == (410, "already-terminal")


def test_any_version_is_no_condition() -> None:
    asked = api()
    assert operate(asked, "DELETE", "", None, If_Match="*").status_code == 204
    assert written(asked) == [None]


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ('W/"4"', (412, "version-mismatch")),
        ('"abc"', (412, "version-mismatch")),
        ('"04"', (412, "version-mismatch")),
        ('""', (412, "version-mismatch")),
        ('"1234567890123456789"', (412, "version-mismatch")),
        ("4", (400, "invalid-request")),
        ('"4', (400, "invalid-request")),
        ("", (400, "invalid-request")),
        ('"3", "4"', (400, "not-supported")),
    ],
)
def test_a_tag_that_can_be_no_version_writes_nothing(tag: str, expected: tuple[int, str]) -> None:
    asked = api()
    assert problem(operate(asked, "DELETE", "", None, If_Match=tag)) == expected
    assert written(asked) == []


@pytest.mark.parametrize(("method", "suffix", "body"), METHODS)
def test_an_operation_that_is_not_decided_in_time_can_be_asked_for(method: str, suffix: str, body: Any) -> None:
    slow = undecided()
    answer = operate(slow, method, suffix, body)
    assert answer.status_code == 202
    assert answer.json() == {"operation_id": "op~orders.3.0", "state": "accepted", "target": ID}
    assert answer.headers["location"] == "/v1/messages/op~orders.3.0"
    assert "preference-applied" not in answer.headers


def test_who_prefers_not_to_wait_does_not() -> None:
    slow = api()
    slow.owners.decide = lambda: None
    answer = operate(slow, "DELETE", "", None, Prefer="handling=lenient, Respond-Async;x=1")
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "respond-async")


@pytest.mark.parametrize(
    ("query", "prefer"),
    [("?wait=0s", ""), ("?wait=0s", "wait=9"), ("", "wait=0"), ("", "respond-async, wait=0"), ("?wait=10ms", "")],
)
def test_a_client_sets_how_long_it_waits(query: str, prefer: str) -> None:
    slow = api()
    slow.owners.decide = lambda: None
    assert operate(slow, "DELETE", "", None, query, Prefer=prefer).status_code == 202


def test_a_client_that_does_not_wait_gets_at_once_what_is_known() -> None:
    assert operate(api(), "DELETE", "", None, Prefer="respond-async").status_code == 204


def test_a_preference_for_a_longer_wait_than_there_is_is_cut_short() -> None:
    assert operate(undecided(), "DELETE", "", None, Prefer="wait=999999").status_code == 202


@pytest.mark.parametrize("wait", ["soon", "", "-1s", "11s", "99999999999999d"])
def test_a_wait_that_cannot_be_is_refused(wait: str) -> None:
    asked = api()
    answer = operate(asked, "DELETE", "", None, f"?wait={wait}")
    assert (problem(answer), pointers(answer)) == ((400, "invalid-request"), [("?wait", "invalid-value")])
    assert written(asked) == []


# --- asking for an operation


def stored() -> Api:
    """One operation, undecided, behind a message."""
    made = undecided()
    made.queue.append([Append(BUFFER, "3", encode_body(None, b"x", [(b"delay-ms", b"1")]))]).result()
    assert operate(made, "DELETE", "", None).json()["operation_id"] == "op~orders.3.1"
    made.owners.shards = [ShardFigures(SHARD, ready=True, owner_epoch=1, next_offset=1)]
    return made


@pytest.mark.parametrize(
    ("resolution", "state"),
    [
        (Resolution(Outcome.APPLIED, "cancelled"), "applied"),
        (Resolution(Outcome.UNMATCHED, "not-pending"), "unmatched"),
        (Resolution(Outcome.UNMATCHED, VERSION_MISMATCH), "version-mismatch"),
        (None, "accepted"),
    ],
)
def test_an_operation_shows_its_result(
    resolution: Resolution | None, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.routes.messages.OPERATION_WAIT_S", 0.01)
    asked = stored()
    asked.owners.decide = lambda: resolution
    answer = asked.get("/v1/messages/op~orders.3.1")
    assert (answer.status_code, answer.json()) == (
        200,
        {"operation_id": "op~orders.3.1", "state": state, "target": ID},
    )


def test_an_operation_that_was_decided_and_forgotten_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes.messages.OPERATION_WAIT_S", 0.01)
    asked = stored()
    asked.owners.shards = [ShardFigures(SHARD, ready=True, owner_epoch=1, next_offset=2)]
    assert problem(asked.get("/v1/messages/op~orders.3.1")) == (410, "already-terminal")


def test_one_that_is_decided_between_two_questions_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes.messages.OPERATION_WAIT_S", 0.01)
    asked = stored()
    asked.owners.shards = [ShardFigures(SHARD, ready=True, owner_epoch=1, next_offset=2)]
    answers = iter([None, Resolution(Outcome.APPLIED)])
    asked.owners.decide = lambda: next(answers)
    assert asked.get("/v1/messages/op~orders.3.1").json()["state"] == "applied"


@pytest.mark.parametrize("shards", [[], [ShardFigures(SHARD, ready=False)]])
def test_without_an_owner_of_the_shard_there_is_no_answer(
    shards: list[ShardFigures], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.routes.messages.OPERATION_WAIT_S", 0.01)
    asked = stored()
    asked.owners.shards = shards
    assert problem(asked.get("/v1/messages/op~orders.3.1")) == (503, "owner-unavailable")


@pytest.mark.parametrize(
    "name", ["orders.3.0", "orders.3.2", "orders.9.0", "nothing.0.0", "orders.3", "orders.3.-1", ""]
)
def test_what_is_no_operation_is_not_found(name: str) -> None:
    asked = stored()
    questions = len(asked.owners.operations)
    assert problem(asked.get(f"/v1/messages/op~{name}")) == (404, "not-found")
    assert len(asked.owners.operations) == questions


@pytest.mark.parametrize("topic", ["orders", "op", "a.b-c_d", "op.1.2"])
def test_an_operation_id_is_read_back_and_is_no_message_id(topic: str) -> None:
    operation = OperationId(Shard(topic, "7"), 12)
    assert OperationId.parse(str(operation)) == operation
    assert OperationId.parse(str(MessageId(Shard(topic, "7"), 12, 5))) is None


@pytest.mark.parametrize(
    ("prefer", "query", "wait_s"),
    [
        ("", "", 10.0),
        ("respond-async", "", 0.0),
        ("respond-async, wait=3", "", 3.0),
        ("wait=3", "", 3.0),
        ("WAIT = 3 ; x=1, wait=5", "", 3.0),
        ("wait=99", "", 10.0),
        ("wait=soon", "", 10.0),
        ("respond-async", "wait=2500ms", 2.5),
    ],
)
def test_what_is_preferred_and_what_is_asked_for_make_one_wait(prefer: str, query: str, wait_s: float) -> None:
    headers = {b"prefer": prefer.encode()}
    scope = {"type": "http", "query_string": query.encode(), "delayline.headers": headers}
    assert options_of(Request(scope), 10.0).wait_s == wait_s
