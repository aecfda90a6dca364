"""A topic at its limits: what adds no message is answered as ever, and of a batch no more is taken than has room."""

from typing import Any

import pytest

from api.sending.partitioner import partition_index
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Found, Held, OwnerUnavailable, RequestedNames, Resolution, State
from delayline.records.message import MessageId, Shard
from delayline.schedule.terms import Terms
from tests.unit.api.in_memory import MESSAGES, NOW_MS, Api, problem

FIRST = MessageId(Shard("orders", "2"), 9, NOW_MS + 30_000)
DELAYED = {"value": "x", "schedule": {"delay": "30s"}}
REPLAYED, REUSED, DUPLICATE = (
    Resolution(Outcome.DUPLICATE, reason, str(FIRST)) for reason in ("idempotency", "idempotency-reused", "own-id")
)


def named(own_id: str = "mine", **schedule: Any) -> dict[str, Any]:
    return {"value": "x", "schedule": {"delay": "30s", "own_id": own_id, **schedule}}


def full_api(
    *, room: int = 0, resolution: Resolution | None = None, owner_timeout_s: float = 5.0, **names: Held
) -> Api:
    """A topic with that much room, and who has which own ids; every claim is decided so."""
    api = Api(owner_timeout_s=owner_timeout_s)
    api.queue.ensure_topic("orders")
    api.queue.ensure_buffer("orders", api.rules)
    api.room = {"orders": room}
    api.owners.names = {RequestedNames(own_id): held for own_id, held in names.items()}
    api.owners.decide = lambda: resolution or Resolution(Outcome.APPLIED)
    terms = Terms(own_id="mine")
    api.owners.messages[str(FIRST)] = Found(FIRST, State.PENDING, NOW_MS, NOW_MS + 30_000, terms=terms)
    return api


def statuses(answer: Any) -> list[int]:
    return [member["status"] for member in answer.json()["results"]]


def test_a_request_that_was_accepted_before_is_answered_as_the_first_one() -> None:
    api = full_api(resolution=REPLAYED)
    api.owners.names = {RequestedNames(None, "k"): Held.REQUEST}
    answer = api.send(DELAYED, headers={"Idempotency-Key": "k"})
    assert (answer.status_code, answer.headers["idempotency-replayed"]) == (201, "true")
    assert answer.json()["message_id"] == str(FIRST)
    shard = Shard("orders", str(partition_index(b"k", 4)))
    assert api.owners.held_asked == [(shard, [RequestedNames(None, "k")])]


def test_a_key_that_another_request_had_is_a_conflict() -> None:
    api = full_api(resolution=REUSED)
    api.owners.names = {RequestedNames(None, "k"): Held.REQUEST}
    assert problem(api.send(DELAYED, headers={"Idempotency-Key": "k"})) == (422, "idempotency-reused")


def test_an_own_id_that_a_message_has_gets_that_one_back() -> None:
    answer = full_api(resolution=DUPLICATE, mine=Held.MESSAGE).send(named())
    assert (answer.status_code, answer.json()["deduplicated"], answer.json()["message_id"]) == (201, True, str(FIRST))


@pytest.mark.parametrize("mode", ["sync", "async", "oneway"])
@pytest.mark.parametrize("held", [Held.MESSAGE, Held.REPEAT])
def test_a_message_may_be_replaced(held: Held, mode: str) -> None:
    answer = full_api(mine=held).send(named(on_conflict="replace"), f"{MESSAGES}?mode={mode}")
    assert answer.status_code == (201 if mode == "sync" else 202)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
def test_a_name_that_nobody_has_makes_no_room(headers: dict[str, str]) -> None:
    api = full_api()
    assert problem(api.send(named(), headers=headers)) == (429, "limit-exceeded")
    assert api.all_records("delayline.buffer.orders") == []


@pytest.mark.parametrize("failure", [OwnerUnavailable("it is away"), None])
def test_where_the_owner_does_not_answer_the_limit_holds(failure: Exception | None) -> None:
    api = full_api(owner_timeout_s=0.02, mine=Held.MESSAGE)
    api.owners.failure, api.owners.silent = failure, True
    assert problem(api.send(named())) == (429, "limit-exceeded")


def test_no_owner_is_asked_while_there_is_room() -> None:
    api = full_api(room=1, mine=Held.MESSAGE)
    assert api.send(named()).status_code == 201
    assert api.owners.held_asked == []


def test_a_message_that_repeats_in_the_place_of_one_that_does_not_adds_a_repeat() -> None:
    every = {"value": "x", "schedule": {"every": "1h", "own_id": "mine", "on_conflict": "replace"}}
    for held, status in ((Held.MESSAGE, 429), (Held.REPEAT, 201)):
        api = full_api(mine=held)
        api.full_of_repeats = {"orders"}
        assert api.send(every).status_code == status
    api = full_api(resolution=DUPLICATE, mine=Held.MESSAGE)
    api.full_of_repeats = {"orders"}
    assert api.send({"value": "x", "schedule": {"every": "1h", "own_id": "mine"}}).status_code == 201


# --- batches


def test_of_a_batch_that_is_not_atomic_as_many_are_taken_as_there_is_room() -> None:
    api = full_api(room=2, mine=Held.MESSAGE)
    at_once = {"value": "at once"}
    members = [DELAYED, at_once, named(), DELAYED, DELAYED, named(on_conflict="replace"), at_once]
    answer = api.send({"atomic": False, "messages": members})
    assert statuses(answer) == [201, 201, 201, 201, 429, 201, 201]
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (6, 1)


def test_an_atomic_batch_that_would_pass_the_limit_is_refused_whole() -> None:
    api = full_api(room=2, mine=Held.MESSAGE)
    answer = api.send({"messages": [DELAYED, DELAYED, named("other")]})
    assert problem(answer) == (429, "limit-exceeded")
    assert api.all_records("delayline.buffer.orders") == []
    assert api.send({"messages": [DELAYED, named(), DELAYED]}).status_code == 201


def test_of_two_with_one_own_id_the_second_adds_nothing_where_the_first_is_taken() -> None:
    members = [named("twin"), named("twin"), named("late"), named("late")]
    assert statuses(full_api(room=1).send({"atomic": False, "messages": members})) == [201, 201, 429, 429]
