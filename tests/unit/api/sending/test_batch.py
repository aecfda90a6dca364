"""Batches: atomic ones, loose ones, and what each member is answered."""

from typing import Any

import pytest

from mq.errors import QueueUnavailable, TopicUnknown
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem

GOOD = {"value": "good", "partition": 0}
DELAYED = {"value": "delayed", "partition": 0, "schedule": {"delay": "1s"}}
BAD = {"value": "bad", "schedule": {"delay": "soon"}}


def _results(answer: Any) -> list[tuple[int, int]]:
    return [(result["index"], result["status"]) for result in answer.json()["results"]]


def test_an_atomic_batch_without_fault_is_stored_in_one_append() -> None:
    api = Api()
    appends: list[int] = []
    append_each = api.queue.append_each

    def counted(requests: Any) -> None:
        appends.extend(len(request.records) for request in requests)
        append_each(requests)

    api.queue.append_each = counted
    answer = api.send({"atomic": True, "messages": [GOOD, DELAYED, GOOD]})
    assert answer.status_code == 201
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (3, 0)
    assert _results(answer) == [(0, 201), (1, 201), (2, 201)]
    assert answer.json()["results"][1]["message"]["message_id"] == f"orders.0.0.{NOW_MS + 1000}"
    assert appends == [3]
    assert [record.value for record in api.records("orders")] == [b"good", b"good"]


def test_every_member_has_headers_and_time_of_its_own_whatever_the_one_before_it_had() -> None:
    api = Api()
    given = [("a", 1000), ("a", 1000), ("b", 1000), ("b", 2000), (None, 2000), ("a", 1000)]
    messages = [
        {
            "partition": 0,
            "schedule": {"delay_ms": ms},
            "headers": [{"name": "trace", "value": trace}] if trace else [],
        }
        for trace, ms in given
    ]
    answer = api.send({"messages": messages})
    ids = [result["message"]["message_id"] for result in answer.json()["results"]]
    assert ids == [f"orders.0.{offset}.{NOW_MS + ms}" for offset, (_, ms) in enumerate(given)]
    assert [record.headers for record in api.records("delayline.buffer.orders")] == [
        [*([(b"trace", trace.encode())] if trace else []), (b"delay-ms", b"%d" % ms)] for trace, ms in given
    ]


def test_what_was_recorded_of_one_topic_is_not_believed_of_the_next() -> None:
    api = Api()
    assert api.send(DELAYED).status_code == 201
    assert problem(api.send(DELAYED, path="/v1/topics/plain/messages")) == (400, "topic-not-enabled")


def test_a_moment_is_judged_anew_with_each_request() -> None:
    api = Api()
    expiring = DELAYED | {"schedule": {"delay": "1s", "expire_at": NOW_MS + 5000}}
    assert api.send(expiring).status_code == 201
    api.clock.advance(10_000)
    assert problem(api.send(expiring)) == (400, "invalid-schedule")
    assert len(api.records("delayline.buffer.orders")) == 1


def test_a_batch_is_atomic_by_default() -> None:
    api = Api()
    assert problem(api.send({"messages": [GOOD, BAD]})) == (400, "invalid-body")
    assert api.queue.topics() == []


def test_an_atomic_batch_with_a_fault_stores_nothing_and_names_every_member_at_fault() -> None:
    api = Api()
    answer = api.send({"atomic": True, "messages": [BAD, GOOD, {"foo": 1}]})
    assert problem(answer) == (400, "invalid-body")
    assert _results(answer) == [(0, 400), (2, 400)]
    assert pointers(answer) == [
        ("/messages/0/schedule/delay", "invalid-schedule"),
        ("/messages/2/foo", "unknown-field"),
    ]
    assert answer.json()["results"][0]["problem"]["type"] == "/problems/invalid-schedule"
    assert api.queue.topics() == []


def test_an_atomic_batch_with_a_member_too_large_stores_nothing() -> None:
    api = Api(record_bytes_max=6000)
    answer = api.send({"messages": [GOOD, {"value": "x" * 7000}]})
    assert problem(answer) == (400, "invalid-body")
    assert _results(answer) == [(1, 413)]
    assert api.all_records("orders") == []


def test_an_atomic_batch_names_members_without_a_place_beside_those_that_cannot_be_read() -> None:
    api = Api(record_bytes_max=6000)
    members = [BAD, GOOD, {**DELAYED, "partition": 9}, {"value": "x" * 7000}, {"foo": 1}]
    api.queue.ensure_topic("orders")
    for _ in range(2):
        answer = api.send({"messages": members})
        assert problem(answer) == (400, "invalid-body")
        assert _results(answer) == [(0, 400), (2, 400), (3, 413), (4, 400)]
        assert ("/messages/2/partition", "partition-unknown") in pointers(answer)
        assert len(api.all_records("orders")) == 0
        with pytest.raises(TopicUnknown):
            api.queue.topic("delayline.buffer.orders")


def test_of_a_loose_batch_the_good_members_are_stored_and_each_gets_its_result() -> None:
    api = Api()
    answer = api.send({"atomic": False, "messages": [GOOD, BAD, DELAYED, {"value": 1, "partition": 9}]})
    assert answer.status_code == 200
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (2, 2)
    assert _results(answer) == [(0, 201), (1, 400), (2, 201), (3, 400)]
    assert answer.json()["results"][1]["problem"]["errors"][0]["pointer"] == "/messages/1/schedule/delay"
    assert [record.value for record in api.all_records("orders")] == [b"good"]
    assert [record.value for record in api.all_records("delayline.buffer.orders")] == [b"delayed"]


@pytest.mark.parametrize(
    "member", [{"foo": 1}, 5, None, "x", [], {"schedule": {"own_id": "x"}}, {"value_base64": "?"}]
)
def test_a_member_that_cannot_be_read_spoils_only_itself_in_a_loose_batch(member: Any) -> None:
    api = Api()
    answer = api.send({"messages": [member, GOOD], "atomic": False})
    assert _results(answer) == [(0, 400), (1, 201)]
    assert len(api.records("orders")) == 1


def test_a_loose_batch_without_a_good_member_makes_no_topic() -> None:
    api = Api()
    answer = api.send({"atomic": False, "messages": [BAD, BAD]})
    assert (answer.status_code, answer.json()["accepted"]) == (200, 0)
    assert api.queue.topics() == []


def test_a_loose_batch_fails_as_a_whole_when_the_queue_is_away() -> None:
    api = Api()
    api.queue.failure = QueueUnavailable("the disk is full")
    assert problem(api.send({"atomic": False, "messages": [GOOD, BAD]})) == (503, "queue-unavailable")


def test_messages_of_a_batch_keep_their_order_in_a_partition() -> None:
    api = Api()
    api.send({"messages": [{"value": n, "partition": 1} for n in range(50)]})
    assert [record.value for record in api.records("orders", "1")] == [b"%d" % n for n in range(50)]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"messages": []}, ("/messages", "invalid-value")),
        ({"messages": 5}, ("/messages", "invalid-value")),
        ({"atomic": True}, ("/messages", "missing-field")),
        ({"messages": [GOOD], "atomic": "yes"}, ("/atomic", "invalid-value")),
        ({"messages": [GOOD], "value": 1}, ("/value", "unknown-field")),
        ({"value": 1, "messages": [GOOD]}, ("/value", "unknown-field")),
    ],
)
def test_a_batch_of_another_form_is_refused(body: Any, where: tuple[str, str]) -> None:
    answer = Api().send(body)
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [where]


@pytest.mark.parametrize("members", [[GOOD] * 4, [GOOD, GOOD, BAD, {"foo": 1}]])
@pytest.mark.parametrize("atomic", [True, False])
def test_a_batch_with_too_many_members_is_refused_as_a_whole(members: list[Any], atomic: bool) -> None:
    api = Api(batch_messages_max=3)
    answer = api.send({"atomic": atomic, "messages": members})
    assert problem(answer) == (400, "limit-exceeded")
    assert pointers(answer) == [("/messages", "too-many")]
    assert api.queue.topics() == []


def test_an_async_batch_reports_that_nothing_is_durable_yet() -> None:
    answer = Api().send({"atomic": False, "messages": [GOOD, BAD]}, params={"mode": "async"})
    assert answer.status_code == 202
    assert _results(answer) == [(0, 202), (1, 400)]
    assert answer.json()["results"][0]["message"] == {"message_id": None, "own_id": None, "durable": False}


def test_a_oneway_batch_has_an_answer_without_body() -> None:
    api = Api()
    answer = api.send({"messages": [GOOD]}, params={"mode": "oneway"})
    assert (answer.status_code, answer.content) == (202, b"")
    assert len(api.records("orders")) == 1
