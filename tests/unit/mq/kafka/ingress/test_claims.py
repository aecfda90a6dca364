"""What a takeover and its claim are for a sink: what was read counts once, and under the tenure in which it began;
what is open is ended between two commits."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.clock import ManualClock
from delayline.names import Names
from delayline.records.message import Shard
from mq.contract import ShardBatch
from mq.errors import CommitUnknown, Fenced, QueueUnavailable
from mq.kafka.worker.commit_pacing import CommitPacing
from mq.kafka.worker.membership import Standing
from mq.kafka.worker.sink import KafkaSink

ORDERS = Shard("orders", "0")


class Scene:
    """A sink over a group in which it has ORDERS, and what is asked of it."""

    def __init__(self) -> None:
        self.epoch = 4  # of the committed cursor
        self.asked = 0
        self.tenures = {ORDERS: 1}
        self.error: Exception | None = None
        self.opened: list[threading.Thread] = []
        self.meanwhile: Callable[[], None] = lambda: None
        topic = SimpleNamespace(info=SimpleNamespace(partitions=("0",)))
        parts: Any = SimpleNamespace(
            add=lambda _: None,
            epoch=self._look,
            recall=lambda _: topic,
            place=lambda _: {},
            standing=lambda: Standing(b"member", dict(self.tenures)),
            run=self._run,
            open=lambda: self.opened.append(threading.current_thread()),
        )
        names = Names("delayline")
        clock = ManualClock()
        rest = CommitPacing(clock, lambda _: None)
        self.sink = KafkaSink(names, parts, parts, parts, parts, "w1", clock, parts, lambda _: parts, parts, rest)

    def _look(self, _: Shard) -> int:
        self.asked += 1
        return self.epoch

    def _run(self, *_: object) -> None:
        self.meanwhile()
        if self.error is not None:
            raise self.error

    def take_over(self) -> None:
        self.sink.has_read(ORDERS, self.sink.tenure(ORDERS), self.epoch)

    def commit(self, epoch: int, deliveries: Sequence[tuple[bytes, int | None]] = ()) -> None:
        cursor = Cursor(topic_id=bytes(16), next_offset=0, low_offset=0, owner_epoch=epoch, writer="w1")
        self.sink.commit([ShardBatch(ORDERS, cursor, list(deliveries))])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_claim_of_what_a_takeover_has_read_is_committed_without_another_look(scene: Scene) -> None:
    scene.take_over()

    scene.commit(5)
    scene.commit(5, [(b"body", None)])

    assert scene.asked == 0


def test_a_claim_without_a_takeover_is_checked_against_the_committed_cursor(scene: Scene) -> None:
    with pytest.raises(Fenced):
        scene.commit(6)
    scene.commit(5)

    assert scene.asked == 2


def test_what_was_read_under_an_earlier_tenure_is_read_anew(scene: Scene) -> None:
    scene.take_over()
    scene.tenures[ORDERS] = 2
    scene.epoch = 5  # somebody else has had it in between

    with pytest.raises(Fenced):
        scene.commit(5)

    assert scene.asked == 1


def test_what_was_read_before_the_shard_was_ours_is_read_anew(scene: Scene) -> None:
    scene.tenures.clear()
    scene.take_over()
    scene.tenures[ORDERS] = 1
    scene.epoch = 5

    with pytest.raises(Fenced):
        scene.commit(5)

    assert scene.asked == 1


def test_what_was_read_counts_for_one_claim(scene: Scene) -> None:
    scene.take_over()
    scene.error = CommitUnknown("silence")
    with pytest.raises(CommitUnknown):
        scene.commit(5)
    scene.error, scene.epoch = None, 5  # it was written

    with pytest.raises(Fenced):
        scene.commit(5)

    assert scene.asked == 1


def test_only_a_cursor_alone_is_a_claim(scene: Scene) -> None:
    scene.take_over()

    with pytest.raises(Fenced):
        scene.commit(5, [(b"body", None)])


# --- between two commits


def test_what_is_open_is_ended_once_the_commit_under_way_has_ended(scene: Scene) -> None:
    settling = threading.Thread(target=lambda: scene.sink.end_abandoned(60.0))
    order: list[str] = []

    def commit_goes_on() -> None:
        settling.start()
        order.append("committed" if not scene.opened else "opened too early")

    scene.meanwhile = commit_goes_on
    scene.commit(5)
    settling.join()

    assert order == ["committed"]
    assert scene.opened == [settling]


def test_a_commit_that_lasts_is_not_waited_for_without_end(scene: Scene) -> None:
    refused: list[Exception] = []

    def settle() -> None:
        try:
            scene.sink.end_abandoned(0.01)
        except QueueUnavailable as error:
            refused.append(error)

    def lasts() -> None:
        settling = threading.Thread(target=settle)
        settling.start()
        settling.join()

    scene.meanwhile = lasts
    scene.commit(5)

    assert len(refused) == 1
    assert scene.opened == []


def test_a_look_in_the_course_of_a_commit_ends_nothing(scene: Scene) -> None:
    scene.meanwhile = lambda: scene.sink.end_abandoned(0.0)

    scene.commit(5)

    assert scene.opened == []
