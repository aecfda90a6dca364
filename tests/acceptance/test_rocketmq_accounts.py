"""RocketMQ's Java client with an account, through the proxy to brokers that check accounts (ACL 2.0): what it may not
do at the broker it may not do by a delay."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from rocketmq.client.client import Client
from rocketmq.client.connection import connect
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import MachineClock
from rocketmq.wire.acl import AclCredentials
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.send import RecallMessage, SendMessageV2
from rocketmq.wire.properties import encode_properties
from tests.acceptance.java_client import COMMIT, UNKNOWN, JavaClient, by_body, java_client
from tests.acceptance.on_rocketmq import new_group, new_topic, server_on
from tests.brokers import rocketmq_accounts
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import BROKER, QUICK_CHECKS, RocketMq
from tests.fault.server import Server
from tests.ports import free_range

pytestmark = pytest.mark.thorough

OWN = AclCredentials("delayline", "own-secret-1")
CLIENT = AclCredentials("orders-service", "client-secret-1")
OTHER = AclCredentials("mails-service", "other-secret-1")
STRANGER = AclCredentials("unknown", "client-secret-1")
WRONG = CLIENT._replace(secret_key="guess")
LATER = {"TIMER_DELAY_SEC": "3600"}


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMq]:
    try:
        with rocketmq_accounts.guarded(**QUICK_CHECKS) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


@pytest.fixture(scope="module")
def topic(rocketmq: RocketMq) -> str:
    with closing(Client(rocketmq.settings)) as client:
        return new_topic(client, 1)


@pytest.fixture(scope="module")
def group(rocketmq: RocketMq, topic: str) -> str:
    """The client's, which has its rights."""
    with closing(Client(rocketmq.settings)) as client:
        name = new_group(client)
    rights = {f"Topic:{topic}": ["All"], f"Group:{name}": ["All"]}
    rocketmq_accounts.create_account(rocketmq, CLIENT, rights | {"Topic:RMQ_SYS_TRANS_HALF_TOPIC": ["Pub"]})
    rocketmq_accounts.create_account(rocketmq, OTHER, {"Topic:mails": ["Pub"]})
    return name


@pytest.fixture(scope="module")
def server(rocketmq: RocketMq, topic: str, group: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    namespace, folder = f"ns{uuid4().hex[:8]}", tmp_path_factory.mktemp("accounts")
    rights = rocketmq_accounts.rights_of_delayline(namespace, topic)
    rocketmq_accounts.create_account(rocketmq, OWN, rights)
    (folder / "secret").write_text(f"{CLIENT.secret_key}\n")
    accounts = [
        {"access_key": CLIENT.access_key, "secret_key": {"file": str(folder / "secret")}, "topics": ["orders-*"]},
        {"access_key": OTHER.access_key, "secret_key": OTHER.secret_key, "topics": ["mails"]},
    ]
    server = server_on(
        rocketmq,
        folder / "data",
        namespace=namespace,
        delay__topics=topic,
        mq__properties=json.dumps({"access_key": OWN.access_key, "secret_key": OWN.secret_key}),
        proxy__rocketmq__port=str(free_range(12)),
        proxy__rocketmq__brokers_max="1",
        proxy__rocketmq__account=json.dumps(accounts),
    )
    yield server
    log = server.log.read_text(errors="replace")
    server.kill()
    assert not re.search(r"(own|client|other)-secret", log)


@pytest.fixture(scope="module")
def java(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    names = f"127.0.0.1:{server.settings['proxy__rocketmq__port']}"
    with java_client(names, tmp_path_factory.mktemp("java"), CLIENT) as client:
        yield client


def test_a_client_that_signs_does_by_the_proxy_what_it_may(java: JavaClient, topic: str, group: str) -> None:
    where: dict[str, Any] = {"properties": {}, "broker": BROKER, "queue": 0}
    java.send(topic, b"plain", **where)
    java.send(topic, b"delayed", delay_ms=700, **where)
    java.send(topic, b"in a batch", batch=True, **where | {"properties": {"delay": "600ms"}})
    recalled = java.sent(topic, b"recalled", delay_ms=2500, **where)
    assert java.recall(topic, recalled["handle"]) == recalled["msg_id"]
    delay: dict[str, Any] = {"properties": {"delay": "500ms"}}
    java.transact(topic, b"committed", group="transacting", outcome=COMMIT, **delay)
    java.transact(topic, b"checked", group="transacting", outcome=UNKNOWN, check=COMMIT, **delay)
    assert [one.topic for one in java.checked("transacting", 1)] == [topic]
    java.send(topic, b"last", delay_ms=3000, **where)
    with java.consuming(group, topic) as got:
        found = by_body(got(6))
    assert found.keys() == {"plain", "delayed", "in a batch", "committed", "checked", "last"}


def asked(rocketmq: RocketMq, port: int, account: AclCredentials | None, request: Command) -> tuple[int, str]:
    """Code and remark."""
    settings = ClientSettings(rocketmq.settings.name_servers, account)
    with closing(connect(f"127.0.0.1:{port}", settings, MachineClock())) as connection:
        answer = connection.ask(request)
        return answer.code, answer.remark


def send(topic: str, properties: dict[str, str]) -> Command:
    text = encode_properties({"UNIQ_KEY": uuid4().hex, **properties})
    return Command(Request.SEND_MESSAGE_V2, SendMessageV2("p", topic, 0, 0, 5, 0, text).to_fields(), b"x")


@pytest.mark.parametrize("account", [None, STRANGER, WRONG, OTHER])
def test_the_proxy_refuses_a_delay_as_the_broker_refuses_a_message(
    rocketmq: RocketMq, server: Server, java: JavaClient, topic: str, account: AclCredentials | None
) -> None:
    port = int(server.settings["proxy__rocketmq__port"]) + 4
    code, remark = asked(rocketmq, port, account, send(topic, LATER))
    by_broker, its_remark = asked(rocketmq, rocketmq.broker.port, account, send(topic, {}))
    assert code == by_broker == 16
    assert re.split(r" from | among |, no ", remark.rstrip("."))[0] in its_remark
    assert asked(rocketmq, port, account, send(topic, {}))[0] == 16, "without a delay, by the broker"
    sent = java.sent(topic, b"later", delay_sec=3600, properties={}, broker=BROKER, queue=0)
    fields = RecallMessage(topic, sent["handle"], "p", BROKER).to_fields()
    assert asked(rocketmq, port, account, Command(Request.RECALL_MESSAGE, fields))[0] == 16
    assert asked(rocketmq, port, CLIENT, Command(Request.RECALL_MESSAGE, fields))[0] == 0, "it waits"
