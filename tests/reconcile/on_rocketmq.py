"""A place on the test broker for the tests of the ledger's reader of RocketMQ."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from delayline.clock import SystemClock
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append
from tests.brokers.rocketmq import BROKER
from tests.integration.rocketmq.waiting import soon

if TYPE_CHECKING:
    from mq.rocketmq.settings import RocketmqSettings
    from tests.brokers.rocketmq import RocketMqAt

CLOCK = SystemClock()
QUEUES = 2
DUE_MS = 4_102_444_800_000
LATER = [(b"deliver-at", b"%d" % DUE_MS)]


def part(number: int) -> str:
    return f"{BROKER}:{number}"


class Place:
    """A namespace on the broker with one topic and its buffer, and what its tests write there. `close` it."""

    def __init__(self, rocketmq: "RocketMqAt") -> None:
        from mq.rocketmq.queue import RocketmqQueue
        from rocketmq.client.client import Client

        self.server = rocketmq.settings.name_servers[0]
        self.namespace = f"ns{uuid4().hex[:8]}"
        self.topic = f"orders-{uuid4().hex[:6]}"
        self.client = Client(rocketmq.settings)
        self.client.admin.create_topic(self.topic, BROKER, QUEUES)
        self.queue: RocketmqQueue = RocketmqQueue(self.settings(topics_create=True), CLOCK)
        self.queue.ensure_buffer(self.topic, DEFAULT_RULES)
        self.names = self.settings().names
        self.buffer = self.names.buffer(self.topic)

    def close(self) -> None:
        self.queue.close()
        self.client.close()

    def settings(self, **given: Any) -> "RocketmqSettings":
        from mq.rocketmq.settings import RocketmqSettings

        return RocketmqSettings(**{"name_servers": self.server, "namespace": self.namespace, **given})

    def write(self, topic: str, *bodies: bytes, number: int = 0) -> list[int]:
        """Their times, when they can be read."""
        written = self.queue.append([Append(topic, part(number), body) for body in bodies]).result(30)
        end = written[-1].offset + 1
        soon(lambda: self.queue.offsets(topic, part(number))[1] >= end)
        assert self.queue.is_stable(topic, part(number), 30)
        return [one.appended_at_ms for one in written]

    def send(self, count: int, headers: Any = LATER, number: int = 0) -> list[int]:
        return self.write(self.buffer, *(encode_body(None, b"m%d" % n, headers) for n in range(count)), number=number)
