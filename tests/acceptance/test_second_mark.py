"""A queue that was put back from an older copy together with its mark, under an index that a kill took back."""

import shutil
from pathlib import Path

import pytest

from mq.embedded.mark import read_mark
from mq.embedded.scrub import scrub
from mq.errors import QueueDamaged
from tests.acceptance.asking import numbers, send
from tests.acceptance.damage import lost, start
from tests.acceptance.seen import seen
from tests.fault.server import Server

QUEUE = ("queue", "queue.mark")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`data` of a server that was killed with 40 messages, and `earlier` with 10 of them."""
    folder = tmp_path_factory.mktemp("killed")
    server = Server(folder / "data", store__near_due="0s")
    server.start()
    server.wait_ready()
    send(server.url, "orders", numbers(10), delay="1h")
    server.stop()
    shutil.copytree(server.data_dir, folder / "earlier")
    server.start()
    server.wait_ready()
    send(server.url, "orders", numbers(30), delay="1h")
    server.kill()
    return folder


@pytest.fixture
def data(image: Path, tmp_path: Path) -> Path:
    return shutil.copytree(image / "data", tmp_path / "data")


def put_back(image: Path, data: Path, *names: str) -> None:
    for name in names:
        lost(data / name)
        if (image / "earlier" / name).is_dir():
            shutil.copytree(image / "earlier" / name, data / name)
        else:
            shutil.copy2(image / "earlier" / name, data / name)


def refused(data: Path) -> str:
    before = seen(data)
    with pytest.raises(QueueDamaged) as error:
        start(data)
    assert seen(data) == before
    return str(error.value)


@pytest.mark.parametrize("index", ["kept", "earlier", "removed"])
def test_an_older_copy_of_the_queue_with_its_mark_is_refused(image: Path, data: Path, index: str) -> None:
    put_back(image, data, *QUEUE, *(["index"] if index == "earlier" else []))
    if index == "removed":
        lost(data / "index")
    output = refused(data)
    assert f"(according to {data / 'index.mark'})" in output
    assert "delayline.buffer.orders/0 ends at 3, acknowledged up to" in output
    assert not scrub(data / "queue", "delayline", data / "index.mark").whole


def test_once_the_loss_is_accepted_no_offset_is_used_again_and_the_next_start_needs_no_flag(
    image: Path, data: Path
) -> None:
    known = read_mark(data / "index.mark")
    assert known is not None
    put_back(image, data, *QUEUE)
    assert start(data, accept_loss=True) == 10
    assert start(data) == 10
    acknowledged = read_mark(data / "queue.mark")
    assert acknowledged is not None
    assert {log: acknowledged.ends[log] for log in known.ends} == known.ends
    assert (data / "index.mark").read_bytes() == (data / "queue.mark").read_bytes()


def test_a_queue_that_is_gone_with_its_mark_is_missed(data: Path) -> None:
    for name in QUEUE:
        lost(data / name)
    lost(data / "index")
    assert "there is no log" in refused(data)


def test_the_queue_of_another_installation_is_refused(image: Path, data: Path, tmp_path: Path) -> None:
    assert start(tmp_path / "other") == 0
    for name in QUEUE:
        lost(data / name)
        (tmp_path / "other" / name).rename(data / name)
    assert "of another log" in refused(data)
    lost(data / "index.mark")
    assert start(data) == 0


@pytest.mark.parametrize("name", ["index", "index.mark"])
def test_an_index_or_second_mark_that_is_gone_or_older_is_no_loss(image: Path, data: Path, name: str) -> None:
    put_back(image, data, name)
    assert start(data) == 40
    lost(data / name)
    assert start(data) == 40


def test_a_queue_may_be_moved_with_its_mark_alone(data: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in QUEUE:
        (data / name).rename(tmp_path / "elsewhere" / name)
    assert start(tmp_path / "elsewhere") == 40


def test_a_mark_whose_rows_are_cut_off_is_damaged(data: Path) -> None:
    mark = data / "queue.mark"
    mark.write_bytes(mark.read_bytes()[:8192])
    assert f"{mark} is damaged" in refused(data)


def test_without_its_mark_the_second_one_has_the_offsets_that_are_used_up(image: Path, data: Path) -> None:
    put_back(image, data, "queue")
    lost(data / "queue.mark")
    known = read_mark(data / "index.mark")
    assert known is not None
    assert "is gone" in refused(data)
    start(data, accept_loss=True)
    acknowledged = read_mark(data / "queue.mark")
    assert acknowledged is not None
    assert {log: acknowledged.ends[log] for log in known.ends} == known.ends
