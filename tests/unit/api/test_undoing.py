"""Bringing back what was purged, through a worker over queue and index in memory: once each, whatever happens."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from api import undoing
from api.undoing import Opened, Purged
from delayline.buffer.record import encode_control
from delayline.buffer.undo import PURGE, Copy, Mark, read_purged
from delayline.names import Names
from delayline.records.message import Header
from delayline.records.record import decode_body
from mq.contract import Append
from mq.errors import ClaimLost, QueueUnavailable, TopicUnknown
from tests.mutation.mutant import Mutant, load
from tests.mutation.operators import at, never, value, written
from tests.unit.delay_service.core.test_claims import delay, own, restart, rows
from tests.unit.delay_service.harness import ORDERS, Bench

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
PURGED = "delayline.purged"
BUFFER = "delayline.buffer.orders"


def keyed(key: bytes) -> Header:
    return b"delayline-idempotency", b"digest " + key


class UndoScene:
    """A worker of one shard, and the API's part of an undo."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.purged = Purged(self.bench.queue, self.bench.queue, self.bench.queue.claim, Names("delayline"))

    def open(self) -> Opened:
        return self.purged.open("orders", PURGE, 10 * MINUTE)

    def purge(self) -> Opened:
        """All that waits."""
        opened = self.open()
        self.bench.send_raw(encode_control("purge", undo=opened.id))
        self.bench.turn()
        return opened

    def undo(self, opened: Opened, steps_max: int = 10_000) -> tuple[int, int]:
        """What came back now, and what had before; ends early like a process that dies after so many steps."""
        restoring = self.purged.restoring(opened)
        for _ in range(steps_max):
            if not restoring.step():
                break
        self.bench.turn()
        return restoring.back, restoring.before

    def pass_time(self, ms: int = 2 * HOUR) -> list[bytes | None]:
        """What has been delivered by then."""
        self.bench.clock.advance(ms)
        self.bench.turn(8)
        return self.bench.delivered()

    def copies(self) -> list[Copy | Mark]:
        partitions = self.bench.queue.topic(PURGED).partitions
        found = [read_purged(record.body) for name in partitions for record in self.bench.log(PURGED, name)]
        return [one for one in found if one is not None]


def sent(scene: UndoScene, count: int = 5) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    for number, one in enumerate(values):
        scene.bench.send(one, delay(HOUR + number))
    scene.bench.turn()
    return values


@pytest.fixture
def scene() -> UndoScene:
    return UndoScene()


def test_what_is_purged_is_never_delivered_unless_it_is_brought_back(scene: UndoScene) -> None:
    sent(scene)
    scene.purge()
    assert scene.pass_time() == []


def test_what_comes_back_is_delivered_at_its_time_and_once(scene: UndoScene) -> None:
    values = sent(scene)
    opened = scene.purge()
    assert scene.undo(opened) == (5, 0)
    assert scene.pass_time(HOUR - SECOND) == []
    assert scene.pass_time(2 * SECOND) == values


def test_an_undo_that_is_asked_again_sends_nothing_twice(scene: UndoScene) -> None:
    """Also where all of it was delivered and the shard has another owner since: nothing of it is remembered."""
    values = sent(scene)
    opened = scene.purge()
    scene.undo(opened)
    scene.pass_time()
    restart(scene.bench, lose_index=True)
    assert scene.undo(opened) == (0, 5)
    assert scene.pass_time() == values


def test_an_undo_whose_process_dies_goes_on_where_it_was(scene: UndoScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undoing, "CHUNK", 2)
    values = sent(scene)
    opened = scene.purge()
    steps = 0
    while not scene.undo(opened, steps)[0]:
        steps += 1
    assert scene.undo(opened) == (3, 2)
    assert sorted(scene.pass_time(), key=str) == sorted(values, key=str)


def test_of_two_undos_at_once_the_first_one_ends_and_nothing_comes_twice(
    scene: UndoScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undoing, "CHUNK", 2)
    values = sent(scene)
    opened = scene.purge()
    first = scene.purged.restoring(opened)
    while not first.back:
        first.step()
    assert scene.undo(opened) == (3, 2)
    with pytest.raises(ClaimLost):
        deque(iter(first.step, False), maxlen=0)
    scene.bench.turn()
    assert sorted(scene.pass_time(), key=str) == sorted(values, key=str)


def test_nothing_is_sent_to_a_topic_that_was_made_again_while_the_undo_was_under_way(scene: UndoScene) -> None:
    sent(scene)
    restoring = scene.purged.restoring(scene.purge())
    restoring.step()
    known = scene.bench.queue.topic
    scene.bench.queue.topic = lambda name: (
        known(name)._replace(topic_id=bytes(16)) if name == "orders" else known(name)
    )
    with pytest.raises(TopicUnknown):
        deque(iter(restoring.step, False), maxlen=0)
    assert restoring.back == 0


def test_nothing_is_sent_while_a_transaction_may_hide_what_was(scene: UndoScene) -> None:
    sent(scene)
    opened = scene.purge()
    scene.bench.queue.is_stable = lambda topic, partition, timeout_s: False
    with pytest.raises(QueueUnavailable):
        scene.undo(opened)
    assert scene.pass_time() == []


def test_a_chunk_is_bounded_in_bytes_and_a_larger_copy_goes_alone(
    scene: UndoScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undoing, "CHUNK_BYTES_MAX", 1)
    sent(scene)
    scene.undo(scene.purge())
    assert sum(isinstance(one, Mark) for one in scene.copies()) == 5


def test_copies_of_other_undos_and_records_of_others_stay(scene: UndoScene) -> None:
    sent(scene, 2)
    first = scene.purge()
    scene.bench.send(b"later", delay(HOUR))
    scene.bench.turn()
    second = scene.purge()
    scene.bench.queue.append([Append(PURGED, "0", b"\xff")]).result()
    assert scene.undo(second) == (1, 0)
    assert scene.pass_time() == [b"later"]
    assert scene.undo(first) == (2, 0)


def test_what_was_due_meanwhile_comes_at_once(scene: UndoScene) -> None:
    values = sent(scene)
    opened = scene.purge()
    scene.pass_time(2 * HOUR)
    scene.undo(opened)
    assert scene.pass_time(SECOND) == values


@pytest.mark.parametrize("deadline", ["ttl", "expire-at"])
def test_what_has_expired_meanwhile_is_not_delivered_but_ends_as_expired(scene: UndoScene, deadline: str) -> None:
    start_ms = scene.bench.clock.now_ms()
    short, long = (
        (b"delay-" + deadline.encode(), b"%dms" % ms if deadline == "ttl" else b"%d" % (start_ms + HOUR + ms))
        for ms in (MINUTE, 3 * HOUR)
    )
    scene.bench.send(b"short", delay(HOUR), short)
    scene.bench.send(b"long", delay(HOUR), long)
    scene.bench.turn()
    opened = scene.purge()
    scene.pass_time(2 * HOUR)
    assert scene.undo(opened) == (2, 0)
    assert scene.pass_time(SECOND) == [b"long"]
    assert [reason for _, _, reason in rows(scene.bench)].count("deadline") == 1


def test_an_own_id_comes_back_and_can_be_cancelled_by(scene: UndoScene) -> None:
    scene.bench.send(b"mine", own(b"k"), delay(HOUR))
    scene.bench.turn()
    scene.undo(scene.purge())
    scene.bench.send(b"other", own(b"k"), delay(HOUR))
    scene.bench.turn()
    assert scene.pass_time() == [b"mine"]


def test_who_has_taken_the_own_id_meanwhile_keeps_it(scene: UndoScene) -> None:
    """Also against a message that was sent to replace others."""
    scene.bench.send(b"mine", own(b"k"), (b"delay-on-conflict", b"replace"), delay(HOUR))
    scene.bench.turn()
    opened = scene.purge()
    scene.bench.send(b"other", own(b"k"), delay(HOUR))
    scene.bench.turn()
    assert scene.undo(opened) == (1, 0)
    assert scene.pass_time() == [b"other"]
    assert [reason for _, _, reason in rows(scene.bench)].count("own-id") == 1


def test_a_message_with_an_idempotency_key_comes_back_and_its_key_stays_taken(scene: UndoScene) -> None:
    scene.bench.send(b"mine", keyed(b"k"), delay(HOUR))
    scene.bench.turn()
    scene.undo(scene.purge())
    scene.bench.send(b"again", keyed(b"k"), delay(HOUR))
    scene.bench.turn()
    assert scene.pass_time() == [b"mine"]


def test_a_repeat_goes_on_with_the_number_and_the_times_that_it_had(scene: UndoScene) -> None:
    scene.bench.send(b"again", (b"delay-every", b"1h"), (b"delay-times", b"3"))
    scene.bench.turn()
    assert scene.pass_time(HOUR) == [b"again"]
    scene.undo(scene.purge())
    for _ in range(5):
        scene.pass_time(HOUR)
    ids = [dict(decode_body(record.body).headers)[b"delayline-id"] or b"" for record in scene.bench.log("orders")]
    assert [one.rpartition(b"~")[2] for one in ids] == [b"1", b"2", b"3"]
    assert len({one.partition(b"~")[0] for one in ids}) == 2


def test_a_bulk_cancel_is_undone_in_the_same_way(scene: UndoScene) -> None:
    offset = scene.bench.send(b"one", delay(HOUR))
    scene.bench.send(b"two", delay(HOUR))
    scene.bench.turn()
    opened = scene.open()
    due_ms = scene.bench.clock.now_ms() + HOUR
    headers: Sequence[Header] = [
        (b"delay-op", b"cancel"),
        (b"delay-ref", b"orders.0.%d.%d" % (offset, due_ms)),
        (b"delayline-undo", opened.id.encode()),
    ]
    scene.bench.send(b"", *headers)
    scene.bench.turn()
    assert scene.undo(opened) == (1, 0)
    assert sorted(scene.pass_time(), key=str) == [b"one", b"two"]


def test_an_undo_is_found_by_its_id_and_topic_alone(scene: UndoScene) -> None:
    opened = scene.open()
    assert scene.purged.find("orders", opened.id) == opened
    for topic, id in (("mails", opened.id), ("orders", "0.99"), ("orders", "x"), ("orders", "9.0")):
        assert scene.purged.find(topic, id) is None


def test_copies_are_in_the_partition_of_their_shard_with_what_they_need(scene: UndoScene) -> None:
    sent(scene, 1)
    opened = scene.purge()
    assert scene.copies() == [Copy(opened.id, ORDERS)]


CAUGHT: tuple[tuple[Mutant, Callable[..., None]], ...] = (
    (
        Mutant("what an undo has sent is sent again", "undo-once", never),
        test_an_undo_that_is_asked_again_sends_nothing_twice,
    ),
    (
        Mutant("a mark is one copy short", "undo-mark", value(at("args[2].args[0].args[1]", written("${} - 1")))),
        test_an_undo_that_is_asked_again_sends_nothing_twice,
    ),
    (
        Mutant("an undo looks for the topic at its beginning alone", "undo-topic", never),
        test_nothing_is_sent_to_a_topic_that_was_made_again_while_the_undo_was_under_way,
    ),
    (
        Mutant("an undo does not wait for what may be hidden", "undo-looks", never),
        test_nothing_is_sent_while_a_transaction_may_hide_what_was,
    ),
)
MUTANTS = tuple(mutant for mutant, _ in CAUGHT)


@pytest.mark.parametrize(("mutant", "check"), CAUGHT, ids=[mutant.broken for mutant in MUTANTS])
def test_a_rule_of_undos_that_is_broken_is_noticed(
    mutant: Mutant, check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = load(mutant, (undoing.__name__,))[undoing.__name__]
    monkeypatch.setattr(f"{__name__}.Purged", broken.Purged)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        partial(check, UndoScene())()
