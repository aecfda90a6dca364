"""Single messages: what is stored, and what the sender is answered."""

import base64
from typing import Any

import pytest

from delayline.schedule.rules import Rules
from mq.errors import PartitionUnknown, QueueUnavailable, TopicUnknown
from tests.unit.api.in_memory import MESSAGES, NOW_MS, Api, pointers, problem

BUFFER = "delayline.buffer.orders"


def test_a_message_with_a_delay_waits_in_the_buffer_and_its_sender_learns_id_and_due_time() -> None:
    api = Api()
    answer = api.send({"key": "7", "value": {"order": 7}, "schedule": {"delay": "30s"}})
    assert answer.status_code == 201
    sent = answer.json()
    assert sent == {
        "message_id": f"orders.{sent['partition']}.0.{NOW_MS + 30_000}",
        "own_id": None,
        "topic": "orders",
        "partition": sent["partition"],
        "state": "accepted",
        "accepted_at": "2026-01-01T00:00:00.000Z",
        "due_at": "2026-01-01T00:00:30.000Z",
        "version": 0,
        "deduplicated": False,
    }
    assert answer.headers["location"] == f"/v1/messages/{sent['message_id']}"
    assert answer.headers["etag"] == '"0"'
    (record,) = api.records(BUFFER, str(sent["partition"]))
    assert record == (b"7", b'{"order":7}', [(b"delay-ms", b"30000")])


def test_a_message_without_a_schedule_goes_straight_to_its_topic_and_has_no_id() -> None:
    api = Api()
    answer = api.send({"value": "hello"})
    assert answer.status_code == 201
    assert answer.json()["state"] == "delivered"
    assert answer.json()["message_id"] is None
    assert answer.json()["due_at"] is None
    assert "location" not in answer.headers
    assert [record.value for record in api.all_records("orders")] == [b"hello"]


@pytest.mark.parametrize("schedule", [{"delay": "0s"}, {"delay_ms": 0}, {"level": 0}, {"level": -3}])
def test_a_delay_of_nothing_goes_straight_to_the_topic_without_its_directive(schedule: dict[str, Any]) -> None:
    api = Api()
    assert api.send({"value": "x", "schedule": schedule}).json()["state"] == "delivered"
    assert api.all_records("orders")[0].headers == []


def test_the_due_time_counts_from_the_append_and_not_from_the_request() -> None:
    api = Api()
    append_each = api.queue.append_each

    def late(requests: Any) -> None:
        api.clock.advance(1500)
        append_each(requests)

    api.queue.append_each = late
    sent = api.send({"value": 1, "schedule": {"delay": "1s"}}).json()
    assert sent["accepted_at"] == "2026-01-01T00:00:01.500Z"
    assert sent["due_at"] == "2026-01-01T00:00:02.500Z"


@pytest.mark.parametrize(
    ("moment", "due_at"),
    [
        ("2026-01-01T01:00:30+01:00", "2026-01-01T00:00:30.000Z"),
        (NOW_MS + 1, "2026-01-01T00:00:00.001Z"),
        ("2020-02-02T00:00:00Z", "2020-02-02T00:00:00.000Z"),
    ],
)
def test_a_moment_is_kept_as_it_is_also_when_it_has_passed(moment: Any, due_at: str) -> None:
    sent = Api().send({"value": 1, "schedule": {"deliver_at": moment}}).json()
    assert (sent["state"], sent["due_at"]) == ("accepted", due_at)


@pytest.mark.parametrize(
    "schedule", [{"level": 2}, {"delay": "0.0001h6s640ms"}, {"delay": "PT7S"}, {"delay_ms": 7000}]
)
def test_however_a_delay_is_written_it_enters_the_log_as_milliseconds(schedule: dict[str, Any]) -> None:
    api = Api(rules=Rules(levels_ms=(1000, 7000)))
    answer = api.send({"partition": 0, "schedule": schedule})
    assert answer.json()["due_at"] == "2026-01-01T00:00:07.000Z"
    assert api.records(BUFFER)[-1].headers == [(b"delay-ms", b"7000")]


@pytest.mark.parametrize("moment", ["1970-01-02T00:00:00Z", "2026-01-01T01:00:30+01:00", NOW_MS + 30_000])
def test_a_moment_enters_the_log_as_it_is_written(moment: Any) -> None:
    api = Api()
    assert api.send({"partition": 0, "schedule": {"deliver_at": moment}}).status_code == 201
    assert api.records(BUFFER)[-1].headers == [(b"deliver-at", str(moment).encode())]


def test_a_level_above_the_table_is_its_last_one() -> None:
    api = Api(rules=Rules(levels_ms=(1000, 7000)))
    assert api.send({"schedule": {"level": 99}}).json()["due_at"] == "2026-01-01T00:00:07.000Z"


def test_a_message_without_a_schedule_waits_where_the_topic_has_a_default_delay() -> None:
    api = Api(rules=Rules(default_delay_ms=900_000))
    answer = api.send({"partition": 0, "value": "a"})
    assert answer.status_code == 201
    assert answer.json()["message_id"] == f"orders.0.1.{NOW_MS + 900_000}"  # behind the rules record
    assert (answer.json()["state"], answer.json()["due_at"]) == ("accepted", "2026-01-01T00:15:00.000Z")
    assert api.records(BUFFER)[-1].headers == [(b"delay-ms", b"900000")]
    assert api.records("orders") == []


@pytest.mark.parametrize("schedule", [{"delay": "0s"}, {"delay_ms": 0}, {"level": 0}])
def test_no_delay_is_a_time_and_no_default_is_added(schedule: dict[str, Any]) -> None:
    api = Api(rules=Rules(default_delay_ms=900_000))
    answer = api.send({"partition": 0, "value": "a", "schedule": schedule}).json()
    assert (answer["message_id"], answer["state"]) == (None, "delivered")
    assert len(api.records("orders")) == 1


def test_a_topic_that_is_not_enabled_has_no_default_delay() -> None:
    api = Api(rules=Rules(default_delay_ms=900_000))
    assert api.send({"value": "a"}, "/v1/topics/plain/messages").json()["state"] == "delivered"


FULL = [{"value": "delayed", "schedule": {"delay": "1s"}}, {"value": "at once"}]


def full_api() -> Api:
    api = Api()
    api.full = {"orders"}
    return api


@pytest.mark.parametrize("body", [FULL[0], {"messages": FULL}, {"messages": FULL[:1]}])
@pytest.mark.parametrize("mode", ["sync", "async", "oneway"])
def test_a_full_topic_takes_no_delayed_messages_and_answers_when_to_retry(body: Any, mode: str) -> None:
    api = full_api()
    answer = api.send(body, f"{MESSAGES}?mode={mode}")
    assert problem(answer) == (429, "limit-exceeded")
    assert (answer.headers["retry-after"], answer.json()["detail"]) == ("1", "orders is full")
    with pytest.raises(TopicUnknown):
        api.queue.topic("orders")


EVERY = {"value": "x", "schedule": {"every": "1h"}}
REPEATS = [
    EVERY,
    {"value": "x", "schedule": {"cron": "0 9 * * *"}},
    {"value": "x", "schedule": {"every": "1s", "times": 2}},
]


@pytest.mark.parametrize("body", [*REPEATS, {"messages": [FULL[1], *REPEATS]}])
@pytest.mark.parametrize("mode", ["sync", "async", "oneway"])
def test_a_topic_with_as_many_repeats_as_it_may_have_takes_no_more(body: Any, mode: str) -> None:
    api = Api()
    api.full_of_repeats = {"orders"}
    answer = api.send(body, f"{MESSAGES}?mode={mode}")
    assert problem(answer) == (429, "limit-exceeded")
    assert (answer.headers["retry-after"], answer.json()["detail"]) == ("1", "orders is full of repeats")
    with pytest.raises(TopicUnknown):
        api.queue.topic("orders")


def test_a_topic_with_as_many_repeats_as_it_may_have_takes_everything_else() -> None:
    api = Api()
    api.full_of_repeats = {"orders"}
    answer = api.send({"messages": [*FULL, EVERY], "atomic": False})
    assert [member["status"] for member in answer.json()["results"]] == [201, 201, 429]


def test_a_full_topic_takes_what_does_not_wait() -> None:
    api = full_api()
    assert api.send(FULL[1]).json()["state"] == "delivered"
    assert api.send(FULL[0], "/v1/topics/mail/messages").status_code == 201


def test_of_a_batch_that_is_not_atomic_a_full_topic_takes_what_does_not_wait() -> None:
    api = full_api()
    answer = api.send({"atomic": False, "messages": [*FULL, {"value": "x", "schedule": {"delay": "soon"}}]})
    assert [result["status"] for result in answer.json()["results"]] == [429, 201, 400]
    assert [record.value for record in api.all_records("orders")] == [b"at once"]


def test_a_level_beside_the_same_delay_is_no_contradiction_and_leaves_one_header() -> None:
    api = Api()
    assert api.send({"partition": 0, "schedule": {"level": 1, "delay_ms": 1000}}).status_code == 201
    assert api.records(BUFFER)[0].headers == [(b"delay-ms", b"1000")]


@pytest.mark.parametrize(
    ("schedule", "type_", "pointer"),
    [
        ({"delay": "soon"}, "invalid-schedule", "/schedule/delay"),
        ({"delay_ms": -5}, "invalid-schedule", "/schedule/delay_ms"),
        ({"deliver_at": 1_767_225_600}, "invalid-schedule", "/schedule/deliver_at"),
        ({"delay": "9999w"}, "beyond-horizon", "/schedule/delay"),
        ({}, "invalid-schedule", "/schedule"),
        ({"delay": None}, "invalid-schedule", "/schedule"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_with_its_reason(
    schedule: dict[str, Any], type_: str, pointer: str
) -> None:
    answer = Api().send({"value": 1, "schedule": schedule})
    assert problem(answer) == (400, type_)
    assert [where for where, _ in pointers(answer)] == [pointer]


def test_two_different_times_are_a_contradiction() -> None:
    assert problem(Api().send({"schedule": {"delay": "1s", "level": 3}})) == (400, "contradictory-schedule")


def test_a_topic_that_is_not_enabled_takes_messages_without_a_delay_only() -> None:
    api = Api()
    path = "/v1/topics/plain/messages"
    assert problem(api.send({"value": 1, "schedule": {"delay": "1s"}}, path)) == (400, "topic-not-enabled")
    assert api.send({"value": 1}, path).status_code == 201


def test_a_topic_that_does_not_exist_is_unknown_where_topics_are_not_made_on_first_use() -> None:
    assert problem(Api(topics_on_first_use=False).send({"value": 1})) == (404, "topic-unknown")


@pytest.mark.parametrize("topic", ["delayline.dead", "delayline.buffer.orders", "__offsets"])
def test_names_of_ours_and_of_the_queue_are_closed_to_senders(topic: str) -> None:
    assert problem(Api().send({"value": 1}, f"/v1/topics/{topic}/messages")) == (403, "forbidden")


@pytest.mark.parametrize("topic", ["%20", "a%3Ab", "x" * 250, "%C3%A9"])
def test_a_name_that_no_topic_can_have_is_refused(topic: str) -> None:
    api = Api()
    answer = api.request("POST", f"http://api/v1/topics/{topic}/messages", json={"value": 1})
    assert problem(answer)[0] in (400, 404)
    assert api.queue.topics() == []


def test_a_name_too_long_for_its_buffer_takes_no_delayed_messages() -> None:
    path = f"/v1/topics/{'x' * 240}/messages"
    assert problem(Api().send({"schedule": {"delay": "1s"}}, path)) == (400, "invalid-request")


# --- keys, values, headers


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ('"text"', b"text"),
        ('"caf\\u00e9 \\n \\"q\\""', 'café \n "q"'.encode()),
        ('"caf\u00e9"', "café".encode()),
        ('""', b""),
        ('{ "b" : 1.10, "a" : [ 1e3 , null ] }', b'{"b":1.10,"a":[1e3,null]}'),
        ("12345678901234567890123", b"12345678901234567890123"),
        ("true", b"true"),
        ("[]", b"[]"),
        ("null", None),
    ],
)
def test_a_value_stands_for_its_bytes(value: str, stored: bytes | None) -> None:
    api = Api()
    assert api.send_text(f'{{"value": {value}, "partition": 0}}'.encode()).status_code == 201
    assert api.records("orders")[0].value == stored


def test_any_bytes_survive_as_base64() -> None:
    api = Api()
    data = bytes(range(256))
    body = {
        "key_base64": base64.b64encode(data).decode(),
        "value_base64": base64.b64encode(data[::-1]).decode(),
        "headers": [{"name": "raw", "value_base64": base64.b64encode(data).decode()}, {"name": "null"}],
        "partition": 0,
    }
    assert api.send(body).status_code == 201
    assert api.records("orders") == [(data, data[::-1], [(b"raw", data), (b"null", None)])]


@pytest.mark.parametrize(
    "literal", ["NaN", "Infinity", "-Infinity", "01", "1.", "'x'", '"\\ud800"', '"\x01"', "[1,]"]
)
def test_what_is_no_json_is_refused(literal: str) -> None:
    answer = Api().send_text(f'{{"value": {literal}}}'.encode())
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [("", "malformed")]


@pytest.mark.parametrize("body", [b'{"value":"\xff"}', b'{"value":{"a":"\xc3\x28"}}', b"\xff\xfe{\x00}\x00"])
def test_a_body_that_is_not_utf_8_is_refused(body: bytes) -> None:
    answer = Api().send_text(body)
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [("", "not-utf-8")]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ('{"valeu":1}', ("/valeu", "unknown-field")),
        ('{"a/b~c":1}', ("/a~1b~0c", "unknown-field")),
        ('{"schedule":{"deley":"1s"}}', ("/schedule/deley", "unknown-field")),
        ('{"schedule":"1s"}', ("/schedule", "invalid-value")),
        ('{"schedule":{"delay":5}}', ("/schedule/delay", "invalid-value")),
        ('{"schedule":{"delay_ms":1.5}}', ("/schedule/delay_ms", "invalid-value")),
        ('{"schedule":{"delay_ms":99999999999999999999}}', ("/schedule/delay_ms", "invalid-value")),
        ('{"headers":[{"name":"a"},{"value":"x"}]}', ("/headers/1/name", "missing-field")),
        ('{"headers":[{"name":""}]}', ("/headers/0/name", "invalid-value")),
        ('{"headers":[{"name":"a","value":1}]}', ("/headers/0/value", "invalid-value")),
        ('{"value_base64":"not base64"}', ("/value_base64", "invalid-value")),
        ('{"value":1,"value_base64":"AA=="}', ("/value", "contradiction")),
        ('{"key":"","key_base64":"AA=="}', ("/key", "contradiction")),
        ('{"headers":[{"name":"a","value":"","value_base64":""}]}', ("/headers/0/value", "contradiction")),
        ('{"partition":0.5}', ("/partition", "invalid-value")),
        ('{"partition":-1}', ("/partition", "invalid-value")),
        ("[]", ("", "invalid-value")),
        ("", ("", "malformed")),
    ],
)
def test_a_body_of_another_form_is_refused_with_a_pointer(body: str, where: tuple[str, str]) -> None:
    answer = Api().send_text(body)
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [where]


def test_a_value_that_is_nested_beyond_reason_is_refused() -> None:
    answer = Api().send_text(b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [("", "too-deep")]


def test_of_a_field_that_stands_twice_the_last_one_counts() -> None:
    api = Api()
    api.send_text('{"value":"first","value":"last","partition":0}')
    assert api.records("orders")[0].value == b"last"


@pytest.mark.parametrize(
    "name",
    ["delay", "delay-ms", "deliver-at", "delay-level", "delayline-origin", "delayline-rules", "delayline-sent"],
)
def test_directives_and_reserved_names_are_refused_as_headers(name: str) -> None:
    answer = Api().send({"headers": [{"name": "ok", "value": "1"}, {"name": name, "value": "1"}]})
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [("/headers/1/name", "reserved")]


def test_headers_that_a_delivered_record_carried_are_dropped_when_it_is_forwarded() -> None:
    api = Api()
    echoed = [{"name": f"delayline-{name}", "value": "x"} for name in ("id", "due", "accepted")]
    api.send({"partition": 0, "headers": [*echoed, {"name": "kept", "value": "y"}]})
    assert api.records("orders")[0].headers == [(b"kept", b"y")]


# --- partitions


def test_a_key_decides_the_partition_as_javas_default_partitioner_would() -> None:
    sent = Api().send({"key": "foobar"}).json()
    assert sent["partition"] == (-790332482 & 0x7FFFFFFF) % 4


def test_messages_without_a_key_take_turns() -> None:
    api = Api()
    assert [api.send({"value": n}).json()["partition"] for n in range(6)] == [0, 1, 2, 3, 0, 1]


def test_a_given_partition_comes_before_the_key() -> None:
    assert Api().send({"key": "foobar", "partition": 1}).json()["partition"] == 1


def test_a_partition_may_be_given_by_its_name() -> None:
    assert Api().send({"key": "foobar", "partition": "1"}).json()["partition"] == 1


@pytest.mark.parametrize("partition", [4, "4", "x", "broker-a:0"])
def test_a_partition_that_the_topic_does_not_have_is_refused(partition: int | str) -> None:
    answer = Api().send({"partition": partition})
    assert problem(answer) == (400, "invalid-request")
    assert pointers(answer) == [("/partition", "partition-unknown")]


# --- modes


def test_async_answers_before_the_message_is_durable() -> None:
    api = Api()
    answer = api.send({"value": 1, "partition": 0}, params={"mode": "async"})
    assert (answer.status_code, answer.json()) == (202, {"message_id": None, "own_id": None, "durable": False})
    assert len(api.records("orders")) == 1


def test_oneway_answers_without_a_body() -> None:
    api = Api()
    answer = api.send({"value": 1, "partition": 0}, params={"mode": "oneway"})
    assert (answer.status_code, answer.content) == (202, b"")
    assert len(api.records("orders")) == 1


def test_what_async_could_not_store_is_counted() -> None:
    api = Api()
    api.send({"value": 0})

    async def send_and_linger(http: Any) -> int:
        api.queue.failure = QueueUnavailable("the disk is full")
        status: int = (await http.post(MESSAGES, params={"mode": "async"}, json={"value": 1})).status_code
        await http.get("/healthz")
        return status

    assert api.run(send_and_linger) == 202
    assert api.metric("delayline_http_unconfirmed_failures_total", topic="orders") == 1
    assert api.metric("delayline_messages_accepted_total", topic="orders", via="http") == 1


def test_a_mode_that_does_not_exist_is_refused() -> None:
    answer = Api().send({"value": 1}, params={"mode": "maybe"})
    assert problem(answer) == (400, "invalid-request")
    assert pointers(answer) == [("?mode", "invalid-value")]


# --- the queue refuses


def test_a_queue_that_is_away_is_a_503_with_retry_after() -> None:
    api = Api()
    api.queue.failure = QueueUnavailable("the disk is full")
    answer = api.send({"value": 1})
    assert problem(answer) == (503, "queue-unavailable")
    assert answer.headers["retry-after"] == "1"


def test_a_queue_that_does_not_answer_is_a_503_that_names_what_is_unknown() -> None:
    api = Api(append_timeout_s=0.02)
    api.queue.silent = True
    answer = api.send({"value": 1})
    assert problem(answer) == (503, "queue-unavailable")
    assert "it is unknown whether it was stored" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(TopicUnknown("gone"), (404, "topic-unknown")), (PartitionUnknown("gone"), (400, "invalid-request"))],
)
def test_a_topic_that_vanished_is_looked_up_again(failure: Exception, expected: tuple[int, str]) -> None:
    api = Api()
    api.send({"value": 1})
    api.queue.failure = failure
    assert problem(api.send({"value": 1})) == expected
    api.queue.failure = None
    assert api.send({"value": 1}).status_code == 201


def test_accepted_messages_are_counted_by_topic() -> None:
    api = Api()
    api.send({"value": 1})
    api.send({"messages": [{"value": 1}, {"value": 2, "schedule": {"delay": "1s"}}]})
    assert api.metric("delayline_messages_accepted_total", topic="orders", via="http") == 3
