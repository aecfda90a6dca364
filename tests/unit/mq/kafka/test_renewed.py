"""A client that hears nothing any more is made anew, and one that hears something is not."""

from collections.abc import Callable, Iterator
from itertools import count
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from delayline.clock import ManualClock
from mq.errors import QueueError, QueueUnavailable
from mq.kafka.librdkafka.renewed import Renewed

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


def exception(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


SILENCE = exception(KafkaError._TIMED_OUT)


def late() -> QueueUnavailable:
    error = QueueUnavailable("no answer")
    error.__cause__ = TimeoutError()
    return error


@pytest.mark.parametrize("silence", [SILENCE, exception(KafkaError._TRANSPORT), late()])
def test_a_client_that_hears_nothing_for_long_is_made_anew(silence: Exception) -> None:
    line = Line()
    assert [line.asked(silence, 10) for _ in range(5)] == [0, 0, 0, 0, 1]
    assert (line.end.wait(5), line.ended) == (True, [0])
    assert [line.asked(silence, 10) for _ in range(5)] == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    "word",
    [
        None,
        exception(KafkaError.NOT_CONTROLLER),
        exception(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        exception(KafkaError._UNKNOWN_TOPIC),
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


def test_a_client_that_has_failed_for_good_is_made_anew_and_counts_as_sound_when_it_lasts() -> None:
    line = Line()
    line.renewed.failed(0, "no producer id")
    line.renewed.failed(0, "once more")
    seen = []
    for _ in range(8):
        line.clock.advance(1000)
        line.renewed.mend()
        seen.append((line.renewed.client, line.renewed.trouble))
    assert seen == [(1, "no producer id")] * 5 + [(1, None)] * 3
    assert (line.end.wait(5), line.ended) == (True, [0])


def test_a_client_that_fails_again_and_again_is_made_anew_more_and_more_seldom() -> None:
    line = Line()
    made_s: list[int] = []
    for second in range(120):
        line.renewed.mend()
        if line.renewed.client != len(made_s):
            line.renewed.failed(line.renewed.client - 1, "an old one")
        if line.renewed.client == len(made_s):
            line.renewed.failed(line.renewed.client, "no producer id")
            made_s.append(second)
        assert line.renewed.trouble == "no producer id"
        line.clock.advance(1000)
    assert made_s == [0, 1, 3, 7, 15, 31, 61, 91]


def test_an_answer_to_the_new_client_ends_the_trouble_and_one_to_the_dead_client_does_not() -> None:
    line = Line()
    line.renewed.failed(0, "no producer id")
    line.renewed.heard(True)
    assert line.renewed.trouble == "no producer id"
    line.clock.advance(1000)
    line.renewed.mend()
    line.renewed.heard(True)
    assert (line.renewed.client, line.renewed.trouble) == (1, None)


def test_a_client_that_cannot_be_made_is_tried_again() -> None:
    makes: Iterator[Callable[[], int]] = iter([lambda: 0, _refusing, lambda: 1])
    clock = ManualClock()
    renewed = Renewed(lambda: next(makes)(), id, DEAF_S, clock)
    renewed.failed(0, "no producer id")
    clock.advance(1000)
    with pytest.raises(KafkaException):
        renewed.mend()
    assert (renewed.client, renewed.trouble) == (0, "no producer id")
    clock.advance(2000)
    renewed.mend()
    assert renewed.client == 1


def _refusing() -> int:
    raise exception(KafkaError._FAIL)
