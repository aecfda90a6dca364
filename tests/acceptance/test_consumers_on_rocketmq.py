"""What RocketMQ's own Java client sees of messages that were sent over HTTP, beside those of its own producer."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from rocketmq.client.client import Client
from rocketmq.wire.batch import member
from rocketmq.wire.bodies import Queue
from tests.acceptance.asking import HTTP, wait_for
from tests.acceptance.java_client import JavaClient, by_body, java_client
from tests.acceptance.on_rocketmq import headers_of, new_group, new_topic, send, server_on
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.fault.server import Server

USERS = {"KEYS": "k1", "TAGS": "a", "src": "web"}
NATIVE: dict[str, Any] = {"keys": "k1", "tags": "a", "properties": {"src": "web"}, "broker": BROKER, "queue": 0}
OVER_HTTP: dict[str, Any] = {"key": "k1", "headers": headers_of({"TAGS": "a", "src": "web"})}
"""The same message, by Java's producer and by ours."""
OF_PULL = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}
"""Java's client adds them where it pulls."""
OF_BROKER = {"CLUSTER", "MSG_REGION", "TRACE_ON"}
"""Brokers add them to what comes by itself, and not to members of a batch."""
REAL = {"REAL_TOPIC", "REAL_QID"}
TIMER = {"TIMER_DELAY_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}
OURS = {"delayline-id", "delayline-due", "delayline-accepted", "delayline-step"}

MakeGroup = Callable[[], str]


@pytest.fixture(scope="module")
def client(rocketmq: RocketMqAt) -> Iterator[Client]:
    with Client(rocketmq.settings) as made:
        yield made


@pytest.fixture(scope="module")
def server(rocketmq: RocketMqAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = server_on(rocketmq, tmp_path_factory.mktemp("consumers") / "data")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def java(rocketmq: RocketMqAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with java_client(rocketmq.settings.name_servers[0], tmp_path_factory.mktemp("java")) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """Of one queue, or as many as the parameter of the test names."""
    return new_topic(client, getattr(request, "param", 1))


@pytest.fixture
def group(client: Client) -> MakeGroup:
    return partial(new_group, client)


def test_messages_have_what_those_of_javas_own_producer_have(
    java: JavaClient, server: Server, topic: str, group: MakeGroup
) -> None:
    """All differences, by name; docs/rocketmq.md has the reasons."""
    java.send(topic, b"timer", delay_ms=1000, **NATIVE)
    java.send(topic, b"level", level=1, **NATIVE)
    java.send(topic, b"in a batch", batch=True, **NATIVE)
    delayed = send(server, topic, value="delayed", schedule={"delay": "1s"}, **OVER_HTTP)
    send(server, topic, value="at once", **OVER_HTTP)
    with java.consuming(group(), topic) as got:
        found = by_body(got(5))
    assert {body: one.properties.keys() - USERS.keys() - OF_PULL for body, one in found.items()} == {
        "timer": {"UNIQ_KEY", "WAIT", *OF_BROKER, *REAL, *TIMER},
        "level": {"UNIQ_KEY", "WAIT", *OF_BROKER, *REAL, "DELAY"},
        "in a batch": {"UNIQ_KEY", "WAIT"},
        "delayed": {"UNIQ_KEY", "MSG_REGION", *OURS},
        "at once": {"UNIQ_KEY", "MSG_REGION"},
    }
    for one in found.values():
        assert {name: one.properties[name] for name in USERS} == USERS
        assert (one.topic, one.queue, one.flag, one.sys_flag, one.reconsume_times) == (topic, 0, 0, 0, 0)
        assert one.msg_id == one.properties["UNIQ_KEY"]
        assert one.born_ms <= one.stored_ms
    assert len({one.msg_id for one in found.values()}) == 5
    ours, timer = found["delayed"], found["timer"]
    assert ours.properties["delayline-id"] == delayed["message_id"]
    # Born when it is delivered; RocketMQ's own when it was sent.
    assert ours.born_ms >= int(ours.properties["delayline-due"])
    assert timer.born_ms < int(timer.properties["TIMER_OUT_MS"])


@pytest.mark.thorough  # each run has that they are indexed, with ids
def test_tools_find_messages_by_key_and_by_id(java: JavaClient, server: Server, topic: str, group: MakeGroup) -> None:
    key = uuid4().hex
    send(server, topic, key=key, value="delayed", schedule={"delay": "1ms"})
    send(server, topic, key=key, value="at once")
    with java.consuming(group(), topic) as got:
        found = by_body(got(2))
    assert by_body(java.find(topic, key)).keys() == {"delayed", "at once"}
    for body, one in found.items():
        assert java.view(topic, one.msg_id).body == body.encode()


@pytest.mark.thorough  # each run has a filter by a tag, without Java
def test_filters_of_tags_and_sql_take_the_messages_that_they_name(
    java: JavaClient, server: Server, topic: str, group: MakeGroup
) -> None:
    sent: list[dict[str, str]] = [
        {"TAGS": "a", "amount": "1"},
        {"TAGS": "b", "amount": "3"},
        {"TAGS": "a", "amount": "3"},
        {"TAGS": "c", "amount": "3"},
        {"amount": "3"},
        {"TAGS": "c", "region": "eu"},
        {"TAGS": "A", "amount": "3"},
        {"TAGS": "a", "amount": "4"},  # both take the last one, and so have passed over those before it
    ]
    for number, properties in enumerate(sent):
        send(server, topic, value=str(number), headers=headers_of(properties), schedule={"delay": "1ms"})
    with java.consuming(group(), topic, tags="a || b") as got:
        assert [one.body for one in got(4)] == [b"0", b"1", b"2", b"7"]
    sql = "TAGS = 'a' AND amount BETWEEN 2 AND 4 OR region IS NOT NULL"
    with java.consuming(group(), topic, sql=sql) as got:
        assert [one.body for one in got(3)] == [b"2", b"5", b"7"]


@pytest.mark.thorough  # each run has the order in the queue, without Java
def test_an_orderly_consumer_gets_them_by_due_time_and_each_before_the_next(
    java: JavaClient, server: Server, topic: str, group: MakeGroup
) -> None:
    base_ms, later = round(time.time() * 1000) + 1500, [500, 100, 400, 200, 300]
    messages = [{"value": f"{ms}", "schedule": {"deliver_at": base_ms + ms}} for ms in later]
    answer = HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json={"messages": messages}, timeout=20)
    assert answer.status_code == 201, answer.text
    with java.consuming(group(), topic, orderly=True, failures=1) as got:
        found = [(int(one.body), one.reconsume_times) for one in got(10)]
    assert found == [(ms, attempt) for ms in sorted(later) for attempt in (0, 1)]


@pytest.mark.thorough  # how a client shares queues; each run has that the messages are there
@pytest.mark.parametrize("topic", [4], indirect=True)
def test_each_consumer_of_a_broadcast_gets_all_and_one_of_a_group_gets_each(
    java: JavaClient, server: Server, topic: str, group: MakeGroup
) -> None:
    cast, shared, expected = group(), group(), {str(number) for number in range(20)}
    with ExitStack() as stack:
        how = [(cast, True), (cast, True), (shared, False), (shared, False)]
        got = [stack.enter_context(java.consuming(name, topic, broadcasting=each)) for name, each in how]
        for number in range(20):
            send(server, topic, value=str(number), partition=number % 4, schedule={"delay": "1ms"})
        assert by_body(got[0](20)).keys() == by_body(got[1](20)).keys() == expected
        shares = wait_for(lambda: [*got[2](0), *got[3](0)], lambda found: len(found) >= 20)
        assert by_body(shares).keys() == expected


@pytest.mark.thorough  # each run has the id, which all attempts share
def test_a_message_that_a_group_fails_with_comes_again_and_ends_among_its_dead(
    java: JavaClient, server: Server, topic: str, group: MakeGroup
) -> None:
    failing = group()
    java.send(topic, b"own", delay_ms=1000, **NATIVE)
    send(server, topic, value="ours", schedule={"delay": "1s"}, **OVER_HTTP)
    with java.consuming(failing, topic, failures=9, retries=2) as got:
        attempts = got(6)
        with java.consuming(group(), f"%DLQ%{failing}") as got_dead:
            attempts += got_dead(2)
    for body in (b"own", b"ours"):
        found = [one for one in attempts if one.body == body]
        assert [one.reconsume_times for one in found] == [0, 1, 2, 3]
        assert len({one.msg_id for one in found}) == 1
        assert {one.properties["RETRY_TOPIC"] for one in found[1:]} == {topic}
        kept = USERS.keys() | (OURS if body == b"ours" else set())
        assert all(one.properties[name] == found[0].properties[name] for one in found for name in kept)


@pytest.mark.thorough  # each run has the properties that keep a broker from it
def test_delays_of_rocketmqs_own_among_the_properties_delay_nothing_again(
    java: JavaClient, client: Client, server: Server, topic: str, group: MakeGroup
) -> None:
    """Half an hour each: neither what is delivered, nor what a group then puts among its dead at once."""
    failing = group()
    in_half_an_hour = str(round(time.time() * 1000) + 1_800_000)
    timers = {"TIMER_DELAY_SEC": "1800", "TIMER_DELAY_MS": "1800000", "TIMER_DELIVER_MS": in_half_an_hour}
    for name, value in timers.items():
        send(server, topic, value=name, headers=headers_of({name: value}), schedule={"delay": "1ms"})
    # Over HTTP this one is refused, as a name like a directive's.
    buffer = Queue(f"{server.settings['namespace']}%buffer%{topic}", BROKER, 0)
    client.broker.send_batch(buffer, [member(b"DELAY", {"delay": "1ms", "DELAY": "16"})])
    expected = timers | {"DELAY": "16"}
    with java.consuming(failing, topic, failures=9, retries=0) as got:
        found = by_body(got(4))
        assert {name: found[name].properties[name] for name in expected} == expected
        with java.consuming(group(), f"%DLQ%{failing}") as got_dead:
            assert by_body(got_dead(4)).keys() == expected.keys()


@pytest.mark.thorough  # half a minute: brokers look at times for what was popped and not acknowledged
def test_what_was_popped_and_failed_comes_again_with_its_id_and_without_another_delay(
    java: JavaClient, client: Client, server: Server, topic: str, group: MakeGroup
) -> None:
    """RocketMQ's clients for gRPC consume like this. `DELAY` is not among them: of such a message, also of RocketMQ's
    own, a broker delays the second attempt by it."""
    send(server, topic, value="plain", schedule={"delay": "1ms"})
    send(server, topic, value="timer", headers=headers_of({"TIMER_DELAY_SEC": "1800"}), schedule={"delay": "1ms"})
    with java.consuming(group(), topic, failures=1, pop=client.admin.brokers()[BROKER]) as got:
        attempts = got(4)
    for body in (b"plain", b"timer"):
        found = [one for one in attempts if one.body == body]
        assert [one.reconsume_times for one in found] == [0, 1]
        assert len({one.msg_id for one in found}) == 1
