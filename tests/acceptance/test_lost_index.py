"""The time index is a cache of the queue: it may be lost or damaged, and a start delivers everything all the same."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.asking import numbers, send, wait_delivered
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server


def _stopped_with_messages(make_server: MakeServer) -> Server:
    """Some delivered, some waiting; of those, some near and some far."""
    server = make_server("data", store__near_due="400ms")
    server.start()
    server.wait_ready()
    send(server.url, "orders", ["done"], delay="1ms")
    wait_delivered(server, ["done"])
    send(server.url, "orders", numbers(50), delay="900ms")
    send(server.url, "orders", ["later"], delay="2500ms")
    code, _ = server.stop()
    assert code == 0
    return server


def _delivered_after_a_start(server: Server) -> list[str]:
    server.start()
    server.wait_ready()
    return wait_delivered(server, [*numbers(50), "done", "later"])


@pytest.mark.parametrize("lost", ["index", "index/rocksdb"])
def test_without_its_index_a_server_delivers_everything_once(make_server: MakeServer, lost: str) -> None:
    server = _stopped_with_messages(make_server)
    shutil.rmtree(server.data_dir / lost)
    assert _delivered_after_a_start(server) == [*numbers(50), "done", "later"]


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
    [_overwrite("*"), _overwrite("*.sst"), _overwrite("MANIFEST-*"), _truncate],
    ids=["all of it", "its rows", "its manifest", "all cut to nothing"],
)
def test_a_damaged_index_is_thrown_away_and_everything_is_delivered_once(
    make_server: MakeServer, damage: Callable[[Path], None]
) -> None:
    server = _stopped_with_messages(make_server)
    damage(server.data_dir / "index" / "rocksdb")
    found = _delivered_after_a_start(server)
    assert found == [*numbers(50), "done", "later"]
    assert "damaged" in server.tail_of_log()
