"""A client of librdkafka that is made anew where it hears nothing any more, or has failed for good.

Brokers that have all missed their heartbeats to the controller, as behind a machine that stood still, answer that the
cluster has none. A client that gets this answer may never ask again (librdkafka, issue 5301).

An idempotent producer that meets a fatal error, such as a refusal of its producer id, refuses everything from then
on, also when the cause is gone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Generic, TypeVar

from confluent_kafka import KafkaException

from delayline.clock import Clock
from delayline.process import logs
from mq.errors import QueueError, QueueUnavailable
from mq.kafka.librdkafka import trouble

T = TypeVar("T")

AGAIN_S, AGAIN_MAX_S = 1.0, 30.0
"""From a fatal error to the next client: doubled each time, until one lasts."""
LASTS_S = 5.0
"""A client that has not failed for so long counts as sound, though nothing was asked of it: a producer asks for its
id as soon as it is made."""

log = logs.get(__name__)


class Renewed(Generic[T]):
    """`make` makes the client, and `end` ends one that is given up, in a thread of its own: that may take long. It is
    given up when for `deaf_s` it reported nothing but failures to get an answer. Any thread may call it."""

    def __init__(self, make: Callable[[], T], end: Callable[[T], object], deaf_s: float, clock: Clock) -> None:
        self._make = make
        self._end = end
        self._deaf_s = deaf_s
        self._clock = clock
        self._lock = Lock()
        self._deaf_since_s: float | None = None
        self._failure: str | None = None
        self._is_dead = False
        self._again_s = AGAIN_S
        self._next_s = 0.0  # when the next client is made, if this one is dead, and when this one was, if it is not
        self.client = make()

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """Around one question. Raises QueueError."""
        try:
            with trouble.translated_errors(what):
                yield
        except QueueError as error:
            self.heard(not _unanswered(error))
            raise
        self.heard(True)

    def heard(self, something: bool) -> None:
        """Whether a question was answered, be it by an error of the brokers."""
        if something and self._deaf_since_s is None and (self._failure is None or self._is_dead):
            return
        with self._lock:
            now_s = self._clock.monotonic_s()
            if something:
                self._deaf_since_s = None
                self._sound()
            elif self._deaf_since_s is None:
                self._deaf_since_s = now_s
            elif now_s - self._deaf_since_s > self._deaf_s:
                self._deaf_since_s = None
                self._renew("it hears nothing")

    # --- failed for good

    def failed(self, client: T, detail: str) -> None:
        """This client has met a fatal error. `mend` makes the next one; until then the old one refuses what it is
        given. Does nothing where the client is another one already, or known to be dead."""
        with self._lock:
            if self._is_dead or client is not self.client:
                return
            log.error(
                "a client has failed for good", kind=type(client).__name__, detail=detail, again_s=self._again_s
            )
            self._failure, self._is_dead = detail, True
            self._next_s = self._clock.monotonic_s() + self._again_s
            self._again_s = min(2 * self._again_s, AGAIN_MAX_S)

    def mend(self) -> None:
        """Make the next client where it is time for it, or forget what happened to the last one where this one lasts.
        To be called again and again. Raises what `make` raises, and tries again later."""
        if self._failure is None:
            return
        with self._lock:
            now_s = self._clock.monotonic_s()
            if self._is_dead and now_s >= self._next_s:
                self._next_s = now_s + self._again_s
                self._renew("it has failed")
                self._is_dead, self._next_s = False, now_s
            elif not self._is_dead and now_s - self._next_s >= LASTS_S:
                self._sound()

    def _sound(self) -> None:
        if not self._is_dead:
            self._failure, self._again_s = None, AGAIN_S

    @property
    def trouble(self) -> str | None:
        """The fatal error that a client has met, until one lasts or is heard of."""
        return self._failure

    def _renew(self, why: str) -> None:
        log.warning("a client is made anew", kind=type(self.client).__name__, why=why)
        made = self._make()
        Thread(target=self._give_up, args=(self.client,), name="kafka-given-up", daemon=True).start()
        self.client = made

    def _give_up(self, client: T) -> None:
        try:
            self._end(client)
        except Exception as error:  # noqa: BLE001 - nothing is asked of it any more
            log.warning("a client that was given up did not end cleanly", detail=str(error))


def _unanswered(error: QueueError) -> bool:
    why = error.__cause__
    if isinstance(why, KafkaException):
        return isinstance(error, QueueUnavailable) and trouble.local(trouble.cause(why))
    return isinstance(why, TimeoutError)
