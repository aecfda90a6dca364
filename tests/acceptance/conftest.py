"""Servers for acceptance tests; all are ended when their test, or module, is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.acceptance.on_kafka import make_topic, settings_of
from tests.fault.server import Server

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

MakeServer = Callable[..., Server]


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[MakeServer]:
    """`make_server("data", store__near_due="1s")`: a server on that folder, not started; another command of
    `delayline` by `command`."""
    made: list[Server] = []

    def make(folder: str = "data", **settings: str) -> Server:
        made.append(Server(tmp_path / folder, **settings))
        return made[-1]

    yield make
    for server in made:
        server.kill()


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    """A server of the test's own, ready."""
    server = make_server()
    server.start()
    server.wait_ready()
    return server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the tests of a module, each of which uses topics of its own."""
    server = Server(tmp_path_factory.mktemp("shared") / "data")
    server.start()
    server.wait_ready()
    yield server
    server.kill()


@pytest.fixture
def topic(kafka: "KafkaAt") -> str:
    name = f"orders-{uuid4().hex[:8]}"
    make_topic(kafka, name)
    return name


@pytest.fixture
def running(kafka: "KafkaAt", make_server: MakeServer) -> Callable[..., list[Server]]:
    """Servers of one installation on the session's broker, by their commands, ready."""

    def run_all(*commands: str, **more: str) -> list[Server]:
        settings = {**settings_of(kafka), **more}
        servers = [make_server(f"{n}-{command}", command=command, **settings) for n, command in enumerate(commands)]
        for server in servers:
            server.start()
        for server in servers:
            server.wait_ready()
        return servers

    return run_all
