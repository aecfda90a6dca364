"""A server whose data lacks what it has acknowledged refuses to start, or goes on where that is accepted."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.asking import (
    HTTP,
    Ran,
    answer_of,
    delivered,
    numbers,
    run,
    run_in,
    send,
    wait_delivered,
    wait_for,
)
from tests.acceptance.conftest import MakeServer
from tests.acceptance.seen import seen
from tests.fault.server import Server
from tests.ports import free_port

DAMAGED = 3
WAITING = 40


@pytest.fixture(scope="module")
def killed_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server that was killed while messages waited; `earlier` beside it is an older copy."""
    folder = tmp_path_factory.mktemp("killed")
    server = Server(folder / "data", store__near_due="0s", audit__low_water_interval="100ms")
    server.start()
    server.wait_ready()
    send(server.url, "orders", ["first"], delay="1ms")
    wait_delivered(server, ["first"])
    assert server.stop()[0] == 0
    shutil.copytree(server.data_dir, folder / "earlier")
    server.start()
    server.wait_ready()
    send(server.url, "orders", numbers(WAITING), delay="2s")
    wait_for(lambda: pending(server), lambda found: found == WAITING)
    server.kill()
    return server.data_dir


def pending(server: Server) -> int:
    return int(HTTP.get(f"{server.url}/v1/topics/orders").raise_for_status().json()["pending"])


@pytest.fixture
def killed(killed_data: Path, make_server: MakeServer) -> Server:
    """A server that is to start on a copy of it."""
    server = make_server("data")
    shutil.copytree(killed_data, server.data_dir)
    return server


def serve(data: Path, *flags: str) -> Ran:
    return run_in(data.parent, "serve", *flags, data_dir=str(data), api__port=str(free_port()))


def cut_write_ahead_log(data: Path) -> None:
    newest = max((data / "queue" / "log").glob("*.log"), key=lambda file: file.stat().st_size)
    os.truncate(newest, newest.stat().st_size // 2)


def remove_log(data: Path) -> None:
    shutil.rmtree(data / "queue" / "log")


def remove_queue_and_mark(data: Path) -> None:
    shutil.rmtree(data / "queue")
    (data / "queue.mark").unlink()


def put_back_older_queue(killed_data: Path, data: Path) -> None:
    shutil.rmtree(data / "queue")
    shutil.copytree(killed_data.with_name("earlier") / "queue", data / "queue")


@pytest.mark.parametrize("damage", [cut_write_ahead_log, remove_log])
def test_a_log_that_lacks_something_is_not_started(killed: Server, damage: Callable[[Path], None]) -> None:
    damage(killed.data_dir)
    before = seen(killed.data_dir)
    for _ in range(2):
        ran = serve(killed.data_dir)
        assert (ran.code, ran.out) == (DAMAGED, "")
        assert seen(killed.data_dir) == before
        assert "acknowledged" in ran.err
        assert "--accept-loss" in ran.err


def test_an_older_copy_of_the_queue_is_not_started(killed: Server, killed_data: Path) -> None:
    put_back_older_queue(killed_data, killed.data_dir)
    ran = serve(killed.data_dir)
    assert ran.code == DAMAGED
    assert "delayline.buffer.orders/" in ran.err


def damage_index_is_ahead(killed_data: Path, data: Path) -> None:
    """The log and its mark of earlier, and the index of a server that was stopped later; no second mark, as after a
    version that had none."""
    server = Server(data)
    server.start()
    server.wait_ready()
    server.stop()
    put_back_older_queue(killed_data, data)
    shutil.copy2(killed_data.with_name("earlier") / "queue.mark", data / "queue.mark")
    (data / "index.mark").unlink()


@pytest.mark.parametrize("mark", ["kept", "removed"])
def test_an_index_that_is_ahead_of_its_log_is_evidence(killed: Server, killed_data: Path, mark: str) -> None:
    damage_index_is_ahead(killed_data, killed.data_dir)
    if mark == "removed":
        remove_queue_and_mark(killed.data_dir)
    before = seen(killed.data_dir)
    for _ in range(2):
        ran = serve(killed.data_dir)
        assert ran.code == DAMAGED
        assert "the time index" in ran.err
        assert "orders/" in ran.err
        assert seen(killed.data_dir) == before


def test_an_index_that_is_ahead_is_put_aside_where_the_loss_is_accepted(
    killed: Server, killed_data: Path, make_server: MakeServer
) -> None:
    damage_index_is_ahead(killed_data, killed.data_dir)
    server = make_server("data")
    server.flags = ("--accept-loss",)
    server.start()
    server.wait_ready()
    send(server.url, "orders", ["after"], delay="1ms")
    wait_for(lambda: delivered(server.url), lambda found: {"first", "after"} <= set(found))
    assert list(server.data_dir.glob("index.lost-*"))


def test_a_loss_that_is_accepted_is_reported_and_the_rest_is_delivered(
    killed: Server, make_server: MakeServer
) -> None:
    cut_write_ahead_log(killed.data_dir)
    server = make_server("data")
    server.flags = ("--accept-loss",)
    server.start()
    server.wait_ready()
    send(server.url, "orders", ["after"], delay="1ms")
    wait_for(lambda: delivered(server.url), lambda found: {"first", "after"} <= set(found))
    assert "loss accepted" in server.tail_of_log()
    assert server.stop()[0] == 0
    server.flags = ()
    server.start()
    server.wait_ready()


# --- who may read it


def test_only_the_servers_user_may_read_what_it_makes(server: Server) -> None:
    send(server.url, "orders", ["a"], delay="1h")
    paths = [path for name in ("queue", "queue.mark", "index") for path in tree(server.data_dir / name)]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in paths}
    assert len(modes) > 10
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_rights_that_were_looser_are_taken_away_with_a_warning(killed: Server) -> None:
    (killed.data_dir / "queue").chmod(0o755)
    (killed.data_dir / "queue" / "queue.json").chmod(0o644)
    killed.start()
    killed.wait_ready()
    assert stat.S_IMODE((killed.data_dir / "queue").stat().st_mode) == 0o700
    assert stat.S_IMODE((killed.data_dir / "queue" / "queue.json").stat().st_mode) == 0o600
    assert "others could read the data" in killed.tail_of_log()


def tree(path: Path) -> list[Path]:
    return [path, *path.rglob("*")]


# --- scrub


def scrub(data: Path) -> Ran:
    return run("scrub", "--json", data_dir=str(data))


def test_scrub_finds_a_whole_queue_whole_and_a_damaged_one_damaged_and_changes_neither(killed: Server) -> None:
    before = seen(killed.data_dir)
    whole = scrub(killed.data_dir)
    assert (whole.code, answer_of(whole)["whole"]) == (0, True)
    assert seen(killed.data_dir) == before
    cut_write_ahead_log(killed.data_dir)
    before = seen(killed.data_dir)
    damaged = scrub(killed.data_dir)
    assert seen(killed.data_dir) == before
    assert damaged.code == DAMAGED
    assert "acknowledged" in str(json.loads(damaged.out)["damage"])


def test_scrub_leaves_a_queue_that_is_in_use_alone(server: Server) -> None:
    ran = scrub(server.data_dir)
    assert (ran.code, "in use by another process" in ran.err) == (1, True)


# --- a table that is damaged


def test_once_a_damaged_table_was_met_nothing_is_taken_in_and_readiness_reports_it(make_server: MakeServer) -> None:
    server = make_server("tables")
    server.start()
    server.wait_ready()
    for _ in range(20):
        body = {"value": os.urandom(10_000).hex(), "partition": 0}
        HTTP.post(f"{server.url}/v1/topics/orders/messages", json=body).raise_for_status()
    assert server.stop()[0] == 0
    table = max((server.data_dir / "queue" / "log").glob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(table.read_bytes())
    quarter = len(content) // 4
    content[quarter : quarter + 2000] = bytes(2000)
    table.write_bytes(content)
    server.start()
    server.wait_ready()
    where = {"partition": 0, "offset": 0, "limit": 100}
    assert HTTP.get(f"{server.url}/v1/topics/orders/records", params=where).status_code == 503
    refused = HTTP.post(f"{server.url}/v1/topics/orders/messages", json={"value": 1})
    assert (refused.status_code, "the log is damaged" in refused.json()["detail"]) == (503, True)
    ready = HTTP.get(f"{server.url}/readyz")
    assert (ready.status_code, "the log is damaged" in ready.json()["detail"]) == (503, True)
