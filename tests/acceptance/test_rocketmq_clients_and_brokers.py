"""What RocketMQ's Java client and tools see through the proxy of replicas, and of a master that is killed and started
anew."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rocketmq.client.client import Client
from rocketmq.client.settings import ClientSettings
from tests.acceptance.asking import wait_for
from tests.acceptance.java_client import COMMIT, JavaClient, Thrown
from tests.acceptance.on_rocketmq import server_on
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import BROKER, RocketMq, jars, started
from tests.fault.server import Server
from tests.ports import free_range

pytestmark = pytest.mark.thorough

NATIVE: dict[str, Any] = {"properties": {}, "broker": BROKER, "queue": 0}


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMq]:
    try:
        with started(replicas=1, properties={"traceTopicEnable": "true"}) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


@pytest.fixture
def server(rocketmq: RocketMq, tmp_path: Path) -> Iterator[Server]:
    server = server_on(rocketmq, tmp_path / "data", proxy__rocketmq__port=str(free_range(12)))
    yield server
    server.kill()


def made(rocketmq: RocketMq) -> tuple[str, str]:
    """A topic, and a consumer group with its topic for retries."""
    topic, group = f"orders-{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
    with closing(Client(rocketmq.settings)) as client:
        client.admin.create_topic(topic, BROKER, 1)
        client.admin.create_group(group, BROKER)
        client.admin.create_topic(f"%RETRY%{group}", BROKER, 1)
    return topic, group


def test_what_was_sent_around_a_masters_end_is_delivered_once_and_the_replica_has_a_port_of_its_own(
    rocketmq: RocketMq, server: Server, tmp_path: Path
) -> None:
    """A send that failed may be stored; its client has not repeated it here."""
    (topic, group), port = made(rocketmq), int(server.settings["proxy__rocketmq__port"])
    with closing(Client(ClientSettings((f"127.0.0.1:{port}",)))) as through:
        (found,) = through.names.cluster()
        assert found.addresses == {0: f"127.0.0.1:{port + 4}", 1: f"127.0.0.1:{port + 5}"}
    java = JavaClient(f"127.0.0.1:{port}", tmp_path)
    sent: dict[str, bool] = {}

    def send(number: int) -> bool:
        """Whether it was acknowledged."""
        try:
            java.send(topic, b"%d" % number, delay_ms=2000, **NATIVE)
        except Thrown:
            return False
        return True

    with closing(java):
        for number in range(20):
            sent[str(number)] = send(number)
        rocketmq.broker.kill()
        sent["20"] = send(20)
        rocketmq.broker.start()
        rocketmq.wait_for(BROKER)
        for number in range(21, 40):
            sent[str(number)] = send(number)
        acknowledged = {body for body, is_acknowledged in sent.items() if is_acknowledged}
        assert len(acknowledged) >= 39
        with java.consuming(group, topic) as got:
            delivered = Counter(one.body.decode() for one in got(len(acknowledged)))
    assert acknowledged <= delivered.keys() <= sent.keys()
    assert set(delivered.values()) == {1}


def administered(rocketmq: RocketMq, folder: Path, port: int, *command: str) -> str:
    """What RocketMQ's own tool prints, with the proxy as its name server."""
    java = ["java", "-Xmx96m", f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", "-cp", f"{jars()}/*"]
    tool = [*java, "org.apache.rocketmq.tools.command.MQAdminStartup", *command, "-n", f"127.0.0.1:{port}"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tools_work_through_the_proxy(rocketmq: RocketMq, server: Server, tmp_path: Path) -> None:
    (topic, group), port = made(rocketmq), int(server.settings["proxy__rocketmq__port"])
    with closing(JavaClient(f"127.0.0.1:{port}", tmp_path)) as java:
        java.send(topic, b"seen", **NATIVE)
        with java.consuming(group, topic) as got:
            assert [one.body for one in got(1)] == [b"seen"]
            progress = partial(administered, rocketmq, tmp_path, port, "consumerProgress", "-g", group)
            assert topic in wait_for(progress, lambda shown: topic in shown, 100), "offsets are committed every 5 s"
    shown = administered(rocketmq, tmp_path, port, "clusterList")
    assert f"127.0.0.1:{port + 4}" in shown
    assert f"127.0.0.1:{rocketmq.broker.port}" not in shown
    assert topic in administered(rocketmq, tmp_path, port, "topicList")
    assert BROKER in administered(rocketmq, tmp_path, port, "topicStatus", "-t", topic)


def test_a_trace_has_the_clients_topic_and_each_act_of_producers_and_consumers(
    rocketmq: RocketMq, server: Server, tmp_path: Path
) -> None:
    (topic, group), port = made(rocketmq), int(server.settings["proxy__rocketmq__port"])
    begun, produced = ("SubBefore", "", True, group), ("Pub", topic, True, "producers")
    consumed = [begun, ("SubAfter", "", True, group)]
    with closing(JavaClient(f"127.0.0.1:{port}", tmp_path)) as java:
        java.trace()
        later = java.sent(topic, b"later", delay_sec=3600, **NATIVE)
        java.recall(topic, later["handle"])
        ended = java.transact(topic, b"t", group="transacting", outcome=COMMIT, properties={"delay": "500ms"})
        expected = {
            java.send(topic, b"timer", delay_ms=500, **NATIVE): [produced, *consumed],
            java.send(topic, b"level", level=1, **NATIVE): [produced, *consumed],
            later["msg_id"]: [produced, ("Recall", topic, True, "producers")],
            ended["msg_id"]: [
                ("EndTransaction", topic, True, "transacting"),
                ("Pub", topic, True, "transacting"),
                *consumed,
            ],
        }

        def traced() -> dict[str, list[tuple[Any, ...]]]:
            return {
                msg_id: sorted(
                    (one["type"], one["topic"], one["success"], one["group"]) for one in java.traced(msg_id)
                )
                for msg_id in expected
            }

        with java.consuming(group, topic) as got:
            delivered = {one.body: one for one in got(3)}
        wanted = {msg_id: sorted(acts) for msg_id, acts in expected.items()}
        assert wait_for(traced, lambda found: found == wanted, within_s=60) == wanted
    shown = administered(rocketmq, tmp_path, port, "queryMsgTraceById", "-i", delivered[b"timer"].msg_id)
    lines = [line.split() for line in shown.splitlines() if line.startswith(("Pub ", "Sub "))]
    assert [(line[0], line[1], line[-1]) for line in lines] == [
        ("Pub", "producers", "success"),
        ("Sub", group, "success"),
    ]
