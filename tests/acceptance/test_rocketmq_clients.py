"""RocketMQ's own Java client, unmodified, through the proxy: only the name server's address is another."""

import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rocketmq.client.client import Client
from rocketmq.client.connection import connect
from rocketmq.clock import MachineClock
from rocketmq.wire.bodies import Queue
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.send import SendMessageV2
from rocketmq.wire.properties import encode_properties
from tests.acceptance.asking import HTTP, wait_for
from tests.acceptance.java_client import JavaClient, Thrown, by_body, java_client
from tests.acceptance.on_rocketmq import new_group, new_topic, server_for, server_on
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.fault.server import Server
from tests.ports import free_range

NATIVE: dict[str, Any] = {"keys": "k1", "tags": "a", "properties": {"src": "web"}, "broker": BROKER, "queue": 0}
DAY_MS = 86_400_000
LATER = {"delay_sec": 3600}

MakeGroup = Callable[[], str]


@pytest.fixture(scope="module")
def client(rocketmq: RocketMqAt) -> Iterator[Client]:
    with Client(rocketmq.settings) as made:
        yield made


@pytest.fixture(scope="module")
def server(rocketmq: RocketMqAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    port = str(free_range(12))
    folder = tmp_path_factory.mktemp("clients") / "data"
    server = server_on(
        rocketmq, folder, proxy__rocketmq__port=port, proxy__rocketmq__brokers_max="1", delay__horizon_max="40d"
    )
    yield server
    server.kill()


@pytest.fixture(scope="module")
def java(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with java_client(
        f"127.0.0.1:{server.settings['proxy__rocketmq__port']}", tmp_path_factory.mktemp("java")
    ) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """Of one queue, or as many as the parameter of the test names."""
    return new_topic(client, getattr(request, "param", 1))


@pytest.fixture
def group(client: Client) -> MakeGroup:
    return partial(new_group, client)


def waiting(server: Server, topic: str) -> int:
    answer = HTTP.get(f"{server.url}/v1/messages", params={"topic": topic}, timeout=20)
    return len(answer.raise_for_status().json()["messages"])


def test_serve_is_ready_when_its_proxy_listens_for_each_broker(rocketmq: RocketMqAt, tmp_path: Path) -> None:
    port = free_range(12)
    proxied = {"proxy__rocketmq__port": str(port), "proxy__rocketmq__brokers_max": "1"}
    server = server_for(rocketmq, tmp_path / "data", **proxied)
    with ExitStack() as stack, socket.socket() as other:
        stack.callback(server.kill)
        other.bind(("127.0.0.1", port + 4))
        other.listen()
        server.start()

        def answered() -> tuple[int, str]:
            answer = HTTP.get(f"{server.url}/readyz", timeout=20)
            return answer.status_code, answer.json().get("detail", "")

        def waits_for_it(answer: tuple[int, str]) -> bool:
            return answer[0] == 503 and f"port {port + 4} on 127.0.0.1 is in use" in answer[1]

        server.wait_alive()
        assert waits_for_it(wait_for(answered, waits_for_it, within_s=30))
        other.close()
        server.wait_ready()


def test_every_way_to_ask_for_a_delay_delays_and_delivers_what_was_sent(
    java: JavaClient, topic: str, group: MakeGroup
) -> None:
    java.send(topic, b"first", **NATIVE | {"tags": "c"})  # it takes the client a while to begin
    sent_ms = round(time.time() * 1000)
    ways: dict[str, dict[str, Any]] = {
        "at": {"deliver_ms": sent_ms + 3000},
        "plain": {},
        "level": {"level": 1},
        "ms": {"delay_ms": 700},
        "s": {"delay_sec": 1},
        "past": {"deliver_ms": sent_ms - 1500},
        "async": {"delay_ms": 800, "how": "async"},
        "one-way": {"delay_ms": 900, "how": "one-way"},
        "ours": {"properties": {"src": "web", "delay": "600ms"}},
        "flag": {"delay_ms": 500, "flag": 9},
    }
    due_ms = {"level": 1000, "ms": 700, "s": 1000, "at": 3000, "async": 800, "one-way": 900, "ours": 600, "flag": 500}
    answers = {way: java.sent(topic, way.encode(), **NATIVE | how) for way, how in ways.items()}
    with java.consuming(group(), topic, tags="a || b") as got:
        found = by_body(got(len(ways)))
    assert found.keys() == ways.keys()
    for way, one in found.items():
        assert (one.topic, one.queue, one.flag, one.sys_flag) == (topic, 0, 9 if way == "flag" else 0, 0)
        assert [one.properties[name] for name in ("KEYS", "TAGS", "src")] == ["k1", "a", "web"]
        assert one.stored_ms >= sent_ms + due_ms.get(way, 0), way
        if way != "one-way":
            assert (
                answers[way] | {"msg_id": one.msg_id, "status": "SEND_OK", "queue": 0, "broker": BROKER}
                == answers[way]
            )
            assert answers[way]["transaction_id"] == one.msg_id == one.properties["UNIQ_KEY"]
            assert bool(answers[way].get("handle")) == (way in due_ms), way
    assert found["level"].properties["DELAY"] == "1"
    assert found["ms"].properties["TIMER_DELAY_MS"] == "700"


@pytest.mark.thorough  # another JVM
def test_what_waits_when_a_client_moves_and_when_it_moves_back_is_delivered(
    rocketmq: RocketMqAt, java: JavaClient, server: Server, topic: str, group: MakeGroup, tmp_path: Path
) -> None:
    with java_client(rocketmq.settings.name_servers[0], tmp_path) as direct:
        sent = {
            "level of the broker's": direct.sent(topic, b"level of the broker's", level=2, **NATIVE),
            "timer of the broker's": direct.sent(topic, b"timer of the broker's", delay_sec=5, **NATIVE),
            "moved": java.sent(topic, b"moved", level=2, **NATIVE),
            "moved back": direct.sent(topic, b"moved back", delay_sec=3, **NATIVE),
        }
        assert waiting(server, topic) == 1
        handle = direct.sent(topic, b"recalled", delay_sec=4, **NATIVE)["handle"]
        java.recall(topic, handle)
        with direct.consuming(group(), topic) as got:
            found = by_body(got(len(sent)))
    assert {body: one.msg_id for body, one in found.items()} == {body: one["msg_id"] for body, one in sent.items()}


@pytest.mark.thorough  # each run has the flags in units
def test_a_body_that_the_client_has_compressed_stays_compressed(
    java: JavaClient, client: Client, topic: str, group: MakeGroup
) -> None:
    body = b"all the same " * 1000
    java.send(topic, body, delay_ms=300, **NATIVE)
    with java.consuming(group(), topic) as got:
        (found,) = got(1)
    assert found.body == body
    (stored,) = client.broker.pull(Queue(topic, BROKER, 0), 0).messages
    assert (stored.sys_flag & 1, zlib.decompress(stored.body)) == (1, body)


def test_delays_beyond_three_days_are_taken_up_to_our_horizon(java: JavaClient, server: Server, topic: str) -> None:
    java.send(topic, b"in 39 days", delay_ms=39 * DAY_MS, **NATIVE)
    assert wait_for(lambda: waiting(server, topic), lambda count: count == 1) == 1
    with pytest.raises(Thrown, match=r"CODE: 13.*max delay 3456000000ms"):
        java.send(topic, b"in 41 days", delay_ms=41 * DAY_MS, **NATIVE)
    with pytest.raises(Thrown, match="CODE: 13"):
        java.send(topic, b"soon", **NATIVE | {"properties": {"delay": "soon"}})


def test_a_recall_cancels_for_good_and_is_refused_when_it_is_too_late(
    java: JavaClient, server: Server, topic: str, group: MakeGroup
) -> None:
    kept = java.sent(topic, b"kept", delay_ms=1500, **NATIVE)
    recalled = {
        way: java.sent(topic, way.encode(), **NATIVE | how) for way, how in (("level", {"level": 18}), ("ms", LATER))
    }
    for one in recalled.values():
        assert java.recall(topic, one["handle"]) == one["msg_id"]
        assert java.recall(topic, one["handle"]) == one["msg_id"], "again"
    with java.consuming(group(), topic) as got:
        assert [one.body for one in got(1)] == [b"kept"]
    assert waiting(server, topic) == 0
    with pytest.raises(Thrown, match="CODE: 604"):
        java.recall(topic, kept["handle"])


def is_recalled(java: JavaClient, topic: str, sent: dict[str, Any]) -> bool:
    """What was due at once has no handle."""
    if "handle" not in sent:
        return False
    try:
        java.recall(topic, sent["handle"])
    except Thrown as refused:
        if "CODE: 604" not in str(refused):
            raise
        return False
    return True


@pytest.mark.thorough  # each run has one that is early and one too late
def test_a_recall_at_the_edge_is_ok_exactly_where_the_message_never_comes(
    java: JavaClient, topic: str, group: MakeGroup
) -> None:
    recalled, count = set(), 30
    for number in range(count):
        sent = java.sent(topic, b"%d" % number, delay_ms=3 * number, **NATIVE)
        if is_recalled(java, topic, sent):
            recalled.add(str(number))
    java.send(topic, b"last", delay_ms=1000, **NATIVE)
    with java.consuming(group(), topic) as got:
        found = by_body(got(count - len(recalled) + 1))
    assert found.keys() == {str(number) for number in range(count)} - recalled | {"last"}
    print(f"{len(recalled)} of {count} recalled")


def test_members_of_a_batch_have_their_own_delays(java: JavaClient, topic: str, group: MakeGroup) -> None:
    """Java's client refuses RocketMQ's own there, and knows nothing of ours."""
    java.send(topic, b"later", batch=True, **NATIVE | {"properties": {"src": "web", "delay-ms": "700"}})
    java.send(topic, b"at once", batch=True, **NATIVE)
    with java.consuming(group(), topic) as got:
        assert [one.body for one in got(2)] == [b"at once", b"later"]


@pytest.mark.thorough  # each run has a consumer through it
def test_consumers_get_all_through_the_proxy_in_order_and_their_failures_again(
    java: JavaClient, topic: str, group: MakeGroup
) -> None:
    for number in range(20):
        java.send(topic, b"%d" % number, **NATIVE | ({"delay_ms": 400} if number % 2 else {}))
    with java.consuming(group(), topic, orderly=True) as got:
        in_order = [int(one.body) for one in got(20)]
    assert in_order == [*range(0, 20, 2), *range(1, 20, 2)]
    with java.consuming(group(), topic, failures=1) as got:
        attempts = got(40)
    assert sorted(int(one.body) for one in attempts if one.reconsume_times) == list(range(20))


@pytest.mark.thorough  # each run has a filter by tags
def test_filters_broadcasts_and_pop_work_through_the_proxy(
    java: JavaClient, server: Server, topic: str, group: MakeGroup
) -> None:
    for number in range(4):
        java.send(topic, b"%d" % number, **NATIVE | {"delay_ms": 200, "properties": {"amount": str(number)}})
    everything = [b"0", b"1", b"2", b"3"]
    with java.consuming(group(), topic, sql="amount BETWEEN 1 AND 2") as got:
        assert [one.body for one in got(2)] == [b"1", b"2"]
    cast = group()
    with ExitStack() as stack:
        for got in [stack.enter_context(java.consuming(cast, topic, broadcasting=True)) for _ in range(2)]:
            assert sorted(found.body for found in got(4)) == everything
    broker = f"127.0.0.1:{int(server.settings['proxy__rocketmq__port']) + 4}"
    with java.consuming(group(), topic, pop=broker) as got:
        assert sorted(found.body for found in got(4)) == everything


def test_the_vip_channel_takes_delays_too(rocketmq: RocketMqAt, server: Server, topic: str) -> None:
    """Two below the broker's port, for clients and servers alike."""
    port = int(server.settings["proxy__rocketmq__port"]) + 2
    header = SendMessageV2("p", topic, 0, 0, 5, 0, encode_properties({"DELAY": "18"}))
    with closing(connect(f"127.0.0.1:{port}", rocketmq.settings, MachineClock())) as connection:
        answer = connection.ask(Command(Request.SEND_MESSAGE_V2, header.to_fields(), b"x"))
    assert (answer.code, "recallHandle" in answer.fields) == (0, True)
    assert wait_for(lambda: waiting(server, topic), lambda count: count == 1) == 1


def test_the_proxys_metrics_count_what_it_took(server: Server, java: JavaClient, topic: str) -> None:
    java.send(topic, b"x", **NATIVE | LATER)
    metrics = HTTP.get(f"{server.url}/metrics", timeout=20).text
    assert f'delayline_messages_accepted_total{{topic="{topic}",via="rocketmq"}} 1.0' in metrics
    assert "delayline_rocketmq_proxy_connections" in metrics
