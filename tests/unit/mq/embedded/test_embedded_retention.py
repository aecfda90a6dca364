"""What an embedded queue deletes by itself: by age and by size, never what waits; and the disk that it gives back."""

import os
import time
from pathlib import Path

import pytest

from delayline.clock import ManualClock
from delayline.records.message import Shard
from mq.embedded import EmbeddedQueue
from mq.embedded.retention import Expiry, Retainer, Retention
from mq.errors import OffsetOutOfRange
from tests.contract.drive import JOIN_S, append, bodies, buffer
from tests.unit.mq.conftest import FaultyLog, OpenQueue
from tests.unit.mq.embedded.test_embedded_disk import disk_bytes

Faulty = tuple[EmbeddedQueue, FaultyLog]
HOUR_MS = 3_600_000


def expiry(queue: EmbeddedQueue, clock: ManualClock, **rules: Retention) -> Expiry:
    """By topic; others keep everything."""
    return Expiry(queue, lambda topic: rules.get(topic, Retention()), clock)


def test_records_older_than_the_retention_are_deleted_and_no_others(
    open_queue: OpenQueue, clock: ManualClock
) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    expiring = expiry(queue, clock, orders=Retention(age_ms=2 * HOUR_MS))
    for hour in range(5):
        append(queue, "orders", "0", b"%d" % hour, b"%d" % hour)
        clock.advance(HOUR_MS)
    assert expiring.expire() == {"orders": 6}
    assert queue.offsets("orders", "0") == (6, 10)
    assert bodies(queue, "orders", offset=6) == [b"3", b"3", b"4", b"4"]
    assert expiring.expire() == {}


def test_a_reader_beyond_the_retention_gets_an_error(open_queue: OpenQueue, clock: ManualClock) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    append(queue, "orders", "0", b"a", b"b")
    clock.advance(HOUR_MS)
    expiry(queue, clock, orders=Retention(age_ms=1)).expire()
    with pytest.raises(OffsetOutOfRange, match=r"0 is not within 2\.\.2"):
        queue.read("orders", "0", 0, 10)


def test_a_topic_keeps_at_most_so_many_bytes_and_the_newest(open_queue: OpenQueue, clock: ManualClock) -> None:
    queue = open_queue(partitions=2)
    queue.ensure_topic("orders")
    expiring = expiry(queue, clock, orders=Retention(bytes_max=100_000))
    for number in range(200):
        append(queue, "orders", f"{number % 2}", b"%d " % number + os.urandom(1000))
        clock.advance(1)
        if number % 50 == 0:
            expiring.expire()
    expiring.expire()
    left = [
        body
        for partition in "01"
        for body in bodies(queue, "orders", partition, queue.offsets("orders", partition)[0])
    ]
    numbers = sorted(int(body.split()[0]) for body in left)
    assert numbers == list(range(200 - len(numbers), 200))
    assert 90_000 <= sum(map(len, left)) <= 100_000


def test_after_a_restart_the_size_is_known_again(open_queue: OpenQueue, clock: ManualClock) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    for _ in range(100):
        append(queue, "orders", "0", os.urandom(1000))
    queue.close()
    queue = open_queue()
    assert expiry(queue, clock, orders=Retention(bytes_max=50_000)).expire()["orders"] >= 50


def test_what_waits_is_never_deleted(open_queue: OpenQueue, clock: ManualClock) -> None:
    queue = open_queue()
    append(queue, buffer(queue), "0", b"a", b"b")
    clock.advance(HOUR_MS)
    everything = Expiry(queue, lambda topic: Retention(age_ms=1, bytes_max=1), clock)
    assert everything.expire() == {}
    assert queue.log_range(Shard("orders", "0")) == (0, 2)


def test_the_audit_and_the_dead_letters_go_by_their_own_rules(open_queue: OpenQueue, clock: ManualClock) -> None:
    queue = open_queue()
    for name in ("delayline.audit", "delayline.dead"):
        append(queue, name, "1", b"a")
    clock.advance(HOUR_MS)
    assert expiry(queue, clock, **{"delayline.audit": Retention(age_ms=1)}).expire() == {"delayline.audit": 1}


def test_a_trim_survives_a_restart(open_queue: OpenQueue, clock: ManualClock) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    append(queue, "orders", "0", b"a")
    clock.advance(HOUR_MS)
    expiry(queue, clock, orders=Retention(age_ms=1)).expire()
    queue.close()
    assert open_queue().offsets("orders", "0") == (1, 1)


def shrinks(folder: Path) -> bool:
    """Whether compaction gives the disk back; it runs in a thread of its own."""
    deadline_s = time.monotonic() + JOIN_S
    while disk_bytes(folder) > 1 << 20 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return disk_bytes(folder) < 1 << 20


def fill(queue: EmbeddedQueue, folder: Path) -> None:
    queue.ensure_topic("orders")
    for _ in range(8):
        append(queue, "orders", "0", os.urandom(1 << 20))
    assert disk_bytes(folder) > 8 << 20


def test_what_retention_deletes_gives_its_disk_back(faulty: Faulty, folder: Path, clock: ManualClock) -> None:
    queue, _ = faulty
    fill(queue, folder)
    clock.advance(HOUR_MS)
    expiry(queue, clock, orders=Retention(age_ms=1)).expire()
    assert shrinks(folder)


def test_a_deleted_topic_gives_its_disk_back(open_queue: OpenQueue, folder: Path) -> None:
    queue = open_queue()
    fill(queue, folder)
    queue.delete_topic("orders")
    assert shrinks(folder)


def test_topics_can_be_made_and_deleted_for_ever(open_queue: OpenQueue) -> None:
    queue = open_queue(topics_max=11)
    numbers = set()
    for turn in range(30):
        queue.ensure_topic(f"t{turn}")
        buffer(queue, f"t{turn}")
        numbers.add(queue._ledger.topic(f"t{turn}").number)
        queue.delete_topic(f"t{turn}")
        if turn % 10 == 9:
            queue.close()
            queue = open_queue(topics_max=11)
    assert len(numbers) == 30, "no number is used twice"


def test_the_thread_reports_what_it_has_deleted_and_ends(open_queue: OpenQueue, clock: ManualClock) -> None:
    queue = open_queue()
    queue.ensure_topic("orders")
    append(queue, "orders", "0", b"a")
    clock.advance(HOUR_MS)
    logged: list[tuple[str, int]] = []
    with Retainer(expiry(queue, clock, orders=Retention(age_ms=1)), 0.001, lambda *what: logged.append(what)):
        deadline_s = time.monotonic() + JOIN_S
        while not logged and time.monotonic() < deadline_s:
            time.sleep(0.001)
    assert logged == [("orders", 1)]
