"""The table of owners."""

import time
from collections.abc import Callable, Mapping
from threading import Event

import pytest

from delay_service.query.owners.directory import FRESH_S, Directory
from delayline.clock import ManualClock, SystemClock
from delayline.records.message import Shard
from mq.contract import Owner
from mq.errors import QueueClosed, QueueUnavailable
from tests.unit.delay_service.query.owners.people import ONE, SHARD, TWO, Group

WITHIN_S = 10.0


def soon(condition: Callable[[], bool]) -> None:
    """Another thread is at it."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(WITHIN_S / 1000)
    raise AssertionError("not in time")


class ScriptedGroup(Group):
    """Signals when it has been asked."""

    def __init__(self) -> None:
        super().__init__({SHARD: ONE})
        self.was_asked = Event()

    def owners(self) -> Mapping[Shard, Owner]:
        self.was_asked.set()
        return super().owners()


def test_nobody_is_known_before_the_queue_was_asked() -> None:
    directory = Directory(Group({SHARD: ONE}), ManualClock())
    assert directory.owner(SHARD) is None
    directory.refresh()
    assert directory.owner(SHARD) == ONE


def test_what_was_known_stays_while_the_queue_cannot_answer() -> None:
    group = Group({SHARD: ONE})
    directory = Directory(group, ManualClock())
    directory.refresh()
    group.failure = QueueUnavailable("rebalancing")
    directory.refresh()
    assert (directory.owner(SHARD), directory.trouble) == (ONE, "rebalancing")
    group.failure, group.table = None, {SHARD: TWO}
    directory.refresh()
    assert (directory.owner(SHARD), directory.trouble) == (TWO, None)


def test_a_closed_queue_is_not_asked_again() -> None:
    group = Group()
    group.failure = QueueClosed("closed")
    with pytest.raises(QueueClosed):
        Directory(group, ManualClock()).refresh()


def test_questions_cost_the_queue_nothing_while_the_table_is_fresh() -> None:
    group, clock = ScriptedGroup(), ManualClock()
    with Directory(group, clock) as directory:
        directory.owner(SHARD)
        assert group.was_asked.wait(WITHIN_S)
        soon(lambda: directory.owner(SHARD) == ONE)
        group.was_asked.clear()
        for _ in range(1000):
            directory.owner(SHARD)
        assert group.asked == 1
        clock.advance(int(FRESH_S * 1000) + 1)
        assert directory.owner(SHARD) == ONE, "an old table is better than none"
        assert group.was_asked.wait(WITHIN_S)


def test_who_asks_for_the_whole_table_hears_of_new_shards_as_well() -> None:
    group, clock = ScriptedGroup(), ManualClock()
    directory = Directory(group, clock)
    directory.refresh()
    clock.advance(int(FRESH_S * 1000) + 1)
    group.was_asked.clear()
    with directory:
        assert directory.owners() == {SHARD: ONE}
        assert group.was_asked.wait(WITHIN_S)


def test_a_table_that_was_found_wrong_is_asked_for_again_but_not_once_per_question() -> None:
    group = ScriptedGroup()
    with Directory(group, SystemClock()) as directory:
        for _ in range(1000):
            directory.want()
        assert group.was_asked.wait(WITHIN_S)
        assert group.asked <= 2


def test_a_queue_that_does_not_answer_holds_up_nobody() -> None:
    answer = Event()

    class Silent(ScriptedGroup):
        def owners(self) -> Mapping[Shard, Owner]:
            self.was_asked.set()
            answer.wait(WITHIN_S)
            return super().owners()

    group = Silent()
    with Directory(group, SystemClock()) as directory:
        directory.want()
        assert group.was_asked.wait(WITHIN_S)
        assert directory.owner(SHARD) is None
    answer.set()
