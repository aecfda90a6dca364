"""What other people's clients of RocketMQ do through the proxy: `make foreign-clients`.

Where a client differs from the others it is named here, and in the table of docs/rocketmq-clients.md.
"""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketmq.client.client import Client
from tests.acceptance.asking import wait_for
from tests.acceptance.on_rocketmq import new_group, server_on
from tests.brokers.rocketmq import BROKER
from tests.conftest import required
from tests.fault.server import Server, read_topic
from tests.foreign.rocketmq.programs import GRPC, REMOTING, grpc_proxy
from tests.foreign.test_foreign import output_of
from tests.ports import free_port, free_range

if TYPE_CHECKING:
    from tests.brokers.rocketmq import RocketMq

pytestmark = pytest.mark.foreign

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy" / "rocketmq" / "grpc" / "rmq-proxy.json"
LOGBACK = ROOT / "tests" / "brokers" / "rocketmq-logback.xml"
COUNT = 50
QUEUES = 4
REPORTS_NO_ROUTE = {"C++ 2.1 (Python)"}
"""It reports whatever a broker refuses as `No route info of this topic`."""
NO_PUSH = {"Python 5.1"}
"""Its push consumer gets nothing from RocketMQ's proxy 5.5, with Delayline or without."""


@dataclass(frozen=True)
class Installation:
    """A broker, a server with a worker and the proxy, and RocketMQ's own proxy for gRPC whose name server it is."""

    client: Client
    server: Server
    names: str
    grpc: str

    def topic(self, message_type: str = "") -> str:
        name = f"orders-{os.urandom(4).hex()}"
        self.client.admin.create_topic(name, BROKER, QUEUES, message_type=message_type)
        return name

    def group(self) -> str:
        return new_group(self.client)

    def at(self, kind: str) -> str:
        return self.names if kind == "remoting" else self.grpc

    def late_ms(self, topic: str) -> list[float]:
        """By how much the topic's delayed messages were stored there after they were due."""
        return [
            1000 * datetime.fromisoformat(record["timestamp"]).timestamp() - int(header["value"])
            for record in read_topic(self.server.url, topic)
            for header in record["headers"]
            if header["name"] == "delayline-due"
        ]


@pytest.fixture(scope="module")
def installation(rocketmq: "RocketMq", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("foreign rocketmq")  # a path with a space
        port = free_range(12)
        settings = {"proxy__rocketmq__port": str(port), "proxy__rocketmq__brokers_max": "1"}
        server = server_on(rocketmq, folder / "data", **settings)
        stack.callback(server.kill)
        names = f"127.0.0.1:{port}"
        grpc = stack.enter_context(grpc_before(names, folder / "grpc"))
        yield Installation(stack.enter_context(Client(rocketmq.settings)), server, names, grpc)


@contextmanager
def grpc_before(names: str, home: Path) -> Iterator[str]:
    """RocketMQ's own proxy with the file of deploy/, at ports of its own."""
    config, port = home / "conf" / "rmq-proxy.json", free_port()
    config.parent.mkdir(parents=True)
    given = {"namesrvAddr": names, "grpcServerPort": port, "remotingListenPort": free_port()}
    config.write_text(json.dumps(json.loads(CONFIG.read_text()) | given))
    shutil.copy(LOGBACK, home / "conf" / "rmq.proxy.logback.xml")
    log = home / "proxy.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            made("gRPC", lambda: grpc_proxy(config, LOGBACK)),
            stdout=out,
            stderr=out,
            env={**os.environ, "ROCKETMQ_HOME": str(home), "RMQ_PROXY_HOME": str(home)},
        )
    try:
        assert wait_for(lambda: b"startup successfully" in log.read_bytes(), bool, within_s=120)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def made(name: str, program: Callable[[], Sequence[str]]) -> list[str]:
    with required(name):
        return list(program())


@pytest.fixture(params=[("remoting", name) for name in REMOTING] + [("grpc", name) for name in GRPC], ids=str)
def program(request: pytest.FixtureRequest) -> tuple[str, str, list[str]]:
    kind, name = request.param
    return kind, name, made(name, {"remoting": REMOTING, "grpc": GRPC}[kind][name])


@pytest.fixture(params=GRPC)
def grpc_program(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    return str(request.param), made(request.param, GRPC[request.param])


def words_of(command: list[str], *arguments: str, word: str) -> list[str]:
    return [words[1] for words in output_of(command, *arguments) if words[0] == word]


def values_read(command: list[str], mode: str, server: str, topic: str, group: str, count: int) -> Counter[str]:
    return Counter(words[3] for words in output_of(command, mode, server, topic, group, str(count)) if len(words) > 3)


def test_what_is_sent_is_delivered_once_and_read(
    installation: Installation, program: tuple[str, str, list[str]]
) -> None:
    kind, name, command = program
    topic, server = installation.topic("DELAY" if kind == "grpc" else ""), installation.at(kind)
    assert words_of(command, "produce", server, topic, str(COUNT), word="acked") == [str(n) for n in range(COUNT)]
    mode = "simple" if name in NO_PUSH else "consume"
    read = values_read(command, mode, server, topic, installation.group(), COUNT)
    assert read == Counter(str(n) for n in range(COUNT))
    late_ms = installation.late_ms(topic)
    assert len(late_ms) >= COUNT // 5 * 3
    assert min(late_ms) >= 0


def test_a_wrong_directive_fails_its_message_and_not_the_next(
    installation: Installation, program: tuple[str, str, list[str]]
) -> None:
    kind, name, command = program
    first, second = output_of(command, "refused", installation.at(kind), installation.topic())[:2]
    assert first[0] == "failed"
    assert re.search("No route" if name in REPORTS_NO_ROUTE else "delay: expected a duration", first[2])
    assert second[:2] == ["acked", "1"]


def test_what_is_recalled_over_grpc_is_not_delivered(
    installation: Installation, grpc_program: tuple[str, list[str]]
) -> None:
    _, command = grpc_program
    topic = installation.topic("DELAY")
    assert words_of(command, "recall", installation.grpc, topic, word="recalled") == ["0"]
    read = values_read(command, "simple", installation.grpc, topic, installation.group(), 1)
    assert read == Counter(["1"])
