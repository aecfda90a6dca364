"""Scrubbing: all of a log is read, and what is damaged is named."""

import random
import shutil
from pathlib import Path

import pytest

from mq.embedded.scrub import scrub
from mq.errors import QueueDamaged, QueueLocked, QueueUnavailable
from tests.contract.drive import append, bodies
from tests.unit.mq.conftest import OpenQueue


@pytest.fixture
def filled(open_queue: OpenQueue, folder: Path) -> Path:
    queue = open_queue(partitions=2)
    queue.ensure_topic("orders")
    for _ in range(10):
        append(queue, "orders", "0", *[random.Random(1).randbytes(10_000) for _ in range(20)])
    append(queue, "orders", "1", b"a", b"b")
    queue.close()
    return folder


def damage_a_table(folder: Path) -> None:
    largest = max((folder / "log").glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 3] ^= 0xFF
    largest.write_bytes(bytes(data))


def test_a_whole_log_is_counted_by_partition(filled: Path) -> None:
    report = scrub(filled, "delayline")
    counts = {(one.topic, one.partition): one.records for one in report.partitions}
    assert report.whole
    assert counts[("orders", 0)] == 200
    assert counts[("orders", 1)] == 2


def test_a_damaged_table_is_named_with_the_partition(filled: Path) -> None:
    damage_a_table(filled)
    report = scrub(filled, "delayline")
    damaged = {(one.topic, one.partition) for one in report.partitions if one.damage}
    assert not report.whole
    assert ("orders", 0) in damaged
    assert ".sst" in str(report.damage)


def test_a_queue_that_is_open_is_not_scrubbed(open_queue: OpenQueue, folder: Path) -> None:
    open_queue()
    with pytest.raises(QueueLocked):
        scrub(folder, "delayline")


def test_where_there_is_no_queue_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(QueueUnavailable, match="there is no queue"):
        scrub(tmp_path / "queue", "delayline")
    assert not (tmp_path / "queue").exists()


def test_a_log_that_lacks_what_was_acknowledged_is_not_whole(filled: Path) -> None:
    (filled.with_name("queue.mark")).unlink()
    assert not scrub(filled, "delayline").whole


def test_after_damage_is_met_nothing_more_is_taken_in(filled: Path, open_queue: OpenQueue) -> None:
    damage_a_table(filled)
    queue = open_queue()
    assert queue.trouble() is None
    with pytest.raises(QueueUnavailable, match="damaged"):
        bodies(queue, "orders")
    with pytest.raises(QueueUnavailable, match="damaged"):
        append(queue, "orders", "1", b"c")
    assert "the log is damaged" in str(queue.trouble())


def test_an_accepted_loss_stays_on_record(filled: Path, open_queue: OpenQueue) -> None:
    next((filled / "log").glob("MANIFEST-*")).unlink()
    for table in (filled / "log").glob("*.sst"):
        table.unlink()
    open_queue(accept_loss=True).close()
    (loss,) = scrub(filled, "delayline").losses
    assert "acknowledged" in loss.detail


def test_offsets_that_were_lost_are_counted(open_queue: OpenQueue, folder: Path, tmp_path: Path) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    append(queue, "orders", "0", b"a")
    queue.close()
    (folder).rename(tmp_path / "earlier")
    shutil.copytree(tmp_path / "earlier", folder)
    queue = open_queue()
    append(queue, "orders", "0", b"b", b"c")
    queue.close()
    shutil.rmtree(folder)
    (tmp_path / "earlier").rename(folder)
    queue = open_queue(accept_loss=True)
    assert queue.offsets("orders", "0") == (0, 1)
    assert append(queue, "orders", "0", b"d")[0].offset == 3
    assert bodies(queue, "orders") == [b"a", b"d"]
    assert [record.offset for record in queue.read("orders", "0", 1, 10)] == [3]
    queue.close()
    (one,) = [one for one in scrub(folder, "delayline").partitions if (one.topic, one.partition) == ("orders", 0)]
    assert (one.records, one.lost, one.damage) == (2, 2, "")


def test_a_table_whose_damage_shows_at_once_is_refused_and_given_up_where_that_is_accepted(
    filled: Path, open_queue: OpenQueue
) -> None:
    for table in (filled / "log").glob("*.sst"):
        data = bytearray(table.read_bytes())
        data[: len(data) // 2] = bytes(len(data) // 2)
        table.write_bytes(data)
    with pytest.raises(QueueDamaged, match="damaged"):
        open_queue()
    queue = open_queue(accept_loss=True)
    queue.ensure_topic("orders")
    assert append(queue, "orders", "0", b"new")[0].offset == 200, "its offsets are not used again"
