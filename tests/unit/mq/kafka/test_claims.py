"""Which claims a sink commits: what a takeover has read counts once, and under the tenure in which it began."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.cursor import Cursor
from delayline.message import Shard
from mq.contract import ShardBatch
from mq.errors import CommitUnknown, Fenced
from mq.kafka.membership import Standing
from mq.kafka.resting import Rest
from mq.kafka.settings import KafkaSettings
from mq.kafka.sink import KafkaSink

ORDERS = Shard("orders", "0")


class Scene:
    """A sink over a group in which it has ORDERS, and what is asked of it."""

    def __init__(self) -> None:
        self.epoch = 4  # of the committed cursor
        self.asked = 0
        self.tenures = {ORDERS: 1}
        self.error: Exception | None = None
        topic = SimpleNamespace(info=SimpleNamespace(partitions=("0",)))
        parts: Any = SimpleNamespace(
            add=lambda _: None,
            epoch=self._look,
            recall=lambda _: topic,
            place=lambda _: {},
            standing=lambda: Standing(b"member", dict(self.tenures)),
            run=self._run,
        )
        settings = KafkaSettings(bootstrap_servers="none:1", namespace="delayline")
        clock = ManualClock()
        rest = Rest(clock, lambda _: None)
        self.sink = KafkaSink(settings, parts, parts, parts, parts, "w1", clock, parts, lambda _: parts, parts, rest)

    def _look(self, _: Shard) -> int:
        self.asked += 1
        return self.epoch

    def _run(self, *_: object) -> None:
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
