"""A client that hears nothing any more is made anew, and one that hears something is not."""

from collections.abc import Iterator
from itertools import count
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from delayline.clock import ManualClock
from mq.errors import QueueError, QueueUnavailable
from mq.kafka.renewed import Renewed

DEAF_S = 30


class Line:
    """Clients are numbers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ended: list[int] = []
        self.end = Event()
        numbers: Iterator[int] = count()
        self.renewed = Renewed(lambda: next(numbers), self._end, DEAF_S, self.clock)

    def _end(self, number: int) -> None:
        self.ended.append(number)
        self.end.set()

    def asked(self, error: Exception | None, after_s: int) -> int:
        """The client behind a question that ended so, so long behind the last one."""
        self.clock.advance(after_s * 1000)
        try:
            with self.renewed.asking("asking"):
                if error is not None:
                    raise error
        except QueueError:
            pass
        return self.renewed.client


def said(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


SILENCE = said(KafkaError._TIMED_OUT)


def late() -> QueueUnavailable:
    error = QueueUnavailable("no answer")
    error.__cause__ = TimeoutError()
    return error


@pytest.mark.parametrize("silence", [SILENCE, said(KafkaError._TRANSPORT), late()])
def test_a_client_that_hears_nothing_for_long_is_made_anew(silence: Exception) -> None:
    line = Line()
    assert [line.asked(silence, 10) for _ in range(5)] == [0, 0, 0, 0, 1]
    assert (line.end.wait(5), line.ended) == (True, [0])
    assert [line.asked(silence, 10) for _ in range(5)] == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    "word",
    [
        None,
        said(KafkaError.NOT_CONTROLLER),
        said(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        said(KafkaError._UNKNOWN_TOPIC),
    ],
)
def test_a_client_that_hears_something_in_between_stays(word: Exception | None) -> None:
    line = Line()
    for _ in range(5):
        assert [line.asked(error, 20) for error in (SILENCE, SILENCE, word)] == [0, 0, 0]
    assert line.ended == []


def test_one_failure_long_behind_another_answer_is_no_silence() -> None:
    line = Line()
    assert [line.asked(error, 1000) for error in (None, SILENCE, None, SILENCE)] == [0, 0, 0, 0]
