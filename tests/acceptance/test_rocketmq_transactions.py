"""Transactions of RocketMQ's Java client through the proxy, with delays and without. Their broker is one of its own:
behind transactions it spins until it is started again."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rocketmq.client.client import Client
from rocketmq.client.connection import BrokerConnection, connect
from rocketmq.clock import MachineClock
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from rocketmq.wire.ids import decode_message_id
from rocketmq.wire.properties import encode_properties
from rocketmq.wire.stored import SysFlag, TransactionState
from tests.acceptance.asking import wait_for
from tests.acceptance.java_client import COMMIT, ROLLBACK, UNKNOWN, JavaClient, Seen, Thrown, by_body, java_client
from tests.acceptance.on_rocketmq import new_group, new_topic, server_on
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import BROKER, QUICK_CHECKS, RocketMq, started
from tests.fault.server import Server
from tests.ports import free_range

pytestmark = pytest.mark.thorough

LARGE = b"all the same " * 1000
"""Java's client compresses it."""
OF_TRANSACTIONS = {"PGROUP", "TRAN_MSG", "__transactionId__", "TRANSACTION_CHECK_TIMES"}
OF_ALL = {"UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON", "CONSUME_START_TIME", "MIN_OFFSET", "MAX_OFFSET"}
"""Properties that clients and brokers add."""


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMq]:
    try:
        with started(properties=QUICK_CHECKS) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


@pytest.fixture(scope="module")
def client(rocketmq: RocketMq) -> Iterator[Client]:
    with Client(rocketmq.settings) as made:
        yield made


@pytest.fixture(scope="module")
def server(rocketmq: RocketMq, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("transactions") / "data"
    port = str(free_range(12))
    server = server_on(rocketmq, folder, proxy__rocketmq__port=port, proxy__rocketmq__brokers_max="1")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def java(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with another(server, tmp_path_factory.mktemp("java")) as client:
        yield client


def another(server: Server, folder: Path) -> Any:
    return java_client(f"127.0.0.1:{server.settings['proxy__rocketmq__port']}", folder)


@pytest.fixture
def topic(client: Client) -> str:
    return new_topic(client, 1)


@pytest.fixture
def group() -> str:
    """Of producers."""
    return f"transacting-{uuid4().hex[:8]}"


def delivered(java: JavaClient, client: Client, topic: str, count: int) -> dict[str, Seen]:
    """So many, each once, and behind them nothing that a rollback would have had to keep back."""
    java.send(topic, b"last", properties={"delay": "2s"}, broker=BROKER, queue=0)
    with java.consuming(new_group(client), topic) as got:
        found = by_body(got(count + 1))
    assert found.pop("last").topic == topic
    assert len(found) == count
    return found


def test_a_transactional_message_is_delivered_when_its_commit_is_as_old_as_its_delay_or_never(
    java: JavaClient, client: Client, topic: str, group: str
) -> None:
    transact = partial(java.transact, topic, group=group)
    sent_ms = round(time.time() * 1000)
    delayed: dict[str, Any] = {"keys": "k1", "tags": "a", "flag": 9, "properties": {"delay": "1500ms", "src": "web"}}
    answer = transact(b"committed", outcome=COMMIT, **delayed)
    assert (answer["status"], answer["transaction_id"], answer.get("handle")) == ("SEND_OK", answer["msg_id"], None)
    transact(b"at once", outcome=COMMIT, **delayed | {"properties": {"src": "web"}})
    transact(b"rolled back", outcome=ROLLBACK, **delayed)
    unknown = transact(LARGE, outcome=UNKNOWN, check=COMMIT, **delayed)

    (check,) = java.checked(group, 1)
    assert (check.topic, check.queue, check.body, check.flag) == (topic, 0, LARGE, 9)
    as_sent = {"KEYS": "k1", "TAGS": "a", "src": "web", "delay": "1500ms", "UNIQ_KEY": unknown["transaction_id"]}
    assert check.properties.items() >= as_sent.items()
    assert "delayline" not in str(check.properties)

    found = delivered(java, client, topic, 3)
    committed, at_once, late = found["committed"], found["at once"], found[LARGE.decode()]
    assert committed.stored_ms >= sent_ms + 1500
    assert late.stored_ms >= check.seen_ms + 1500, "counted from the commit, which follows the check"
    assert (late.body, late.flag, committed.flag) == (LARGE, 9, 9)
    for one in found.values():
        ours = {name for name in one.properties if name.startswith("delayline-")}
        rest = {name: one.properties[name] for name in one.properties.keys() - OF_TRANSACTIONS - OF_ALL - ours}
        assert rest == {"KEYS": "k1", "TAGS": "a", "src": "web"}
        assert one.properties["__transactionId__"] == one.properties["UNIQ_KEY"] == one.msg_id
        assert one.properties["PGROUP"] == group
    assert committed.properties.keys() >= at_once.properties.keys()


def test_another_producer_of_the_group_is_asked_where_the_first_is_gone(
    java: JavaClient, server: Server, client: Client, topic: str, group: str, tmp_path: Path
) -> None:
    with another(server, tmp_path) as first:
        first.transact(topic, b"orphan", group=group, outcome=UNKNOWN, check=UNKNOWN, properties={"delay": "500ms"})
        first.transact(topic, b"another", group=group, outcome=UNKNOWN, check=UNKNOWN, properties={"delay": "500ms"})
    java.transact(topic, b"of the other", group=group, outcome=COMMIT, check=COMMIT)
    assert {one.topic for one in java.checked(group, 2)} == {topic}
    assert delivered(java, client, topic, 3).keys() == {"orphan", "another", "of the other"}


def restarted(server: Server, java: JavaClient, other: str, group: str) -> None:
    """Killed before. Its proxy's ports are there a moment after the rest: both producers reach another topic."""
    server.start()
    server.wait_ready()
    for reach in (
        partial(java.transact, other, b"x", group=group, outcome=ROLLBACK),
        partial(java.send, other, b"x", properties={}, broker=BROKER, queue=0),
    ):
        assert wait_for(partial(is_done, reach), bool)


def is_done(reach: Callable[[], object]) -> bool:
    try:
        reach()
    except Thrown:
        return False
    return True


def test_a_transaction_outlives_proxy_and_worker(
    rocketmq: RocketMq, client: Client, topic: str, group: str, tmp_path: Path
) -> None:
    """Killed between half message and commit, and between commit and delivery."""
    other = new_topic(client, 1)
    port = str(free_range(12))
    server = server_on(rocketmq, tmp_path / "data", proxy__rocketmq__port=port, proxy__rocketmq__brokers_max="1")
    try:
        with another(server, tmp_path) as java:
            delay = {"properties": {"delay": "6s"}}
            java.transact(topic, b"first", group=group, outcome=UNKNOWN, check=UNKNOWN, **delay)
            server.kill()
            restarted(server, java, other, group)
            java.transact(topic, b"second", group=group, outcome=COMMIT, check=COMMIT, **delay)
            java.checked(group, 1)
            server.kill()
            restarted(server, java, other, group)
            found = delivered(java, client, topic, 2)
        assert found.keys() == {"first", "second"}
    finally:
        server.kill()


def test_other_clients_may_ask_for_rocketmqs_own_delays(
    rocketmq: RocketMq, server: Server, java: JavaClient, client: Client, topic: str
) -> None:
    """Java's refuses them in transactions; they are read from the wire."""
    port = int(server.settings["proxy__rocketmq__port"]) + 4
    at_ms = round(time.time() * 1000)
    ways = {"level": {"DELAY": "1"}, "ms": {"TIMER_DELAY_MS": "900"}, "at": {"TIMER_DELIVER_MS": str(at_ms + 2000)}}
    with closing(connect(f"127.0.0.1:{port}", rocketmq.settings, MachineClock())) as connection:
        for name, delay in ways.items():
            place = half(connection, topic, name.encode(), delay)
            end(connection, topic, place, TransactionState.COMMITTED)
        end(connection, topic, half(connection, topic, b"back", {"DELAY": "1"}), TransactionState.ROLLED_BACK)
    found = delivered(java, client, topic, 3)
    due_ms = {"level": 1000, "ms": 900, "at": 2000}
    for name, one in found.items():
        assert one.stored_ms >= at_ms + due_ms[name], name
        assert not {"DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"} & one.properties.keys()


def half(connection: BrokerConnection, topic: str, body: bytes, delay: dict[str, str]) -> SendMessageAnswer:
    text = encode_properties({"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": uuid4().hex, **delay})
    header = SendMessageV2("p", topic, 0, int(SysFlag.PREPARED), round(time.time() * 1000), 0, text)
    answer = connection.ask(Command(Request.SEND_MESSAGE_V2, header.to_fields(), body))
    assert answer.code == 0, answer
    return SendMessageAnswer.from_fields(answer.fields)


def end(connection: BrokerConnection, topic: str, place: SendMessageAnswer, outcome: TransactionState) -> None:
    """A broker finds the half message by its place, from the answer to it."""
    fields = {
        "topic": topic,
        "producerGroup": "p",
        "tranStateTableOffset": str(place.queue_offset),
        "commitLogOffset": str(decode_message_id(place.msg_id).offset),
        "commitOrRollback": str(int(outcome)),
        "msgId": str(place.transaction_id),
        "transactionId": str(place.transaction_id),
    }
    answer = connection.ask(Command(Request.END_TRANSACTION, fields))
    assert answer.code == 0, answer
