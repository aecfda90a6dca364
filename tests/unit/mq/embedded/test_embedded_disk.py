"""A disk that fails, fills up or is slow; and what a trim gives back to it."""

import os
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from delayline.records.message import Shard
from mq.contract import Append, Delivery, Position
from mq.embedded import EmbeddedQueue
from mq.embedded.writer import BACKLOG_BYTES_MAX, BACKLOG_RECORDS_MAX, GROUP_BYTES_MAX
from mq.errors import CommitUnknown, QueueUnavailable
from tests.contract.drive import JOIN_S, Worker, append, bodies, buffer, in_thread, start_worker
from tests.unit.mq.conftest import FaultyLog, OpenQueue

SHARD = Shard("orders", "0")
Faulty = tuple[EmbeddedQueue, FaultyLog]


# --- a disk that fails


@pytest.mark.parametrize("fault", ["fail_sync", "fail_write"])
def test_an_append_that_the_disk_fails_is_reported_as_unknown_and_is_not_shown(faulty: Faulty, fault: str) -> None:
    queue, log = faulty
    queue.ensure_topic("orders")
    setattr(log, fault, True)
    with pytest.raises(QueueUnavailable, match="may or may not be stored"):
        append(queue, "orders", "0", b"a")
    assert queue.offsets("orders", "0") == (0, 0)


class Panic(BaseException):
    """As the one that RocksDB's binding raises for a panic."""


def test_an_append_during_which_the_binding_panics_is_reported_as_unknown(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, log = faulty
    queue.ensure_topic("orders")

    def panic() -> None:
        raise Panic("panicked")

    monkeypatch.setattr(log, "sync", panic)
    with pytest.raises(QueueUnavailable, match="may or may not be stored: panicked"):
        append(queue, "orders", "0", b"a")


def test_a_commit_that_the_disk_fails_is_of_unknown_fate(faulty: Faulty) -> None:
    queue, log = faulty
    worker = start_worker(queue)
    log.fail_sync = True
    with pytest.raises(CommitUnknown, match="Input/output error"):
        worker.commit(SHARD, deliveries=[Delivery(b"d")])


def poison(queue: EmbeddedQueue, log: FaultyLog) -> Worker:
    worker = start_worker(queue)
    append(queue, "orders", "0", b"before")
    log.fail_sync = True
    with pytest.raises(QueueUnavailable):
        append(queue, "orders", "0", b"lost")
    log.fail_sync = False
    return worker


def test_a_failed_fsync_is_never_tried_again(faulty: Faulty) -> None:
    queue, log = faulty
    worker = poison(queue, log)
    syncs = log.syncs
    with pytest.raises(QueueUnavailable, match="Input/output error"):
        append(queue, "orders", "0", b"a")
    with pytest.raises(CommitUnknown, match="Input/output error"):
        worker.commit(SHARD)
    assert log.syncs == syncs


def test_a_broken_queue_answers_nothing_any_more(faulty: Faulty) -> None:
    queue, log = faulty
    worker = poison(queue, log)
    for call in (
        lambda: queue.read("orders", "0", 0, 1),
        lambda: queue.wait("orders", {"0": 99}, JOIN_S),
        lambda: queue.takeover(SHARD),
        lambda: queue.ensure_topic("mail"),
        lambda: queue.trim(SHARD, 0),
        lambda: queue.open_worker("second"),
        lambda: worker.source.poll(10, JOIN_S),
    ):
        with pytest.raises(QueueUnavailable, match="Input/output error"):
            call()


def test_what_waited_behind_a_failed_fsync_fails_with_it(faulty: Faulty) -> None:
    queue, log = faulty
    queue.ensure_topic("orders")
    first = held_back(queue, log)
    second = queue.append([Append("orders", "0", b"b")])
    log.fail_sync = True
    log.gate.set()
    for future in (first, second):
        with pytest.raises(QueueUnavailable):
            future.result(JOIN_S)


def test_a_broken_queue_that_is_opened_again_has_what_was_acknowledged(faulty: Faulty, open_queue: OpenQueue) -> None:
    queue, log = faulty
    poison(queue, log)
    queue.close()
    assert bodies(open_queue(), "orders") in ([b"before"], [b"before", b"lost"])


# --- a slow disk


def held_back(queue: EmbeddedQueue, log: FaultyLog) -> "Future[list[Position]]":
    """An append whose fsync has begun and does not end before `log.gate` is set."""
    log.gate.clear()
    log.at_gate.clear()
    future = queue.append([Append("orders", "0", b"a")])
    assert log.at_gate.wait(JOIN_S)
    return future


def test_nothing_is_acknowledged_or_readable_before_the_fsync(faulty: Faulty) -> None:
    queue, log = faulty
    queue.ensure_topic("orders")
    future = held_back(queue, log)
    assert (future.done(), queue.offsets("orders", "0"), bodies(queue, "orders")) == (False, (0, 0), [])
    log.gate.set()
    future.result(JOIN_S)
    assert bodies(queue, "orders") == [b"a"]


def test_what_gathers_during_one_fsync_shares_the_next(faulty: Faulty) -> None:
    queue, log = faulty
    queue.ensure_topic("orders")
    syncs = log.syncs
    first = held_back(queue, log)
    others = [queue.append([Append("orders", "0", b"b")]) for _ in range(100)]
    log.gate.set()
    for future in (first, *others):
        future.result(JOIN_S)
    assert log.syncs == syncs + 2


def test_a_group_is_bounded_in_bytes(faulty: Faulty) -> None:
    queue, log = faulty
    queue.ensure_topic("orders")
    syncs = log.syncs
    first = held_back(queue, log)
    half = [Append("orders", "0", b"x" * (GROUP_BYTES_MAX // 2))]
    others = [queue.append(half) for _ in range(6)]
    log.gate.set()
    for future in (first, *others):
        future.result(JOIN_S)
    assert log.syncs == syncs + 4


@pytest.mark.parametrize(("records", "size"), [(BACKLOG_RECORDS_MAX, 0), (BACKLOG_BYTES_MAX // (1 << 20), 1 << 20)])
def test_a_full_backlog_refuses_clients_at_once_and_no_one_else(faulty: Faulty, records: int, size: int) -> None:
    queue, log = faulty
    worker = start_worker(queue)
    first = held_back(queue, log)
    waiting = queue.append([Append("orders", "1", b"x" * size)] * records)
    with pytest.raises(QueueUnavailable, match="wait for the disk already"):
        queue.append([Append("orders", "1", b"x")]).result(0)
    committing = in_thread(lambda: worker.commit(SHARD, audit=[b"u"]))
    log.gate.set()
    committing.join(JOIN_S)
    assert (len(first.result(JOIN_S)), len(waiting.result(JOIN_S))) == (1, records)
    append(queue, "orders", "1", b"y")


def test_closing_finishes_what_was_asked_for(faulty: Faulty) -> None:
    queue, log = faulty
    queue.ensure_topic("orders")
    futures = [held_back(queue, log), queue.append([Append("orders", "0", b"b")])]
    closing = in_thread(queue.close)
    log.gate.set()
    closing.join(JOIN_S)
    assert [future.result(0)[0].offset for future in futures] == [0, 1]


def test_a_closed_queue_leaves_no_thread_behind(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("embedded-queue")]


# --- a disk that fills up


def test_on_a_nearly_full_disk_clients_are_refused_and_workers_go_on(open_queue: OpenQueue) -> None:
    free = [10 << 20]
    queue = open_queue(disk_free_min_bytes=8 << 20, free_bytes=lambda folder: free[0])
    worker = start_worker(queue)
    append(queue, "orders", "0", b"a")
    free[0] = 5 << 20
    with pytest.raises(QueueUnavailable, match="has 5 MiB left, and 8 MiB are kept free"):
        append(queue, "orders", "0", b"b")
    worker.commit(SHARD, deliveries=[Delivery(b"d")], audit=[b"u"])
    free[0] = 9 << 20
    append(queue, "orders", "0", b"c")
    assert bodies(queue, "orders") == [b"a", b"d", b"c"]


def test_a_queue_on_a_nearly_full_disk_can_be_opened_and_get_topics(open_queue: OpenQueue) -> None:
    queue = open_queue(disk_free_min_bytes=8 << 20, free_bytes=lambda folder: 0)
    assert queue.ensure_topic("orders").name == "orders"


def test_free_room_is_asked_for_where_the_log_lies(open_queue: OpenQueue, folder: Path) -> None:
    asked: list[Path] = []

    def free_bytes(path: Path) -> int:
        asked.append(path)
        return 1

    open_queue(free_bytes=free_bytes)
    assert set(asked) == {folder / "log"}


# --- room given back


def size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def disk_bytes(folder: Path) -> int:
    """Files that go meanwhile count for nothing."""
    return sum(size_of(file) for file in (folder / "log").iterdir())


def test_trimmed_records_give_their_disk_back_while_the_queue_is_idle(faulty: Faulty, folder: Path) -> None:
    queue, _ = faulty
    name = buffer(queue)
    for _ in range(8):
        append(queue, name, "0", os.urandom(1 << 20))
    kept = append(queue, name, "0", b"kept")[0].offset
    before = disk_bytes(folder)
    queue.trim(SHARD, kept)
    deadline_s = time.monotonic() + JOIN_S
    while disk_bytes(folder) > 1 << 20 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert before > 8 << 20
    assert disk_bytes(folder) < 1 << 20
    assert bodies(queue, name, offset=kept) == [b"kept"]
