"""Measures the brokers' clocks by the messages that they store for us.

The answer to a send does not contain the time at which the broker stored the message. The stored message does, and
can be read by its place in the commit log as soon as the send is answered.
"""

from collections.abc import Callable
from concurrent.futures import Future

from delayline.clock import Clock
from mq.broker_clock import MEASURE_S, BrokerClock
from rocketmq.client.broker import BrokerRequests, Sent
from rocketmq.errors import RocketmqError
from rocketmq.wire.bodies import Queue
from rocketmq.wire.ids import decode_message_id
from rocketmq.wire.stored import StoredMessage

Stamped = Callable[[Sent, Queue, float], None]
"""Is called with each batch that a broker has stored, and the time when it was sent (monotonic seconds)."""


def first_place(sent: Sent) -> int:
    """Where the first message of a batch is, in its broker's commit log. Raises Malformed."""
    return decode_message_id(sent.answer.msg_id.partition(",")[0]).offset


class Stamps:
    """Any thread."""

    def __init__(self, requests: BrokerRequests, broker_clock: BrokerClock, clock: Clock) -> None:
        self._requests = requests
        self._broker_clock = broker_clock
        self._clock = clock
        self._looked_s: dict[str, float] = {}  # by broker

    def is_due(self, broker: str) -> bool:
        """Whether the last look was a while ago."""
        return self._clock.monotonic_s() - self._looked_s.get(broker, float("-inf")) >= MEASURE_S

    def sent(self, sent: Sent, queue: Queue, sent_s: float) -> None:
        """Look at it, if the last look was a while ago."""
        if not self.is_due(queue.broker):
            return
        self._looked_s[queue.broker] = self._clock.monotonic_s()

        def seen(future: "Future[StoredMessage]") -> None:
            if future.exception() is None:
                self._broker_clock.measured(queue.broker, future.result().stored_ms, sent_s)

        try:
            self._requests.view_later(queue, first_place(sent)).add_done_callback(seen)
        except RocketmqError:
            return  # the next send is looked at instead
