"""Messages with an id of their sender's own: where they go, what their senders are answered, and asking for them."""

from typing import Any

import pytest

from api.sending.partitioner import partition_index
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Found, Gone, Listing, OwnerUnavailable, Place, Query, Resolution, Row, State
from delayline.records.message import MessageId, Shard
from delayline.schedule.terms import Series, Terms
from tests.unit.api.in_memory import MESSAGES, NOW_MS, Api, problem

HOUR_MS = 3_600_000
SHARDS = tuple(Shard("orders", str(number)) for number in range(4))
HOLDER = MessageId(SHARDS[1], 5, NOW_MS + HOUR_MS)
OWN = "/v1/topics/orders/own/order-7"
BUFFER = "delayline.buffer.orders"


def message(own_id: str = "order-7", **rest: Any) -> dict[str, Any]:
    return {"value": own_id, "schedule": {"delay": "30s", "own_id": own_id}, **rest}


def holder(terms: Terms | None = None, **rest: Any) -> Found:
    terms = terms or Terms(own_id="order-7")
    return Found(HOLDER, State.PENDING, NOW_MS - HOUR_MS, NOW_MS + 2 * HOUR_MS, 3, terms=terms, **rest)


def row(found: Found) -> Row:
    return Row(Place(found.due_ms, found.id.shard, found.id.offset), found)


def api(resolution: Resolution | None = None, found: Found | Gone | None = None, **settings: Any) -> Api:
    """Every claim is decided so; the message that has the own id is `found`."""
    made = Api(**settings)
    made.queue.ensure_topic("orders")
    made.queue.ensure_buffer("orders", made.rules)
    made.owners.decide = lambda: resolution or Resolution(Outcome.APPLIED)
    if found is not None:
        made.owners.messages[str(HOLDER)] = found
    made.owners.listings = [Listing(SHARDS, (row(found),) if isinstance(found, Found) else (), None)]
    return made


TAKEN = Resolution(Outcome.DUPLICATE, "own-id", str(HOLDER))


def test_a_message_whose_own_id_is_free_is_answered_when_its_owner_has_decided() -> None:
    free = api()
    answer = free.send(message())
    partition = partition_index(b"order-7", 4)
    assert answer.status_code == 201
    assert (answer.json()["own_id"], answer.json()["deduplicated"]) == ("order-7", False)
    assert free.owners.operations == [(Shard("orders", str(partition)), 0)]


def test_messages_with_one_own_id_meet_in_one_partition_and_a_key_or_a_number_goes_before() -> None:
    placed = api()
    partitions = {placed.send(message(value=n)).json()["partition"] for n in range(5)}
    assert partitions == {partition_index(b"order-7", 4)}
    assert placed.send(message(key="7")).json()["partition"] == partition_index(b"7", 4)
    assert placed.send(message(partition=2)).json()["partition"] == 2


def test_a_message_whose_own_id_is_taken_is_the_one_that_has_it() -> None:
    answer = api(TAKEN, holder()).send(message())
    assert answer.status_code == 201
    assert answer.json() == {
        "message_id": str(HOLDER),
        "topic": "orders",
        "partition": 1,
        "state": "pending",
        "accepted_at": "2025-12-31T23:00:00.000Z",
        "due_at": "2026-01-01T02:00:00.000Z",
        "own_id": "order-7",
        "version": 3,
        "deduplicated": True,
    }
    assert (answer.headers["etag"], answer.headers["location"]) == ('"3"', f"/v1/messages/{HOLDER}")


@pytest.mark.parametrize("found", [None, Gone()])
def test_one_that_has_ended_since_and_is_forgotten_is_named_all_the_same(found: Gone | None) -> None:
    answer = api(TAKEN, found).send(message()).json()
    assert (answer["message_id"], answer["state"], answer["accepted_at"]) == (str(HOLDER), "ended", None)
    assert answer["deduplicated"] is True


def test_without_a_decision_in_time_the_sender_is_asked_to_retry() -> None:
    silent = api(operation_timeout_s=0.01)
    silent.owners.decide = lambda: None
    answer = silent.send(message())
    assert problem(answer) == (503, "owner-unavailable")
    assert "retry-after" in answer.headers
    assert len(silent.all_records(BUFFER)) == 1


def test_where_the_owner_of_the_other_does_not_answer_the_sender_is_asked_to_retry() -> None:
    lost = api(TAKEN)
    lost.owners.failure = OwnerUnavailable()
    assert problem(lost.send(message())) == (503, "owner-unavailable")


@pytest.mark.parametrize("mode", ["async", "oneway"])
def test_who_does_not_wait_for_the_message_does_not_wait_for_the_decision(mode: str) -> None:
    silent = api()
    silent.owners.decide = lambda: None
    assert silent.send(message(), f"{MESSAGES}?mode={mode}").status_code == 202
    assert silent.owners.operations == []


def test_a_message_without_own_id_is_not_asked_about() -> None:
    plain = api()
    plain.send({"value": 1, "schedule": {"delay": "30s"}})
    assert plain.owners.operations == []


def test_each_member_of_a_batch_hears_of_its_own_id() -> None:
    mixed = api(found=holder())
    answers = iter([Resolution(Outcome.APPLIED), TAKEN])
    mixed.owners.decide = lambda: next(answers)
    members = [message("a"), {"value": 1, "schedule": {"delay": "1s"}}, message()]
    answer = mixed.send({"messages": members})
    results = [result["message"] for result in answer.json()["results"]]
    assert (answer.status_code, answer.json()["accepted"]) == (201, 3)
    assert [result["deduplicated"] for result in results] == [False, False, True]
    assert results[2]["message_id"] == str(HOLDER)


@pytest.mark.parametrize(("atomic", "status"), [(True, 503), (False, 200)])
def test_a_batch_lists_the_members_that_are_not_decided_yet(atomic: bool, status: int) -> None:
    slow = api(operation_timeout_s=0.01)
    answers = iter([Resolution(Outcome.APPLIED), None])
    slow.owners.decide = lambda: next(answers)
    answer = slow.send({"atomic": atomic, "messages": [message("a"), message("b")]})
    assert answer.status_code == status
    assert [result["status"] for result in answer.json()["results"]] == [201, 503]
    assert len(slow.all_records(BUFFER)) == 2


def test_a_message_is_found_by_its_own_id() -> None:
    asked = api(found=holder(key=b"k", value=b"v"))
    answer = asked.get(f"{OWN}?view=full")
    assert (answer.status_code, answer.headers["etag"]) == (200, '"3"')
    assert (answer.json()["message_id"], answer.json()["own_id"], answer.json()["value"]) == (
        str(HOLDER),
        "order-7",
        "v",
    )
    assert asked.owners.asked == [(list(SHARDS), Query(own_id="order-7", limit=3))]


def test_an_own_id_may_hold_anything_that_a_path_can() -> None:
    asked = api(found=holder())
    assert asked.get("/v1/topics/orders/own/a%2Fb%20%C3%A4%3F").status_code == 200
    query = asked.owners.asked[0][1]
    assert isinstance(query, Query)
    assert query.own_id == "a/b ä?"


@pytest.mark.parametrize(
    ("method", "body"), [("GET", None), ("PATCH", {"schedule": {"delay": "1h"}}), ("DELETE", None)]
)
def test_an_own_id_that_nobody_has_that_several_have_or_that_not_all_answer_for(method: str, body: Any) -> None:
    asked = api()
    assert problem(asked.request(method, OWN, json=body)) == (404, "not-found")
    asked.owners.listings = [Listing(SHARDS[:3], (row(holder()),), None)]
    assert problem(asked.request(method, OWN, json=body)) == (503, "owner-unavailable")
    other = Row(Place(1, SHARDS[2], 9), holder())
    asked.owners.listings = [Listing(SHARDS, (other, row(holder())), None)]
    assert problem(asked.request(method, OWN, json=body)) == (409, "ambiguous")
    assert problem(asked.request(method, OWN.replace("orders", "nothing"), json=body)) == (404, "topic-unknown")
    assert asked.all_records(BUFFER) == []


@pytest.mark.parametrize(
    ("method", "body", "directive", "status"),
    [("DELETE", None, b"cancel", 204), ("PATCH", {"schedule": {"delay": "1h"}}, b"reschedule", 200)],
)
def test_a_message_is_cancelled_and_moved_by_its_own_id(
    method: str, body: Any, directive: bytes, status: int
) -> None:
    asked = api(found=holder())
    answer = asked.request(method, OWN, json=body)
    headers = dict(asked.records(BUFFER, "1")[0].headers)
    assert answer.status_code == status
    assert (headers[b"delay-op"], headers[b"delay-ref"]) == (directive, str(HOLDER).encode())


def test_a_list_can_be_asked_for_an_own_id_and_that_of_what_has_ended_is_not_known() -> None:
    asked = api(found=holder())
    rows = asked.get("/v1/messages?topic=orders&own_id=order-7").json()["messages"]
    assert [one["own_id"] for one in rows] == ["order-7"]
    query = asked.owners.asked[0][1]
    assert isinstance(query, Query)
    assert query.own_id == "order-7"
    assert problem(asked.get("/v1/messages?own_id=order-7&state=delivered")) == (400, "not-supported")


def test_a_message_shows_how_it_repeats_and_until_when() -> None:
    series = Series(every_ms=HOUR_MS, times_left=2, occurrence=4)
    asked = api(found=holder(Terms(own_id="order-7", ttl_ms=60_000, series=series)))
    answer = asked.get(OWN).json()
    assert answer["next_due_at"] == "2026-01-01T03:00:00.000Z"
    assert answer["expires_at"] == "2026-01-01T02:01:00.000Z"
    assert answer["repeat"] == {
        "cron": None,
        "time_zone": None,
        "every": "1h",
        "backoff": None,
        "missed": "latest",
        "times_left": 2,
        "occurrence": 4,
    }


@pytest.mark.parametrize(
    "terms",
    [
        Terms(own_id="order-7", series=Series(every_ms=HOUR_MS, times_left=1)),
        Terms(own_id="order-7", series=Series(every_ms=HOUR_MS), expire_at_ms=NOW_MS + 2 * HOUR_MS + 1),
        Terms(own_id="order-7"),
    ],
)
def test_the_last_of_a_series_has_nothing_behind_it(terms: Terms) -> None:
    assert api(found=holder(terms)).get(OWN).json()["next_due_at"] is None
