"""Each kind of message once through the real process: sent over HTTP, read back from its topic."""

import httpx
import pytest

from tests.acceptance.asking import HTTP, numbers, send, wait_delivered, wait_for
from tests.fault.server import Server, read_topic


def _post(server: Server, topic: str, body: object, **query: str) -> httpx.Response:
    return HTTP.post(f"{server.url}/v1/topics/{topic}/messages", params=query, json=body)


@pytest.mark.parametrize(
    ("mode", "body"), [("async", b'{"message_id":null,"own_id":null,"durable":false}'), ("oneway", b"")]
)
def test_a_message_that_nobody_waits_for_arrives(shared: Server, mode: str, body: bytes) -> None:
    answer = _post(shared, mode, {"value": "x", "schedule": {"delay": "50ms"}}, mode=mode)
    found = wait_for(lambda: _values(shared, mode), bool)
    assert (answer.status_code, answer.content) == (202, body)
    assert found == ["x"]


def _values(server: Server, topic: str) -> list[str]:
    records = HTTP.get(f"{server.url}/v1/topics/{topic}/records").json().get("records", [])
    return [record["value"] for record in records]


def test_an_atomic_batch_with_one_bad_member_stores_none_and_names_it(shared: Server) -> None:
    send(shared.url, "atomic", ["before"], delay="1ms")
    messages = [{"value": "good"}, {"value": "bad", "schedule": {"delay": "soon"}}]
    answer = _post(shared, "atomic", {"messages": messages})
    found = wait_delivered(shared, ["before"], "atomic")
    results = answer.json()["results"]
    assert (answer.status_code, [result["index"] for result in results]) == (400, [1])
    assert found == ["before"]


def test_a_batch_that_is_not_atomic_stores_its_good_members(shared: Server) -> None:
    messages = [{"value": "good"}, {"value": "bad", "schedule": {"delay": "soon"}}]
    answer = _post(shared, "single", {"atomic": False, "messages": messages}).json()
    assert (answer["accepted"], answer["rejected"]) == (1, 1)
    assert wait_delivered(shared, ["good"], "single") == ["good"]


def test_a_batch_of_a_thousand_arrives_whole(shared: Server) -> None:
    send(shared.url, "thousand", numbers(1000), delay="100ms")
    assert wait_delivered(shared, numbers(1000), "thousand") == numbers(1000)


def test_bytes_that_are_no_text_arrive_as_they_were_sent_with_their_headers(shared: Server) -> None:
    message = {
        "value_base64": "/wD+",
        "key_base64": "gA==",
        "headers": [{"name": "größe", "value": "5 µm"}, {"name": "raw", "value": None, "value_base64": "/w=="}],
        "schedule": {"delay": "20ms"},
    }
    answer = _post(shared, "bytes", message)
    (record,) = wait_for(lambda: list(read_topic(shared.url, "bytes")), bool)
    ours = [header for header in record["headers"] if not header["name"].startswith("delayline-")]
    assert answer.status_code == 201
    assert (record["value"], record["value_base64"], record["key_base64"]) == (None, "/wD+", "gA==")
    assert ours == message["headers"]


@pytest.mark.parametrize("value", ["", "null", "naïve 漢字 🕰", "a\nb\x00c", "[/bold]"])
def test_text_arrives_as_it_was_sent(shared: Server, value: str) -> None:
    topic = f"text-{value.encode().hex()}"
    send(shared.url, topic, [value], delay="10ms")
    assert wait_delivered(shared, [value], topic) == [value]


@pytest.mark.parametrize("topic", ["größe", "漢字", "a b", "a%00b", "..", "x" * 250])
def test_an_invalid_topic_name_is_a_problem_that_names_what_is_valid(shared: Server, topic: str) -> None:
    quoted = topic.replace("..", "%2E%2E")
    answer = _post(shared, quoted, {"value": 1})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert "1 to 249 of a-z A-Z 0-9 . _ -" in answer.json()["detail"]


def test_a_key_keeps_the_order_of_what_is_due_in_order(shared: Server) -> None:
    messages = [{"key": "7", "value": str(n), "schedule": {"delay_ms": 100 + n}} for n in range(20)]
    _post(shared, "ordered", {"messages": messages})
    records = wait_for(lambda: list(read_topic(shared.url, "ordered")), lambda found: len(found) == 20)
    assert {record["partition"] for record in records} == {3}
    assert [record["value"] for record in records] == [str(n) for n in range(20)]


# --- operations


def test_a_cancelled_message_is_never_delivered_and_shows_as_cancelled(shared: Server) -> None:
    first, second = send(shared.url, "cancelled", ["never", "later"], delay="800ms")
    path = f"{shared.url}/v1/messages/{first['message_id']}"
    assert HTTP.delete(path).status_code == 204
    assert wait_delivered(shared, ["later"], "cancelled") == ["later"]
    assert HTTP.get(path).json()["outcome"]["state"] == "cancelled"
    assert HTTP.delete(path).status_code == 204
    late = HTTP.delete(f"{shared.url}/v1/messages/{second['message_id']}")
    assert (late.status_code, late.json()["outcome"]["state"]) == (409, "delivered")


def test_a_message_is_moved_twice_and_delivered_once(shared: Server) -> None:
    (sent,) = send(shared.url, "moved", ["x"], delay="1h")
    path = f"{shared.url}/v1/messages/{sent['message_id']}"
    moved = [HTTP.patch(path, json={"schedule": {"delay": delay}}).json() for delay in ("2h", "150ms")]
    assert wait_delivered(shared, ["x"], "moved") == ["x"]
    ended = wait_for(lambda: HTTP.get(path).json(), lambda found: found["outcome"] is not None)
    assert [answer["version"] for answer in moved] == [1, 2]
    assert ended["due_at"] == moved[1]["due_at"] > ended["accepted_at"]
    assert ended["outcome"]["lateness_ms"] >= 0


def test_a_message_can_be_had_now(shared: Server) -> None:
    (sent,) = send(shared.url, "now", ["x"], delay="1h")
    assert HTTP.post(f"{shared.url}/v1/messages/{sent['message_id']}:deliver").status_code == 204
    assert wait_delivered(shared, ["x"], "now") == ["x"]


@pytest.mark.parametrize("ask", ["get", "delete", "own", "list", "cancel"])
def test_the_first_delayed_message_of_a_topic_is_known_at_once(shared: Server, ask: str) -> None:
    """Its shards are being taken over then. Several topics: which of them are met in it is chance."""
    for number in range(8):
        topic = f"new-{ask}-{number}"
        (sent,) = send(shared.url, topic, ["x"], delay="1h")
        message = f"{shared.url}/v1/messages/{sent['message_id']}"
        match ask:
            case "get":
                assert HTTP.get(message).status_code == 200
            case "delete":
                assert HTTP.delete(message).status_code == 204
            case "own":
                assert HTTP.get(f"{shared.url}/v1/topics/{topic}/own/none").status_code == 404
            case "list":
                listed = HTTP.get(f"{shared.url}/v1/messages", params={"topic": topic}).json()
                assert (listed["complete"], len(listed["messages"])) == (True, 1)
            case "cancel":
                ended = HTTP.post(f"{shared.url}/v1/messages:cancel", json={"filter": {"topic": topic}}).json()
                assert (ended["complete"], ended["cancelled"]) == (True, 1)
