"""The services of docker-compose.yml at work, without containers."""

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.acceptance.asking import HTTP, wait_for
from tests.acceptance.on_kafka import PARTITIONS, make_topic
from tests.conftest import started
from tests.deploy.compose import FILES, read_compose
from tests.deploy.processes import (
    DELAY_MS,
    Running,
    check_delayed_messages_arrive,
    check_reconcile_accounts_for,
    health_of_broker,
    running_services,
)
from tests.integration.proxy.conftest import consumed

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka


pytestmark = pytest.mark.thorough
KAFKA = read_compose(FILES["kafka"])["services"]["kafka"]


ELSEWHERE = re.compile(r"LISTENERS?$|LISTENER_SECURITY|QUORUM|NODE_ID|LOG_DIRS|PROCESS_ROLES|CONTROLLER_|HEAP_OPTS")
"""Variables of the broker for its address and folder, which are others here, and its size."""


def broker_properties() -> dict[str, str]:
    """The other ones, as properties; the image makes them so, too."""
    variables = KAFKA["environment"].items()
    given = {name: value for name, value in variables if name.startswith("KAFKA_") and not ELSEWHERE.search(name)}
    return {name.removeprefix("KAFKA_").lower().replace("_", "."): value for name, value in given.items()}


@pytest.fixture(scope="module")
def broker() -> "Iterator[Kafka]":
    """The service `kafka`."""
    from tests.brokers.kafka import Kafka

    with started(lambda: Kafka(properties=broker_properties())) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def running(broker: "Kafka", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    hosts = {"kafka:9092": broker.bootstrap_servers}
    with running_services("kafka", hosts, tmp_path_factory.mktemp("compose")) as running:
        yield running


@pytest.fixture
def topic(broker: "Kafka") -> str:
    name = f"orders-{uuid4().hex[:8]}"
    make_topic(broker, name)
    return name


def test_the_health_check_of_the_broker_hears_whether_it_listens(broker: "Kafka") -> None:
    _, *command = KAFKA["healthcheck"]["test"]
    assert health_of_broker(command, broker.nodes[0].port) == [0, 1]


def test_a_delayed_message_goes_in_over_http_and_arrives(running: Running, topic: str) -> None:
    check_delayed_messages_arrive(running, topic, PARTITIONS)


def test_one_process_asks_another_about_a_message(running: Running, topic: str) -> None:
    url = running.url("api")
    body = {"value": "x", "schedule": {"delay": "1h"}}
    message_id = HTTP.post(f"{url}/v1/topics/{topic}/messages", json=body, timeout=20).json()["message_id"]

    def state() -> str | None:
        return HTTP.get(f"{url}/v1/messages/{message_id}", timeout=20).json().get("state")

    assert wait_for(state, lambda found: found == "pending") == "pending"


def test_a_delayed_record_of_a_kafka_client_goes_through_the_proxy_and_arrives(running: Running, topic: str) -> None:
    from confluent_kafka import Producer

    servers = f"127.0.0.1:{running.bootstrap_port}"
    sent_ms = time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, value=b"now")
    producer.produce(topic, value=b"later", headers=[("delay-ms", b"%d" % DELAY_MS)])
    assert producer.flush(20) == 0
    found = {one.value(): one for one in consumed(servers, topic, 2, 30)}
    assert set(found) == {b"now", b"later"}
    assert found[b"later"].timestamp()[1] >= sent_ms + DELAY_MS


def test_the_reconcile_job_accounts_for_what_went_through(running: Running, topic: str) -> None:
    check_reconcile_accounts_for(running, topic)
