"""What an embedded queue remembers, and what a crash leaves of it."""

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from delayline.errors import UnknownFormat
from delayline.records.message import Shard
from mq.embedded.log import RocksLog
from mq.embedded.stored import KEY
from mq.embedded.tuning import options
from mq.errors import Fenced, QueueUnavailable
from tests.contract.drive import append, bodies, buffer, start_worker
from tests.unit.mq.conftest import OpenQueue

SHARD = Shard("orders", "0")


def test_topics_records_and_cursors_are_there_again(open_queue: OpenQueue) -> None:
    queue = open_queue()
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a", b"b")
    worker.commit(SHARD, audit=[b"u"])
    before = [queue.topic("orders"), queue.topic(buffer(queue)), queue.takeover(SHARD)]
    queue.close()
    queue = open_queue()
    assert [queue.topic("orders"), queue.topic(buffer(queue)), queue.takeover(SHARD)] == before
    assert bodies(queue, buffer(queue)) == [b"a", b"b"]


def test_offsets_go_on_after_the_last_record(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    append(queue, "orders", "0", *[b"x"] * 3000)
    queue.close()
    assert append(open_queue(), "orders", "0", b"y")[0].offset == 3000


def test_new_topics_do_not_take_the_place_of_old_ones(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    append(queue, "orders", "0", b"a")
    queue.close()
    queue = open_queue()
    queue.ensure_topic("mail")
    assert (bodies(queue, "mail"), bodies(queue, "orders")) == ([], [b"a"])


@pytest.mark.parametrize("size", [10, 1 << 20], ids=["hidden", "deleted"])
@pytest.mark.parametrize("low_offset", [2, 3])
def test_a_trimmed_log_begins_and_goes_on_where_it_did(open_queue: OpenQueue, low_offset: int, size: int) -> None:
    queue = open_queue()
    name = buffer(queue)
    sent = [letter * size for letter in (b"a", b"b", b"c")]
    append(queue, name, "0", *sent)
    queue.trim(SHARD, low_offset)
    queue.close()
    queue = open_queue()
    assert queue.log_range(SHARD) == (low_offset, 3)
    assert append(queue, name, "0", b"d")[0].offset == 3
    assert bodies(queue, name, offset=low_offset) == [*sent, b"d"][low_offset:]


def test_trimming_goes_on_after_a_restart_where_it_stopped(open_queue: OpenQueue, folder: Path) -> None:
    queue = open_queue()
    name = buffer(queue)
    append(queue, name, "0", *[b"x" * 30_000] * 100)
    queue.trim(SHARD, 41)
    queue.close()
    queue = open_queue()
    queue.trim(SHARD, 99)
    queue.close()
    log: Any = Rdict(str(folder / "log"), options())
    held = [key for key in log.keys() if key[:8] == bytes([0, 0, 0, 5, 0, 0, 0, 0])]  # noqa: SIM118
    assert held == [KEY.pack(5, 0, 98)]


def test_epochs_outlive_the_process(open_queue: OpenQueue) -> None:
    queue = open_queue()
    stale = start_worker(queue, "first").cursors[SHARD]
    queue.close()
    worker = start_worker(open_queue(), "second")
    worker.cursors[SHARD] = replace(worker.cursors[SHARD], owner_epoch=1, writer=stale.writer)
    with pytest.raises(Fenced):
        worker.commit(SHARD)


def test_a_cursor_of_another_format_stops_its_shard_and_no_other(open_queue: OpenQueue, folder: Path) -> None:
    queue = open_queue()
    worker = start_worker(queue)
    number = queue._ledger.topic(buffer(queue)).number
    queue.close()
    log = RocksLog(folder / "log", 0)
    log._db[KEY.pack(0, 3, number << 32)] = b"\x63 of the future"
    log.close()
    queue = open_queue()
    _, sink = queue.open_worker("second")
    with pytest.raises(UnknownFormat):
        queue.takeover(SHARD)
    with pytest.raises(UnknownFormat):
        replace(worker, sink=sink).commit(SHARD)
    assert queue.takeover(Shard("orders", "1")).cursor == worker.cursors[Shard("orders", "1")]


# --- crashes: a copy of the folder while the queue is open is what a crash would leave


@pytest.fixture
def crashed(open_queue: OpenQueue, folder: Path, tmp_path: Path) -> Path:
    """The folder of a queue that acknowledged ten appends of one record and died."""
    queue = open_queue()
    queue.ensure_topic("orders")
    for number in range(9):
        append(queue, "orders", "0", b"%d" % number * 100)
    shutil.copy2(tmp_path / "queue.mark", tmp_path / "earlier.mark")
    append(queue, "orders", "0", b"9" * 100)
    shutil.copy2(tmp_path / "queue.mark", tmp_path / "crashed.mark")
    return shutil.copytree(folder, tmp_path / "crashed")


def write_ahead_log(folder: Path) -> Path:
    return max((folder / "log").glob("*.log"), key=lambda file: file.stat().st_size)


def test_what_was_acknowledged_before_a_crash_is_there(open_queue: OpenQueue, crashed: Path) -> None:
    assert bodies(open_queue(crashed), "orders") == [b"%d" % number * 100 for number in range(10)]


def test_a_torn_last_write_that_was_not_acknowledged_is_dropped_and_nothing_else(
    open_queue: OpenQueue, crashed: Path
) -> None:
    crashed.with_name("earlier.mark").rename(crashed.with_name("crashed.mark"))
    file = write_ahead_log(crashed)
    file.write_bytes(file.read_bytes().rstrip(b"\x00")[:-30])
    queue = open_queue(crashed)
    assert bodies(queue, "orders") == [b"%d" % number * 100 for number in range(9)]
    assert append(queue, "orders", "0", b"again")[0].offset == 9


def test_damage_to_what_was_acknowledged_is_never_passed_over(open_queue: OpenQueue, crashed: Path) -> None:
    file = write_ahead_log(crashed)
    data = bytearray(file.read_bytes())
    data[data.index(b"4" * 100) + 50] ^= 1
    file.write_bytes(data)
    with pytest.raises(QueueUnavailable, match="cannot be opened"):
        open_queue(crashed)


def test_a_damaged_file_is_an_error_and_never_a_shorter_log(open_queue: OpenQueue, tmp_path: Path) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    for _ in range(40):
        append(queue, "orders", "0", *[random.Random(1).randbytes(10_000) for _ in range(20)])
    queue.close()
    largest = max(tmp_path.rglob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 3] ^= 0xFF
    largest.write_bytes(bytes(data))
    queue = open_queue()
    with pytest.raises(QueueUnavailable, match="damaged"):
        bodies(queue, "orders")
