"""A rest between two transactions, of which what is done meanwhile is a part."""

import pytest

from delayline.clock import ManualClock
from mq.kafka.worker.commit_pacing import REST_S, CommitPacing

REST_MS = round(1000 * REST_S)
LASTS_MS = 10


class Transactions:
    """Each lasts 10 ms."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pauses: list[float] = []
        self.began_ms: list[int] = []
        self._rest = CommitPacing(self.clock, self._pause)

    def run(self, error: Exception | None = None) -> None:
        with self._rest.before():
            self.began_ms.append(self.clock.now_ms())
            self.clock.advance(LASTS_MS)
            if error is not None:
                raise error

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(round(1000 * seconds))


def test_the_first_one_waits_for_nothing() -> None:
    transactions = Transactions()
    transactions.run()
    assert transactions.pauses == []


def test_the_next_one_begins_when_the_last_has_been_over_for_a_rest() -> None:
    transactions = Transactions()
    transactions.run()
    transactions.run()
    assert transactions.began_ms[1] - transactions.began_ms[0] == LASTS_MS + REST_MS


def test_what_is_done_between_them_is_part_of_the_rest() -> None:
    transactions = Transactions()
    transactions.run()
    transactions.clock.advance(REST_MS - 1)
    transactions.run()
    transactions.clock.advance(REST_MS)
    transactions.run()
    assert transactions.pauses == [pytest.approx(0.001)]


def test_one_that_fails_is_followed_by_a_rest_too() -> None:
    transactions = Transactions()
    with pytest.raises(TimeoutError):
        transactions.run(TimeoutError())
    transactions.run()
    assert transactions.pauses == [pytest.approx(REST_S)]
