"""The time index is a cache of the queue: it may be lost. A damaged one is never repaired behind the operator's back:
the server says that it may be deleted, and a start without it delivers everything."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.asking import numbers, run, send, wait_delivered
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
def test_a_damaged_index_is_refused_with_the_way_out_which_delivers_everything_once(
    make_server: MakeServer, damage: Callable[[Path], None]
) -> None:
    server = _stopped_with_messages(make_server)
    damage(server.data_dir / "index" / "rocksdb")
    refused = run("serve", "--port", "0", data_dir=str(server.data_dir))
    shutil.rmtree(server.data_dir / "index")
    found = _delivered_after_a_start(server)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert f"delayline: time index {server.data_dir}/index: damaged: " in refused.err
    assert refused.err.endswith("It may be deleted: it is rebuilt from the queue\n")
    assert found == [*numbers(50), "done", "later"]
