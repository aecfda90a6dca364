"""The services of docker-compose.yml at work, without containers: the file's commands and variables as processes."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.acceptance.asking import HTTP, wait_for
from tests.acceptance.on_kafka import PARTITIONS, make_topic
from tests.conftest import started
from tests.deploy.compose import delayline_services, is_serving, read_compose
from tests.fault.server import environment, read_topic
from tests.integration.proxy.conftest import consumed
from tests.ports import free_port, free_range

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka


pytestmark = pytest.mark.thorough
FILLED = {"DELAYLINE_INTERNAL__SECRET": "sixteen letters!"}
KAFKA = read_compose(FILLED)["services"]["kafka"]
DELAY_MS = 1500
RUN_WITHIN_S = 400.0
RECORDS_MAX = 1000
HOUR_MS = 3_600_000


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


class Running:
    """The services of ours as processes: the file's commands and variables, with other hosts, ports and folders."""

    def __init__(self, broker: "Kafka", folder: Path, stack: ExitStack) -> None:
        self.namespace = f"ns{uuid4().hex[:8]}"
        self.services = delayline_services(read_compose({**FILLED, "DELAYLINE_NAMESPACE": self.namespace}))
        self.ports = {name: free_port() for name in self.services}
        self.bootstrap_port = free_range(2)
        self.servers = broker.bootstrap_servers
        self._hosts = {"kafka:9092": self.servers, **dict.fromkeys(self.services, "127.0.0.1")}
        self.folder = folder
        self._stack = stack

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def environment(self, name: str) -> dict[str, str]:
        given = {key: self._hosts.get(value, value) for key, value in self.services[name]["environment"].items()}
        port = {"api": "API__PORT", "proxy": "PROXY__KAFKA__METRICS_PORT"}.get(name, "WORKER__PORT")
        moved = {
            f"DELAYLINE_{port}": str(self.ports[name]),
            "DELAYLINE_DATA_DIR": str(self.folder / name / "data"),
            "DELAYLINE_DELAY__DISCOVERY_INTERVAL": "200ms",
            "DELAYLINE_AUDIT__LOW_WATER_INTERVAL": "500ms",
        }
        if name == "proxy":
            moved["DELAYLINE_PROXY__KAFKA__PORT"] = str(self.bootstrap_port)
        return environment(**{**given, **moved})

    def start(self, name: str) -> None:
        from tests.brokers.guarded import Guarded

        process = Guarded(self.folder / f"{name}.log")
        self._stack.callback(process.wait, 20)
        self._stack.callback(process.signal, SIGTERM)
        process.start([sys.executable, "-m", "delayline", *self.services[name]["command"]], self.environment(name))

    def run(self, name: str) -> "subprocess.CompletedProcess[str]":
        """One that is run once: `docker compose run`."""
        volume = str(self.volume(name))
        command = [one.replace("/var/lib/delayline", volume) for one in self.services[name]["command"]]
        environ = {key: one.replace("/var/lib/delayline", volume) for key, one in self.environment(name).items()}
        return subprocess.run(
            [sys.executable, "-m", "delayline", *command],
            env=environ,
            capture_output=True,
            text=True,
            timeout=RUN_WITHIN_S,
        )

    def volume(self, name: str) -> Path:
        return self.folder / name

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def healthy(self, name: str) -> bool:
        """The result of the file's own health check, asked of the other port."""
        _, program, *arguments = self.services[name]["healthcheck"]["test"]
        assert program == "python"
        moved = [re.sub(r"(http://127\.0\.0\.1):\d+", rf"\1:{self.ports[name]}", one) for one in arguments]
        return subprocess.run([sys.executable, *moved], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def running(broker: "Kafka", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        running = Running(broker, tmp_path_factory.mktemp("compose"), stack)
        assert not running.healthy("api"), "nobody listens yet"
        serving = [name for name, one in running.services.items() if is_serving(one)]
        for name in serving:
            running.start(name)
        for name in serving:
            assert wait_for(lambda name=name: running.healthy(name), bool), (
                running.folder / f"{name}.log"
            ).read_text()
        yield running


@pytest.fixture
def topic(broker: "Kafka") -> str:
    name = f"orders-{uuid4().hex[:8]}"
    make_topic(broker, name)
    return name


def test_the_health_check_of_the_broker_hears_whether_it_listens(broker: "Kafka") -> None:
    _, *command = KAFKA["healthcheck"]["test"]
    own = [one.replace("/9092", f"/{broker.nodes[0].port}") for one in command]
    nobodys = [one.replace("/9092", f"/{free_port()}") for one in command]
    assert own != command
    assert [subprocess.run(one, capture_output=True).returncode for one in (own, nobodys)] == [0, 1]


def test_a_delayed_message_goes_in_over_http_and_arrives(running: Running, topic: str) -> None:
    url = running.url("api")
    messages = [{"value": f"{n}", "key": f"{n}", "schedule": {"delay_ms": DELAY_MS}} for n in range(8)]
    answer = HTTP.post(f"{url}/v1/topics/{topic}/messages", json={"messages": messages}, timeout=20)
    assert answer.status_code == 201, answer.text
    sent = [result["message"] for result in answer.json()["results"]]
    assert {message["partition"] for message in sent} == set(range(PARTITIONS))
    found = wait_for(lambda: list(read_topic(url, topic, PARTITIONS)), lambda records: len(records) >= 8)
    assert sorted(record["value"] for record in found) == [f"{n}" for n in range(8)]
    assert wait_for(lambda: delivered_by_workers(running, topic), lambda count: count >= 8) == 8


def delivered_by_workers(running: Running, topic: str) -> float:
    line = rf'^delayline_messages_finished_total{{outcome="delivered",topic="{topic}"}} (\S+)$'
    pages = [HTTP.get(f"{running.url(name)}/metrics").text for name in ("worker-1", "worker-2")]
    return sum(float(count) for page in pages for count in re.findall(line, page, re.MULTILINE))


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
    now_ms = time.time_ns() // 1_000_000
    schedules = [
        {"delay": "1h"},
        {"deliver_at": now_ms - HOUR_MS},
    ]  # the one that waits holds the other in the buffer
    messages = [{"value": "x", "partition": 0, "schedule": schedule} for schedule in schedules]
    url = running.url("api")
    answer = HTTP.post(f"{url}/v1/topics/{topic}/messages", json={"messages": messages}, timeout=20)
    _, late = (result["message"]["message_id"] for result in answer.json()["results"])
    assert wait_for(lambda: marked(running, topic), bool)
    done = running.run("reconcile")
    assert done.returncode == 2, done.stdout + done.stderr
    ledger = running.volume("reconcile") / "ledger"
    (found,) = (one for one in json.loads((ledger / "summary.json").read_bytes())["topics"] if one["topic"] == topic)
    counts = [found["ledger"][name] for name in ("accepted", "delivered", "pending")]
    assert (found["state"], counts, found["findings"]) == ("judged", [2, 1, 1], {"late": 1})
    assert late in (ledger / "report.html").read_text()


def marked(running: Running, topic: str) -> bool:
    """Whether by the audit all of the topic's partition 0 has been read, and one message waits: what is not
    reported yet the job leaves to its next run."""
    marks = [mark for key, mark in audit(running) if key == f"{topic}.0" and mark["kind"] == "low_water"]
    return any(mark["next"] >= 2 and mark["pending"] == 1 for mark in marks)


def audit(running: Running) -> list[tuple[str, dict[str, Any]]]:
    """Key and value of all its records."""
    from confluent_kafka import Consumer, TopicPartition

    name = f"{running.namespace}.audit"
    settings = {"bootstrap.servers": running.servers, "group.id": "nobody", "isolation.level": "read_committed"}
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        partitions = consumer.list_topics(name, 10).topics[name].partitions
        consumer.assign([TopicPartition(name, partition, 0) for partition in partitions])
        records = consumer.consume(RECORDS_MAX, 2.0)
    return [((one.key() or b"").decode(), json.loads(one.value() or b"")) for one in records if one.error() is None]
