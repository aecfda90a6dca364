"""Consumer groups on a Kafka that send back what they fail with: the program on the page, and a killed worker."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.acceptance.asking import HTTP, numbers, send, wait_for
from tests.acceptance.conftest import MakeServer
from tests.acceptance.test_on_kafka import PARTITIONS, make_topic, settings_of
from tests.fault.server import ROOT, Server, read_topic
from tests.ports import free_range

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

NODES_MAX = 2
COUNT = 400
LEVELS = "100ms 200ms 300ms 600ms 1h"


def program() -> str:
    """The one program on the page."""
    page = (ROOT / "docs" / "howto" / "retry.md").read_text()
    (found,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return str(found)


class Setup:
    """A topic, a server whose proxy takes records for it, and the settings of both."""

    def __init__(self, kafka: "KafkaAt", make_server: MakeServer) -> None:
        self.topic = f"orders-{uuid4().hex[:8]}"
        make_topic(kafka, self.topic)
        self.proxy_port = free_range(NODES_MAX + 1)
        self.settings = {
            **settings_of(kafka),
            "delay__levels": LEVELS,
            "retry__attempts_max": "2",
            "proxy__kafka__port": str(self.proxy_port),
            "proxy__kafka__node_id_base": "1",
            "proxy__kafka__nodes_max": str(NODES_MAX),
        }
        self.namespace = self.settings["namespace"]
        self.server = make_server(**self.settings)
        self.server.start()
        self.server.wait_ready()

    def of_group(self, kind: str, group: str = "billing") -> list[dict[str, Any]]:
        """What stands in the group's topic; nothing where there is none."""
        topic = f"{self.namespace}.{kind}.{group}"
        if HTTP.get(f"{self.server.url}/v1/topics/{topic}/records").status_code == 404:
            return []
        return list(read_topic(self.server.url, topic, PARTITIONS))


@pytest.fixture
def setup(kafka: "KafkaAt", make_server: MakeServer) -> Setup:
    return Setup(kafka, make_server)


@pytest.fixture
def billing(setup: Setup, tmp_path: Path) -> Iterator[Path]:
    """The program, running; what it prints."""
    path, log = tmp_path / "billing.py", tmp_path / "billing.log"
    path.write_text(program())
    with log.open("wb") as out:
        arguments = [f"127.0.0.1:{setup.proxy_port}", setup.topic, setup.namespace]
        running = subprocess.Popen([sys.executable, str(path), *arguments], stdout=out, stderr=out)
        yield log
        running.kill()
        running.wait()


@pytest.mark.thorough
def test_the_consumer_on_the_page_is_given_again_what_it_fails_with(setup: Setup, billing: Path) -> None:
    good, bad = json.dumps({"amount": 5}), json.dumps({"amount": -1})
    messages = [{"value": value, "key": "k"} for value in (good, bad)]
    sent = HTTP.post(f"{setup.server.url}/v1/topics/{setup.topic}/messages", json={"messages": messages})
    assert sent.status_code == 201
    (dead,) = wait_for(lambda: setup.of_group("dlq"), lambda found: len(found) > 0, within_s=60) or [{}]
    headers = {header["name"]: header["value"] for header in dead.get("headers", [])}
    assert (dead.get("value"), dead.get("key")) == (bad, "k"), billing.read_text()
    assert (headers["delayline-attempt"], headers["delayline-topic"]) == ("2", setup.topic)
    lines = [line.split(" {")[0] for line in billing.read_text().splitlines()]
    assert sorted(lines) == ["charged", "failed", "failed", "failed"]
    attempts = [{h["name"]: h["value"] for h in record["headers"]} for record in setup.of_group("retry")]
    assert sorted(each["delayline-attempt"] for each in attempts) == ["1", "2"]


def test_a_killed_worker_gives_a_group_nothing_twice(setup: Setup, make_server: MakeServer) -> None:
    expected = numbers(COUNT)
    send(setup.server.url, setup.topic, expected[: COUNT // 2], retry="billing")
    send(setup.server.url, setup.topic, expected[COUNT // 2 :], retry="billing")
    wait_for(lambda: len(setup.of_group("retry")), lambda count: count > 0)
    setup.server.kill()
    setup.server = revived(setup, make_server)
    values = wait_for(
        lambda: sorted(record["value"] for record in setup.of_group("retry")), lambda found: len(found) >= COUNT
    )
    assert values == expected
    assert list(read_topic(setup.server.url, setup.topic, PARTITIONS)) == []


def revived(setup: Setup, make_server: MakeServer) -> Server:
    server = make_server("second", **setup.settings)
    server.start()
    server.wait_ready()
    return server
