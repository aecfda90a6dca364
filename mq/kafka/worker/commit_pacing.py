"""A short rest between transactions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from delayline.clock import Clock

REST_S = 0.003
"""Brokers write a transaction's markers behind the answer to its end. A producer that writes under the same id before
they are done waits for 20 ms (add.partitions.to.txn.retry.backoff.ms)."""


class CommitPacing:
    """What is done between two transactions counts as rest: taking the next batch mostly takes as long. One thread at
    a time."""

    def __init__(self, clock: Clock, pause: Callable[[float], object]) -> None:
        """`pause` waits for so many seconds."""
        self._clock = clock
        self._pause = pause
        self._until_s = 0.0

    @contextmanager
    def before(self) -> Iterator[None]:
        """Around a transaction."""
        left_s = self._until_s - self._clock.monotonic_s()
        if left_s > 0:
            self._pause(left_s)
        try:
            yield
        finally:
            self._until_s = self._clock.monotonic_s() + REST_S
