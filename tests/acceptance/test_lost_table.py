"""A damaged table of the embedded queue's log takes with it rows of other topics and shards."""

import os
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.acceptance.asking import answer_of, delivered, numbers, run, run_in, send, wait_delivered, wait_for
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server
from tests.ports import free_port

DAMAGED = 3


def tables(data: Path) -> list[Path]:
    return sorted((data / "queue" / "log").glob("*.sst"))


def zero_half(table: Path) -> None:
    data = bytearray(table.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    table.write_bytes(data)


def pending(server: Server) -> int:
    return int(answer_of(run("topics", "show", "orders", "--json", "--url", server.url))["pending"])


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder: 200 messages in tables, 100 in the write-ahead log alone."""
    server = Server(tmp_path_factory.mktemp("killed") / "data")
    try:
        server.start()
        server.wait_ready()
        send(server.url, "orders", numbers(200), delay="1h")
        assert server.stop()[0] == 0
        server.start()
        server.wait_ready()
        send(server.url, "orders", numbers(100), delay="1h")
    finally:
        server.kill()
    return server.data_dir


@pytest.fixture
def server(make_server: MakeServer, killed: Path) -> Server:
    """On a copy of that folder, not started."""
    server = make_server("data")
    shutil.copytree(killed, server.data_dir)
    return server


def refusal(server: Server) -> str:
    data = server.data_dir
    ran = run_in(data.parent, "serve", data_dir=str(data), api__port=str(free_port()))
    assert ran.code == DAMAGED, ran.err
    assert "delayline-links" not in ran.err
    return ran.err


def accept(server: Server) -> str:
    """What it logs."""
    server.log.unlink(missing_ok=True)
    server.flags = ("--accept-loss",)
    server.start()
    server.wait_ready()
    return server.log.read_text()


def test_messages_in_the_write_ahead_log_outlive_the_table_that_named_their_topic(server: Server) -> None:
    for table in tables(server.data_dir):
        zero_half(table)
    damaged = max(tables(server.data_dir), key=lambda table: table.stat().st_size)
    output = refusal(server)
    foretold = re.search(r"That gives up ((\d+) records \(.*\))\.", output)
    assert foretold is not None, output
    assert "delayline.buffer.orders 200" in foretold[1]
    logged = accept(server)
    assert foretold[1] in logged
    assert wait_for(lambda: pending(server), lambda count: count == 100) == 100
    assert (next((server.data_dir / "queue").glob("lost-*")) / damaged.name).exists()
    assert not (server.data_dir / "queue" / "log" / "lost").exists()


def test_without_any_copy_of_its_name_a_topics_records_are_kept_under_a_name_that_shows_it(server: Server) -> None:
    for table in tables(server.data_dir):
        zero_half(table)
    (server.data_dir / "queue" / "topics.json").unlink()
    refusal(server)
    accept(server)
    listed = answer_of(run("topics", "--json", "--url", server.url))
    assert "recovered.topic-" in str(listed)


def stopped_before_it_is_due(make_server: MakeServer) -> Server:
    """It holds 20 messages, and was stopped before the first was due: a busy machine needs longer for that."""
    for delay_s in (6, 12, 25):
        server = make_server(f"data-{delay_s}")
        server.start()
        server.wait_ready()
        sent_s = time.monotonic()
        send(server.url, "orders", numbers(20), delay=f"{delay_s}s")
        assert server.stop()[0] == 0
        if time.monotonic() - sent_s < delay_s:
            return server
    raise AssertionError("stopping takes longer than the longest delay")


def test_what_was_delivered_is_delivered_again_where_the_table_with_delivery_and_cursor_is_lost(
    make_server: MakeServer,
) -> None:
    server = stopped_before_it_is_due(make_server)
    before = set(tables(server.data_dir))
    server.start()
    server.wait_ready()
    assert wait_delivered(server, numbers(20)) == numbers(20)
    assert server.stop()[0] == 0
    for table in set(tables(server.data_dir)) - before:
        zero_half(table)
    assert before & set(tables(server.data_dir))
    refusal(server)
    logged = accept(server)
    assert wait_delivered(server, numbers(20)) == numbers(20), logged
    assert delivered(server.url) == numbers(20)


def scrub(data: Path) -> tuple[int, str]:
    ran = run("scrub", data_dir=str(data))
    assert "delayline-links" not in ran.out + ran.err
    return ran.code, ran.out + ran.err


def test_a_scrub_names_the_damaged_file_in_the_data_folder(server: Server) -> None:
    table = max(tables(server.data_dir), key=lambda table: table.stat().st_size)
    zero_half(table)
    code, output = scrub(server.data_dir)
    assert (code, str(table) in output) == (DAMAGED, True)


@pytest.mark.parametrize("name", ["index", "queue/LOCK", "index/LOCK"])
@pytest.mark.parametrize("how", ["link", "file", "pipe"])
def test_a_scrub_judges_as_a_start_does(server: Server, name: str, how: str) -> None:
    path = server.data_dir / name
    if how == "file" and name != "index":
        pytest.skip("it is a file")
    path.rename(server.data_dir.parent / "moved")
    match how:
        case "link":
            path.symlink_to("nowhere/at-all")
        case "file":
            path.write_text("x")
        case _:
            os.mkfifo(path)
    code, output = scrub(server.data_dir)
    data = server.data_dir
    started = run_in(data.parent, "serve", data_dir=str(data), api__port=str(free_port()))
    assert (code, started.code) == (1, 1)
    assert str(path) in output
    assert str(path) in started.err


def test_settings_of_a_queue_that_are_written_anew_are_kept(server: Server) -> None:
    settings = server.data_dir / "queue" / "queue.json"
    settings.write_text('{"embedded_queue":1,"namespace":"delayl')
    refusal(server)
    accept(server)
    (kept,) = (server.data_dir / "queue").glob("lost-*/queue.json")
    assert kept.read_text().endswith('"delayl')
