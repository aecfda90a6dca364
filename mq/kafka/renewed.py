"""A client of librdkafka that is made anew where it hears nothing any more.

Brokers that have all missed their heartbeats to the controller, as behind a machine that stood still, say that the
cluster has none. A client that is told so may never ask again (librdkafka, issue 5301).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Generic, TypeVar

from confluent_kafka import KafkaException

from delayline import logs
from delayline.clock import Clock
from mq.errors import QueueError, QueueUnavailable
from mq.kafka import trouble

T = TypeVar("T")

log = logs.get(__name__)


class Renewed(Generic[T]):
    """`make` makes the client, and `end` ends one that is given up, in a thread of its own: that may take long. It is
    given up when for `deaf_s` nothing but failures to get an answer was told of it. Any thread may call it."""

    def __init__(self, make: Callable[[], T], end: Callable[[T], object], deaf_s: float, clock: Clock) -> None:
        self._make = make
        self._end = end
        self._deaf_s = deaf_s
        self._clock = clock
        self._lock = Lock()
        self._deaf_since_s: float | None = None
        self.client = make()

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """Around one question. Raises QueueError."""
        try:
            with trouble.telling(what):
                yield
        except QueueError as error:
            self.heard(not _unanswered(error))
            raise
        self.heard(True)

    def heard(self, something: bool) -> None:
        """Whether a question was answered, be it by an error of the brokers."""
        if something and self._deaf_since_s is None:
            return
        with self._lock:
            now_s = self._clock.monotonic_s()
            if something:
                self._deaf_since_s = None
            elif self._deaf_since_s is None:
                self._deaf_since_s = now_s
            elif now_s - self._deaf_since_s > self._deaf_s:
                self._deaf_since_s = None
                self._renew()

    def _renew(self) -> None:
        log.warning("a client without answers is made anew", kind=type(self.client).__name__)
        Thread(target=self._end, args=(self.client,), name="kafka-given-up", daemon=True).start()
        self.client = self._make()


def _unanswered(error: QueueError) -> bool:
    why = error.__cause__
    if isinstance(why, KafkaException):
        return isinstance(error, QueueUnavailable) and trouble.local(trouble.cause(why))
    return isinstance(why, TimeoutError)
