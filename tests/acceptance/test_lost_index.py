"""The time index is a cache of the queue: it may be lost or damaged, and a start delivers everything all the same."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.asking import numbers, send, wait_delivered
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server
from tests.tiers import sample


@pytest.fixture(scope="module")
def stopped_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server that was stopped with one message delivered and others waiting, some near, some far."""
    server = Server(tmp_path_factory.mktemp("stopped") / "data", store__near_due="1s")
    server.start()
    server.wait_ready()
    send(server.url, "orders", ["done"], delay="1ms")
    wait_delivered(server, ["done"])
    send(server.url, "orders", numbers(50)[:25], delay="900ms")
    send(server.url, "orders", numbers(50)[25:], delay="3s")
    send(server.url, "orders", ["later"], delay="4s")
    code, _ = server.stop()
    assert code == 0
    return server.data_dir


@pytest.fixture
def stopped(stopped_data: Path, make_server: MakeServer) -> Server:
    """A server that is to start on a copy of it."""
    server = make_server("data", store__near_due="1s")
    shutil.copytree(stopped_data, server.data_dir)
    return server


def _delivered_after_a_start(server: Server) -> list[str]:
    server.start()
    server.wait_ready()
    return wait_delivered(server, [*numbers(50), "done", "later"])


@pytest.mark.parametrize("lost", sample(["index", "index/rocksdb"], every=2))
def test_without_its_index_a_server_delivers_everything_once(stopped: Server, lost: str) -> None:
    shutil.rmtree(stopped.data_dir / lost)
    assert _delivered_after_a_start(stopped) == [*numbers(50), "done", "later"]


def _overwrite(name: str) -> Callable[[Path], None]:
    def damage(rocksdb: Path) -> None:
        files = list(rocksdb.glob(name))
        assert files
        for file in files:
            file.write_bytes(os.urandom(max(64, file.stat().st_size)))

    return damage


def _truncate(rocksdb: Path) -> None:
    for file in rocksdb.iterdir():
        file.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    sample([_overwrite("*"), _overwrite("*.sst"), _overwrite("MANIFEST-*"), _truncate], every=4),
    ids=["all of it", "its rows", "its manifest", "all cut to nothing"],
)
def test_a_damaged_index_is_thrown_away_and_everything_is_delivered_once(
    stopped: Server, damage: Callable[[Path], None]
) -> None:
    damage(stopped.data_dir / "index" / "rocksdb")
    found = _delivered_after_a_start(stopped)
    assert found == [*numbers(50), "done", "later"]
    assert "damaged" in stopped.tail_of_log()
