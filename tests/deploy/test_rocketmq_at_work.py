"""The services of deploy/rocketmq/docker-compose.yml at work, without containers."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.acceptance.asking import wait_for
from tests.conftest import started
from tests.deploy.compose import FILES, broker_conf, read_compose
from tests.deploy.processes import (
    DELAY_MS,
    Running,
    check_delayed_messages_arrive,
    check_reconcile_accounts_for,
    health_of_broker,
    running_services,
)
from tests.fault.server import ROOT, read_topic

if TYPE_CHECKING:
    from tests.brokers.rocketmq import RocketMq

SERVICES = read_compose(FILES["rocketmq"])["services"]
PAGE = (ROOT / "docs" / "deploy.md").read_text()
LOGBACK = f"-Drmq.logback.configurationFile={FILES['rocketmq'].parent}/logback.xml"
QUEUES = 4
MOVED = {"brokerIP1": "localhost"}
"""A name as in the file, which is resolved here as the other one is in a container."""
ELSEWHERE = ("namesrvAddr", "listenPort", "storePathRootDir", "storePathCommitLog")


@pytest.fixture(scope="module")
def broker() -> "Iterator[RocketMq]":
    """The services `nameserver` and `broker`, on other ports and in another folder."""
    from tests.brokers.rocketmq import RocketMq

    properties = {key: value for key, value in broker_conf().items() if key not in ELSEWHERE}
    with started(lambda: RocketMq(properties=properties | MOVED)) as rocketmq:
        yield rocketmq


@pytest.fixture(scope="module")
def running(broker: "RocketMq", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    hosts = {"nameserver:9876": broker.settings.name_servers[0]}
    with running_services("rocketmq", hosts, tmp_path_factory.mktemp("rocketmq")) as running:
        yield running


@pytest.fixture
def topic(broker: "RocketMq") -> str:
    from rocketmq.client.client import Client

    name = f"orders-{uuid4().hex[:8]}"
    with Client(broker.settings) as client:
        client.admin.create_topic(name, broker_conf()["brokerName"], QUEUES)
    return name


@pytest.mark.thorough
def test_the_tool_makes_a_topic_by_the_command_of_the_page(broker: "RocketMq", tmp_path: Path) -> None:
    from rocketmq.client.client import Client
    from tests.brokers.rocketmq import jars

    moved = {"../lib/*": f"{jars()}/*", "-Drmq.logback.configurationFile=/etc/rocketmq/logback.xml": LOGBACK}
    (words,) = re.findall(r"^docker compose run --rm mqadmin (updateTopic .*)$", PAGE, re.MULTILINE)
    command = [*(moved.get(one, one) for one in SERVICES["mqadmin"]["entrypoint"]), *words.split()]
    environ = {**os.environ, "NAMESRV_ADDR": broker.settings.name_servers[0], "ROCKETMQ_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    with Client(broker.settings) as client:
        assert len(client.names.route("orders").writable_queues("orders")) == QUEUES


def test_a_delayed_message_goes_in_over_http_and_arrives(running: Running, topic: str) -> None:
    check_delayed_messages_arrive(running, topic, QUEUES)


def test_a_delayed_message_of_a_rocketmq_client_goes_through_the_proxy_and_arrives(
    running: Running, topic: str
) -> None:
    from rocketmq.client.client import Client
    from rocketmq.client.settings import ClientSettings

    with Client(ClientSettings((f"127.0.0.1:{running.bootstrap_port}",))) as client:
        queue = client.names.route(topic).writable_queues(topic)[0]
        client.broker.send(queue, b"later", {"TIMER_DELAY_MS": str(DELAY_MS)})
    (record,) = wait_for(lambda: list(read_topic(running.url("api"), topic, QUEUES)), bool)
    headers = {one["name"]: one["value"] for one in record["headers"]}
    assert record["value"] == "later"
    assert datetime.fromisoformat(record["timestamp"]).timestamp() * 1000 >= int(headers["delayline-due"])


def test_the_broker_runs_with_what_its_file_sets(broker: "RocketMq") -> None:
    """A name that RocketMQ does not know it passes over."""
    from rocketmq.client.client import Client

    with Client(broker.settings) as client:
        in_force = client.admin.configuration(broker_conf()["brokerName"])
    wanted = {key: value for key, value in (broker_conf() | MOVED).items() if key not in ELSEWHERE}
    assert {key: in_force.get(key) for key in wanted} == wanted
    assert set(ELSEWHERE) <= set(in_force)


@pytest.mark.thorough
def test_the_doctor_finds_nothing_to_do_for_the_broker(running: Running) -> None:
    ran = running.run_in("api", "doctor", "--json")
    found = {one["check"]: one["level"] for one in json.loads(ran.stdout)["findings"]}
    assert found[broker_conf()["brokerName"]] == "ok"
    assert {check for check, level in found.items() if level != "ok"} == {"api.auth"}, "a network restricts access"


@pytest.mark.thorough
def test_the_reconcile_job_accounts_for_what_went_through(running: Running, topic: str) -> None:
    check_reconcile_accounts_for(running, topic)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["nameserver", "broker"])
def test_the_health_check_of_a_server_hears_whether_it_listens(broker: "RocketMq", name: str) -> None:
    _, *command = SERVICES[name]["healthcheck"]["test"]
    server = {"nameserver": broker.name_server, "broker": broker.broker}[name]
    assert health_of_broker(command, server.port) == [0, 1]
