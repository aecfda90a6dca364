"""Rows of the audit on RocketMQ, which are stored after their commits, and what a crash leaves of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from mq.errors import CommitError, DeliveryRefused
from mq.rocketmq.journal import Done, ShardStep, State, decode, replay
from mq.rocketmq.rows import ROWS_BYTES_MAX
from rocketmq.errors import AnswerLost, NotAllowed, Refused, RocketmqError
from rocketmq.wire.bodies import Queue
from tests.unit.mq.rocketmq.scene import AUDIT, JOURNAL, SETTINGS, TARGET, BrokerInMemory, Worker

EVERY_S = SETTINGS.rows_every_s
LATE_S = 2 * EVERY_S


class Scene:
    """A worker whose commit `0` has its row in the audit; `requests` counts batches by queue."""

    def __init__(self) -> None:
        self.broker = BrokerInMemory()
        self.worker = Worker("first", self.broker)
        self.worker.claim()
        self.requests: list[Queue] = []
        self.commit(b"0")
        self.broker.before_store = self.requests.append

    def commit(self, *names: bytes) -> None:
        """One after the other; each moves the cursor."""
        for name in names:
            cursor = self.worker.cursor
            self.worker.cursor = replace(cursor, next_offset=cursor.next_offset + 1)
            self.worker.commit(name)

    def commit_refused(self, name: bytes) -> None:
        """A step that is written down, and has not happened."""
        with self.refusing(TARGET, NotAllowed(16, "", "")), pytest.raises(DeliveryRefused):
            self.commit(name)

    def wait(self, seconds: float) -> None:
        self.worker.clock.advance(round(1000 * seconds))

    def taken_over(self) -> Worker:
        """The next owner, after this one's end."""
        self.worker.session.end()
        after = Worker("second", self.broker)
        after.claim()
        return after

    def journal(self) -> State:
        return replay(decode(bytes(one.body)) for one in self.broker.queues[JOURNAL])

    @contextmanager
    def refusing(self, queue: Queue, error: RocketmqError) -> Iterator[None]:
        self.broker.refusing = {queue: error}
        yield
        self.broker.refusing = {}

    @property
    def rows(self) -> list[bytes]:
        return self.broker.bodies(AUDIT)

    @property
    def delivered(self) -> list[bytes]:
        return self.broker.bodies(TARGET)


def test_rows_of_a_busy_shard_wait_and_are_stored_together() -> None:
    scene = Scene()
    scene.commit(b"1", b"2")
    assert scene.delivered == [b"0", b"1", b"2"]
    assert scene.rows == [b"0"]
    scene.wait(EVERY_S)
    scene.commit(b"3")
    assert scene.rows == [b"0", b"1", b"2", b"3"]
    assert scene.requests.count(AUDIT) == 1


def test_a_step_is_done_when_its_rows_are_stored() -> None:
    scene = Scene()
    assert scene.journal().step is None
    scene.commit(b"1")
    assert scene.journal().step is not None
    scene.wait(EVERY_S)
    scene.commit(b"2")
    assert (scene.journal().step, scene.journal().cursor) == (None, scene.worker.cursor.encode())


def test_rows_behind_which_no_commit_follows_are_stored_as_well() -> None:
    scene = Scene()
    scene.commit(b"1", b"2")
    scene.wait(LATE_S / 2)
    scene.worker.rows.store_late()
    assert scene.rows == [b"0"]
    scene.wait(LATE_S / 2)
    scene.worker.rows.store_late()
    assert scene.rows == [b"0", b"1", b"2"]
    assert (scene.journal().step, scene.journal().cursor) == (None, scene.worker.cursor.encode())


def test_large_rows_do_not_wait() -> None:
    scene = Scene()
    large = bytes(ROWS_BYTES_MAX)
    scene.commit(b"1", large)
    assert scene.rows == [b"0", b"1", large]


def test_more_rows_than_a_batch_may_hold_are_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mq.rocketmq.rows.MEMBERS_BYTES_MAX", 250)
    scene = Scene()
    scene.commit(b"1" * 50, b"2" * 50, b"3" * 50)
    scene.wait(EVERY_S)
    scene.commit(b"4" * 50)
    assert scene.rows == [b"0", b"1" * 50, b"2" * 50, b"3" * 50, b"4" * 50]
    assert scene.requests.count(AUDIT) == 2


def test_a_crash_loses_no_rows_that_waited() -> None:
    scene = Scene()
    scene.commit(b"1", b"2")
    after = scene.taken_over()
    assert scene.rows == scene.delivered == [b"0", b"1", b"2"]
    after.commit(b"3")
    assert scene.rows == scene.delivered == [b"0", b"1", b"2", b"3"]


def test_a_step_that_has_not_happened_takes_no_rows_of_others_with_it() -> None:
    scene = Scene()
    scene.commit(b"1", b"2")
    scene.commit_refused(b"3")
    scene.taken_over()
    assert scene.rows == scene.delivered == [b"0", b"1", b"2"]


def test_rows_that_are_stored_when_a_step_has_not_happened_do_not_make_it_count() -> None:
    scene = Scene()
    scene.commit(b"1")
    last = scene.worker.cursor
    scene.commit_refused(b"2")
    scene.wait(LATE_S)
    scene.worker.rows.store_late()
    scene.worker.session.end()
    taken = Worker("second", scene.broker).take()
    assert taken.last == last
    assert scene.rows == scene.delivered == [b"0", b"1"]


@pytest.mark.parametrize("names", [[b"1"], [b"1", b"2", b"3"]])
def test_rows_that_were_stored_just_before_a_crash_are_not_stored_again(names: list[bytes]) -> None:
    scene = Scene()
    scene.commit(*names)
    scene.wait(LATE_S)
    with scene.refusing(JOURNAL, AnswerLost("")):  # not noted as done
        scene.worker.rows.store_late()
    assert scene.journal().step is not None
    scene.taken_over()
    assert scene.rows == scene.delivered == [b"0", *names]


def test_a_shard_is_released_with_its_rows_stored_and_nothing_open() -> None:
    scene = Scene()
    scene.commit(b"1", b"2")
    scene.worker.ownership.release(scene.worker.take())
    assert scene.rows == [b"0", b"1", b"2"]
    state = scene.journal()
    assert (state.released, state.step, state.cursor) == (True, None, scene.worker.cursor.encode())


def test_a_shard_that_is_released_behind_a_step_that_has_not_happened_has_the_cursor_before() -> None:
    scene = Scene()
    scene.commit(b"1")
    last = scene.worker.cursor
    scene.commit_refused(b"2")
    scene.worker.ownership.release(scene.worker.take())
    scene.broker.show(JOURNAL, 1 << 20)
    assert Worker("second", scene.broker).take().last == last
    assert scene.rows == scene.delivered == [b"0", b"1"]


def test_a_shard_whose_rows_cannot_be_stored_is_not_released_before_the_session_ends() -> None:
    scene = Scene()
    scene.commit(b"1")
    holding = scene.worker.take()
    with scene.refusing(AUDIT, Refused(1, "", "")):
        scene.worker.ownership.release(holding)
    assert not scene.journal().released
    assert not scene.worker.session.is_open
    scene.taken_over()
    assert scene.rows == [b"0", b"1"]


def test_the_cursor_is_not_kept_while_a_step_is_open() -> None:
    scene = Scene()
    scene.commit(b"1")
    scene.worker.ownership.keep(scene.worker.take())
    assert isinstance(decode(bytes(scene.broker.queues[JOURNAL][-1].body)), ShardStep)
    scene.taken_over()
    assert scene.rows == [b"0", b"1"]


def late(scene: Scene) -> None:
    scene.worker.rows.store_late()


def with_a_commit(scene: Scene) -> None:
    with pytest.raises(CommitError):
        scene.commit(b"2")


@pytest.mark.parametrize("store", [late, with_a_commit])
def test_rows_that_are_refused_are_stored_later(store: Callable[[Scene], None]) -> None:
    scene = Scene()
    scene.commit(b"1")
    scene.wait(LATE_S)
    with scene.refusing(AUDIT, NotAllowed(16, "", "")):
        store(scene)
    assert scene.rows == [b"0"]
    scene.worker.take()
    scene.wait(LATE_S)
    scene.worker.rows.store_late()
    assert scene.rows == scene.delivered


@pytest.mark.parametrize("store", [late, with_a_commit])
def test_rows_of_unknown_fate_end_the_session(store: Callable[[Scene], None]) -> None:
    scene = Scene()
    scene.commit(b"1")
    scene.wait(LATE_S)
    scene.broker.held_up = {AUDIT}
    store(scene)
    scene.broker.held_up = set()
    assert not scene.worker.session.is_open
    scene.taken_over()
    assert scene.rows == scene.delivered


def test_rows_of_a_shard_that_is_committing_are_left_to_the_commit() -> None:
    scene = Scene()
    scene.commit(b"1")
    scene.wait(LATE_S)
    holding = scene.worker.take()
    lock, holding.lock = holding.lock, Locked()  # type: ignore[assignment]
    scene.worker.rows.store_late()
    assert scene.rows == [b"0"]
    holding.lock = lock
    scene.worker.rows.store_late()
    assert scene.rows == [b"0", b"1"]


class Locked:
    """A lock that another thread has."""

    def acquire(self, blocking: bool) -> bool:
        assert not blocking
        return False


def test_done_is_written_once_for_all_steps_that_it_follows() -> None:
    scene = Scene()
    scene.commit(b"1", b"2", b"3")
    scene.wait(LATE_S)
    scene.worker.rows.store_late()
    records = [decode(bytes(one.body)) for one in scene.broker.queues[JOURNAL]]
    assert isinstance(records[-1], Done)
    assert sum(isinstance(record, ShardStep) for record in records[-4:]) == 3
