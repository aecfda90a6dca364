"""Cancelling a message, moving it, and having it now: what enters the log, and what the client is answered."""

from typing import Any

import pytest

from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Ending, Found, Gone, OwnerUnavailable, Resolution, State
from delayline.records.message import MessageId, Shard
from delayline.records.record import decode_body
from tests.unit.api.in_memory import NOW_MS, Api, problem

ID = f"orders.3.1041.{NOW_MS + 30_000}"
PATH = f"/v1/messages/{ID}"
BUFFER = "delayline.buffer.orders"


def found(state: State = State.PENDING) -> Found:
    waits = state in (State.ACCEPTED, State.PENDING)
    ending = None if waits else Ending(Outcome(state.value), NOW_MS + 30_007, 7 if state is State.DELIVERED else None)
    return Found(MessageId.parse(ID), state, NOW_MS, NOW_MS + 30_000, ending=ending)


def api(state: State = State.PENDING, **settings: Any) -> Api:
    made = Api(**settings)
    made.owners.messages[ID] = found(state)
    made.owners.decide = lambda: Resolution(Outcome.APPLIED)
    return made


def asked(of: Api) -> list[dict[bytes, bytes | None]]:
    """The directives of the operations in the log."""
    if "orders" not in of.queue.topics():
        return []
    return [dict(decode_body(record.body).headers) for record in of.queue.read(BUFFER, "3", 0, 100)]


def too_late(of: Api, then: Found | Gone) -> None:
    """The message ends between the question and the decision."""

    def decide() -> Resolution:
        of.owners.messages[ID] = then
        return Resolution(Outcome.UNMATCHED)

    of.owners.decide = decide


def test_a_cancel_is_a_record_in_the_messages_own_partition_and_true_when_it_is_decided() -> None:
    asked_api = api()
    answer = asked_api.request("DELETE", PATH)
    assert (answer.status_code, answer.content) == (204, b"")
    assert asked(asked_api) == [{b"delay-op": b"cancel", b"delay-ref": ID.encode()}]
    assert asked_api.owners.operations == [(Shard("orders", "3"), 0)]


def test_a_cancel_that_comes_too_late_states_how_the_message_ended() -> None:
    late = api()
    too_late(late, found(State.DELIVERED))
    answer = late.request("DELETE", PATH)
    assert problem(answer) == (409, "already-terminal")
    assert answer.json()["outcome"] == {
        "state": "delivered",
        "at": "2026-01-01T00:00:30.007Z",
        "lateness_ms": 7,
        "reason": None,
    }


@pytest.mark.parametrize("state", [State.DELIVERED, State.DEAD, State.EXPIRED, State.DUPLICATE])
@pytest.mark.parametrize(("method", "suffix"), [("DELETE", ""), ("PATCH", ""), ("POST", ":deliver")])
def test_what_has_ended_is_not_operated_on(method: str, suffix: str, state: State) -> None:
    ended = api(state)
    answer = ended.request(method, PATH + suffix, json={"schedule": {"delay": "1s"}} if method == "PATCH" else None)
    assert problem(answer) == (409, "already-terminal")
    assert asked(ended) == []


def test_a_second_cancel_is_answered_like_the_first() -> None:
    cancelled = api(State.CANCELLED)
    assert (cancelled.request("DELETE", PATH).status_code, asked(cancelled)) == (204, [])


def test_of_two_cancels_at_once_both_are_answered_cancelled() -> None:
    racing = api()
    too_late(racing, found(State.CANCELLED))
    assert racing.request("DELETE", PATH).status_code == 204


def test_an_ending_that_nobody_remembers_is_gone() -> None:
    late = api()
    too_late(late, Gone())
    assert problem(late.request("DELETE", PATH)) == (410, "already-terminal")


@pytest.mark.parametrize(("method", "suffix"), [("DELETE", ""), ("POST", ":deliver")])
def test_nothing_is_written_for_a_message_that_nobody_knows(method: str, suffix: str) -> None:
    empty = Api()
    assert problem(empty.request(method, PATH + suffix)) == (404, "not-found")
    assert asked(empty) == []


def test_nothing_is_written_while_the_outcome_of_the_message_is_unknown() -> None:
    away = api()
    away.owners.failure = OwnerUnavailable("another worker's")
    assert problem(away.request("DELETE", PATH)) == (503, "owner-unavailable")
    assert asked(away) == []


@pytest.mark.parametrize(
    ("schedule", "directive"),
    [
        ({"delay": "1h"}, (b"delay-ms", b"3600000")),
        ({"delay_ms": 5}, (b"delay-ms", b"5")),
        ({"delay": "0s"}, (b"delay-ms", b"0")),
        ({"deliver_at": "2026-01-01T01:00:00Z"}, (b"deliver-at", b"2026-01-01T01:00:00Z")),
    ],
)
def test_a_new_time_is_counted_from_when_the_operation_is_stored(
    schedule: dict[str, Any], directive: tuple[bytes, bytes]
) -> None:
    moved = api()
    answer = moved.request("PATCH", PATH, json={"schedule": schedule})
    assert (answer.status_code, answer.json()["message_id"]) == (200, ID)
    assert asked(moved) == [{b"delay-op": b"reschedule", directive[0]: directive[1], b"delay-ref": ID.encode()}]


def test_to_deliver_now_is_to_move_it_here() -> None:
    moved = api()
    assert moved.request("POST", f"{PATH}:deliver").status_code == 204
    assert asked(moved) == [{b"delay-op": b"reschedule", b"delay-ms": b"0", b"delay-ref": ID.encode()}]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, "invalid-body"),
        ({"schedule": {}}, "invalid-schedule"),
        ({"schedule": {"delay": "soon"}}, "invalid-schedule"),
        ({"schedule": {"delay": "1s", "delay_ms": 2}}, "contradictory-schedule"),
        ({"schedule": {"delay": "99999d"}}, "beyond-horizon"),
        ({"schedule": {"delay": "1s", "ttl": "1h"}}, "invalid-body"),  # a time is all that can be changed
        ({"schedule": {"delay": "1s"}, "value": 2}, "invalid-body"),
    ],
)
def test_a_new_time_that_is_none_changes_nothing(body: dict[str, Any], kind: str) -> None:
    unmoved = api()
    assert problem(unmoved.request("PATCH", PATH, json=body)) == (400, kind)
    assert asked(unmoved) == []
