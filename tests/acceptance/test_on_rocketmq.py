"""Messages over HTTP to a server on RocketMQ, seen by a plain consumer that pulls the target's queues."""

import base64
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from rocketmq.client.client import Client
from rocketmq.wire.bodies import Queue
from rocketmq.wire.stored import StoredMessage
from tests.acceptance.asking import HTTP, run, wait_for
from tests.acceptance.on_rocketmq import headers_of, send, server_on
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.fault.server import Server

QUEUES = 2
Pulled = Callable[[], list[StoredMessage]]


@pytest.fixture(scope="module")
def client(rocketmq: RocketMqAt) -> Iterator[Client]:
    with Client(rocketmq.settings) as made:
        yield made


@pytest.fixture(scope="module")
def server(rocketmq: RocketMqAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = server_on(rocketmq, tmp_path_factory.mktemp("on-rocketmq") / "data")
    yield server
    server.kill()


@pytest.fixture
def topic(client: Client) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    client.admin.create_topic(name, BROKER, QUEUES)
    return name


@pytest.fixture
def pulled(client: Client, topic: str) -> Pulled:
    """Everything in the target."""
    queues = [Queue(topic, BROKER, number) for number in range(QUEUES)]
    return lambda: [one for queue in queues for one in client.broker.pull(queue, 0).messages]


def state_of(server: Server, message: dict[str, Any]) -> str:
    answer = HTTP.get(f"{server.url}/v1/messages/{message['message_id']}", timeout=20)
    return str(answer.json().get("state"))


def wait_pending(server: Server, message: dict[str, Any]) -> None:
    wait_for(lambda: state_of(server, message), lambda state: state == "pending", within_s=30)


def arrived(pulled: Pulled, count: int = 1) -> list[StoredMessage]:
    return wait_for(pulled, lambda found: len(found) >= count, within_s=30)


def test_a_message_arrives_when_due_with_rocketmqs_own_key_tags_and_properties(
    server: Server, topic: str, pulled: Pulled
) -> None:
    headers = headers_of({name: name.lower() for name in ("TAGS", "UNIQ_KEY", "src")})
    sent = send(server, topic, key="42", value="hello", headers=headers, schedule={"delay": "1s"})
    (message,) = arrived(pulled)
    found = message.properties_map()
    assert message.body == b"hello"
    assert {name: found[name] for name in ("KEYS", "TAGS", "UNIQ_KEY", "src")} == {
        "KEYS": "42",
        "TAGS": "tags",
        "UNIQ_KEY": "uniq_key",
        "src": "src",
    }
    assert found["delayline-id"] == sent["message_id"]
    assert message.stored_ms >= int(found["delayline-due"])
    assert f"{BROKER}:{message.queue_id}" == sent["partition"]


def test_a_consumers_tag_finds_the_message(client: Client, server: Server, topic: str, pulled: Pulled) -> None:
    tags = headers_of({"TAGS": "wanted"})
    send(server, topic, value="other", partition=0, schedule={"delay": "1ms"})
    send(server, topic, value="this", partition=0, headers=tags, schedule={"delay": "1ms"})
    arrived(pulled, 2)
    found = client.broker.pull_later(Queue(topic, BROKER, 0), 0, expression="wanted").result().messages
    assert [one.body for one in found] == [b"this"]


def test_a_delay_of_rocketmqs_own_is_not_applied_a_second_time(server: Server, topic: str, pulled: Pulled) -> None:
    send(server, topic, value="x", headers=headers_of({"TIMER_OUT_MS": "1"}), schedule={"delay": "1ms"})
    (message,) = arrived(pulled)
    assert (message.topic, message.properties_map()["TIMER_OUT_MS"]) == (topic, "1")


def test_a_message_that_a_consumer_sends_on_has_nothing_of_the_first_delivery(
    server: Server, topic: str, pulled: Pulled
) -> None:
    send(server, topic, value="first", partition=0, headers=headers_of({"src": "web"}), schedule={"delay": "1ms"})
    (first,) = arrived(pulled)
    received = first.properties_map()
    assert {"delayline-step", "UNIQ_KEY"} < received.keys()
    sent = send(server, topic, value="on", partition=0, headers=headers_of(received), schedule={"delay": "1ms"})
    second = arrived(pulled, 2)[1].properties_map()
    assert second.keys() == received.keys()
    assert (second["src"], second["delayline-id"]) == ("web", sent["message_id"])
    assert second["UNIQ_KEY"] != received["UNIQ_KEY"]


def test_a_cancelled_message_does_not_arrive(server: Server, topic: str, pulled: Pulled) -> None:
    cancelled = send(server, topic, value="cancelled", partition=0, schedule={"delay": "3s"})
    wait_pending(server, cancelled)
    assert HTTP.delete(f"{server.url}/v1/messages/{cancelled['message_id']}", timeout=20).status_code == 204
    send(server, topic, value="after", partition=0, schedule={"deliver_at": cancelled["due_at"]})
    assert [one.body for one in arrived(pulled)] == [b"after"]
    assert state_of(server, cancelled) == "cancelled"


@pytest.mark.thorough  # each run has it on other queues, and a cancel here
def test_a_rescheduled_message_arrives_once_at_its_new_time(server: Server, topic: str, pulled: Pulled) -> None:
    message = send(server, topic, value="moved", schedule={"delay": "1h"})
    wait_pending(server, message)
    path = f"{server.url}/v1/messages/{message['message_id']}"
    moved = HTTP.patch(path, json={"schedule": {"delay": "500ms"}}, timeout=20)
    assert (moved.status_code, moved.json()["version"]) == (200, 1)
    assert [one.body for one in arrived(pulled)] == [b"moved"]


@pytest.mark.thorough  # each run has it on other queues, and a cancel here
def test_an_own_id_names_one_pending_message(server: Server, topic: str, pulled: Pulled) -> None:
    for value in ("first", "second"):
        send(server, topic, key="7", value=value, schedule={"delay": "2s", "own_id": "order-7"})
    assert [one.body for one in arrived(pulled)] == [b"first"]


@pytest.mark.thorough  # each run has it on other queues, and a cancel here
def test_a_repeat_arrives_again_and_again(server: Server, topic: str, pulled: Pulled) -> None:
    send(server, topic, value="tick", schedule={"every": "1s", "times": 3})
    found = arrived(pulled, 3)
    assert [one.body for one in found] == [b"tick"] * 3
    assert len({one.properties_map()["delayline-id"] for one in found}) == 3


def test_headers_that_properties_cannot_hold_are_read_back_over_http(server: Server, topic: str) -> None:
    raw = base64.b64encode(b"\xff\x00").decode()
    send(
        server,
        topic,
        value="x",
        partition=0,
        headers=[{"name": "raw", "value_base64": raw}],
        schedule={"delay": "1ms"},
    )

    def records() -> list[dict[str, Any]]:
        where = {"partition": 0, "offset": 0, "limit": 10}
        return list(HTTP.get(f"{server.url}/v1/topics/{topic}/records", params=where).json().get("records", []))

    (record,) = wait_for(records, lambda found: len(found) == 1, within_s=30)
    assert {"name": "raw", "value": None, "value_base64": raw} in record["headers"]


def test_what_cannot_be_understood_is_a_dead_letter_with_its_key_and_tags(
    client: Client, server: Server, topic: str, pulled: Pulled
) -> None:
    """Over HTTP it would have been refused; a client that writes into the buffer is not asked."""
    send(server, topic, value="first", partition=0, schedule={"delay": "1ms"})
    arrived(pulled)
    namespace = server.settings["namespace"]
    queue = Queue(f"{namespace}%buffer%{topic}", BROKER, 0)
    client.broker.send(queue, b"spoilt", {"KEYS": "42", "TAGS": "t", "delay": "soon"})

    def dead() -> list[StoredMessage]:
        queues = [Queue(f"{namespace}%dead", BROKER, number) for number in range(4)]
        letters = [one for queue in queues for one in client.broker.pull(queue, 0).messages]
        return [one for one in letters if one.properties_map().get("delayline-topic") == topic]

    (letter,) = wait_for(dead, lambda found: len(found) == 1, within_s=30)
    found = letter.properties_map()
    assert (letter.body, found["KEYS"], found["TAGS"]) == (b"spoilt", "42", "t")
    assert len(pulled()) == 1


@pytest.mark.thorough  # each run has its findings in units
def test_the_doctor_examines_brokers_and_what_waits(server: Server, topic: str) -> None:
    send(server, topic, value="x", schedule={"delay": "1h"})
    settings = {name: value for name, value in server.settings.items() if name.startswith(("mq__", "namespace"))}
    ran = run("doctor", "--json", delay__topics=topic, store__disk_free_min="1MiB", **settings)
    found = {one["check"]: one for one in json.loads(ran.out)["findings"]}
    assert found["queue"]["level"] == "ok"
    assert found[BROKER]["detail"] == "it keeps records for 72 h"
    assert not [check for check in found if check.startswith(topic)]


def test_topics_of_others_are_never_made(server: Server) -> None:
    answer = HTTP.post(f"{server.url}/v1/topics/orders-none/messages", json={"value": "x"}, timeout=20)
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/topic-unknown")


@pytest.mark.parametrize("byte", [b"x", b"\xff"], ids=["text", "no text"])
def test_the_largest_headers_that_are_accepted_are_delivered_also_after_a_move(
    server: Server, topic: str, pulled: Pulled, byte: bytes
) -> None:
    """The worker's own headers come on top: they were not counted, and the message was a dead letter without content,
    or the commit of its move failed for ever."""

    def sent(size: int, delay: str) -> httpx.Response:
        header = {"name": "h", "value_base64": base64.b64encode(byte * size).decode()}
        message = {"value": "1", "headers": [header], "schedule": {"delay": delay}}
        return HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json=message, timeout=20)

    refused = bisect_left(range(40_000), True, key=lambda size: sent(size, "1h").status_code == 413)
    assert 10_000 < refused < 32_000
    messages = [sent(refused - 1, delay).json() for delay in ("1s", "1h")]
    moved = HTTP.patch(
        f"{server.url}/v1/messages/{messages[1]['message_id']}", json={"schedule": {"delay": "1s"}}, timeout=20
    )
    assert moved.status_code in (200, 202), moved.text
    found = {one.properties_map()["delayline-id"] for one in arrived(pulled, 2)}
    assert found == {one["message_id"] for one in messages}


@pytest.mark.thorough  # every run has it on Kafka and on the embedded queue
def test_a_purge_is_undone_once(server: Server, topic: str, pulled: Pulled) -> None:
    sent = [send(server, topic, value=str(number), key=str(number), schedule={"delay": "8s"}) for number in range(20)]
    for message in sent:
        wait_pending(server, message)
    purged = HTTP.post(f"{server.url}/v1/topics/{topic}:purge", timeout=30).json()
    path = f"{server.url}/v1/topics/{topic}:undo"
    answers = [HTTP.post(path, params={"id": purged["undo"]["id"]}, timeout=60).json() for _ in range(2)]
    came = wait_for(pulled, lambda found: len(found) >= 20, within_s=40)
    assert purged["cancelled"] == 20
    assert [(answer["restored"], answer["restored_before"]) for answer in answers] == [(20, 0), (0, 20)]
    assert sorted(int(one.body) for one in came) == list(range(20))
