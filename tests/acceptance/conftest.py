"""Servers for acceptance tests; all are ended when their test, or module, is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fault.server import Server

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
