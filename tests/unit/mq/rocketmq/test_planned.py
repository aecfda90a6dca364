"""Planned parts of a queue: all of their records or an error, whatever the broker answers meanwhile."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock
from mq.errors import OffsetOutOfRange, QueueUnavailable
from mq.rocketmq import planned
from mq.rocketmq.planned import PlannedReads
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.broker import Pulled, PullStatus
from rocketmq.errors import AnswerLost, TopicMissing, Unreachable
from rocketmq.wire.stored import StoredMessage

PATIENCE_S = 10.0
Answer = Pulled | Exception


def message(offset: int) -> StoredMessage:
    hosts = (0, b"", 0, 0, b"", 5000 + offset, 0, 0, 0)
    return StoredMessage("orders", 0, offset, 0, b"m%d" % offset, b"", 0, 0, *hosts)


def found(*offsets: int) -> Pulled:
    return Pulled(PullStatus.FOUND, offsets[-1] + 1, 0, 100, [message(offset) for offset in offsets])


def moved(first: int, end: int = 100) -> Pulled:
    return Pulled(PullStatus.OFFSET_MOVED, first, first, end, [])


NOTHING = Pulled(PullStatus.NOTHING_YET, 0, 0, 100, [])
NONE_MATCH = Pulled(PullStatus.NONE_MATCH, 0, 0, 100, [])


class Pulls:
    """Answers in order; the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[int, int]] = []

    def pull(self, _: Any, offset: int, *, messages_max: int) -> Pulled:
        self.asked.append((offset, messages_max))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """The offsets that a read of a part brings."""

    def opened(pulls: Pulls, start: int, end: int) -> list[int]:
        clock = ManualClock()
        client = SimpleNamespace(broker=pulls, close=lambda: None)
        monkeypatch.setattr(planned, "Client", lambda _: client)
        settings = RocketmqSettings(name_servers="a:1")
        reads = PlannedReads(settings, clock, lambda seconds: clock.advance(round(seconds * 1000)), PATIENCE_S)
        return [one.offset for chunk in reads.read("orders", "a:0", start, end) for one in chunk]

    return opened


def test_pulls_follow_each_other_up_to_the_end_and_ask_for_nothing_behind_it(read: Callable[..., list[int]]) -> None:
    pulls = Pulls(found(3, 4), found(5))
    assert read(pulls, 3, 6) == [3, 4, 5]
    assert pulls.asked == [(3, 3), (5, 1)]
    assert read(Pulls(), 6, 6) == []


@pytest.mark.parametrize(
    "passing", [Unreachable("gone"), AnswerLost("no answer"), TopicMissing(17, "no route", ""), NOTHING, NONE_MATCH]
)
def test_what_fails_for_a_while_is_asked_again_from_the_same_offset(
    read: Callable[..., list[int]], passing: Answer
) -> None:
    pulls = Pulls(found(0), passing, passing, found(1))
    assert read(pulls, 0, 2) == [0, 1]
    assert [offset for offset, _ in pulls.asked] == [0, 1, 1, 1]


def test_what_fails_for_longer_is_no_answer(read: Callable[..., list[int]]) -> None:
    with pytest.raises(QueueUnavailable, match="gone"):
        read(Pulls(found(0), Unreachable("gone")), 0, 2)


def test_a_queue_that_ends_before_its_part_does_is_an_error_and_not_the_end_of_it(
    read: Callable[..., list[int]],
) -> None:
    with pytest.raises(OffsetOutOfRange, match="partition a:0: it ends at 1, before 2"):
        read(Pulls(found(0), NOTHING), 0, 2)
    with pytest.raises(OffsetOutOfRange, match="it ends at 0, before 2"):
        read(Pulls(moved(0, end=0)), 0, 2)


@pytest.mark.parametrize(
    ("answer", "range_"), [(moved(5), "1 to 5"), (found(5, 6), "1 to 5"), (found(1, 3), "2 to 3")]
)
def test_offsets_that_have_been_deleted_are_an_error_that_names_them(
    read: Callable[..., list[int]], answer: Answer, range_: str
) -> None:
    with pytest.raises(OffsetOutOfRange, match=f"offsets {range_} have been deleted"):
        read(Pulls(found(0), answer), 0, 8)
