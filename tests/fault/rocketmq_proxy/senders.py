"""Our own client, sending through the proxies in every way that it has, as Java's does beside it
(`tests.acceptance.JavaClient`)."""

import threading
from collections.abc import Iterator
from random import Random

from delayline.clock import SystemClock
from rocketmq.client.client import Client
from rocketmq.client.settings import ClientSettings
from rocketmq.errors import RocketmqError
from rocketmq.wire.batch import member
from rocketmq.wire.bodies import Queue
from tests.fault.rocketmq_proxy.judge import Note

CLOCK = SystemClock()
WAYS = ("level", "ms", "ms", "moment", "directive", "plain", "plain", "batch", "one-way")
LEVELS_MS = (1000, 5000)
"""Of `delay.levels` and RocketMQ alike."""
DELAY_MAX_MS = 4000
MEMBERS = 5
AFTER_FAILURE_S = 0.2
ROUTE_S = 5.0
"""A client that has none yet, because the broker is away."""


class OwnSender(threading.Thread):
    """One message, or batch, after the other, each sent once. `notes` are complete when it has ended."""

    def __init__(self, name_server: str, topic: str, name: str, pause_s: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(ClientSettings((name_server,)))
        self._topic = topic
        self._prefix = name
        self._pause_s = pause_s
        self._random = Random(f"{seed} {name}")
        self.notes: list[Note] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        number, pause_s = 0, 0.0
        with self._client:
            while not self.stopping.wait(pause_s):
                try:
                    queue = self._random.choice(self._queues())
                except RocketmqError:
                    pause_s = AFTER_FAILURE_S
                    continue
                failure = self._send(queue, self._random.choice(WAYS), number)
                pause_s = AFTER_FAILURE_S if failure else self._pause_s
                number += 1

    def _queues(self) -> list[Queue]:
        """Raises RocketmqError."""
        return list(self._client.names.route(self._topic).writable_queues(self._topic))

    def _send(self, queue: Queue, way: str, number: int) -> str:
        """Why it is not known to be stored; empty where it is, and for one-way sends."""
        count = MEMBERS if way == "batch" else 1
        asked = [self._delay(way) for _ in range(count)]
        tags = [f"{self._prefix}-{number}.{index}" for index in range(count)]
        failure = ""
        try:
            if way == "batch":
                bodies = zip(tags, asked, strict=True)
                self._client.broker.send_batch(queue, [member(tag.encode(), one[0]) for tag, one in bodies])
            elif way == "one-way":
                self._client.broker.send_one_way(queue, tags[0].encode(), asked[0][0])
            else:
                self._client.broker.send(queue, tags[0].encode(), asked[0][0])
        except RocketmqError as error:
            failure = repr(error)
        for tag, (_, due) in zip(tags, asked, strict=True):
            self.notes.append(Note(tag, way, 1, failure, **due))
        return failure

    def _delay(self, way: str) -> tuple[dict[str, str], dict[str, int]]:
        """Properties that ask for it, and what its `Note` has."""
        level, ms = self._random.randrange(len(LEVELS_MS)), self._random.randint(1, DELAY_MAX_MS)
        match way:
            case "level":
                return {"DELAY": str(level + 1)}, {"delay_ms": LEVELS_MS[level]}
            case "moment":
                at_ms = CLOCK.now_ms() + ms
                return {"TIMER_DELIVER_MS": str(at_ms)}, {"deliver_ms": at_ms}
            case "ms" | "one-way":
                return {"TIMER_DELAY_MS": str(ms)}, {"delay_ms": ms}
            case "plain":
                return {}, {}
            case "batch" if self._random.randrange(2):
                return {}, {}
            case _:
                return {"delay-ms": str(ms)}, {"delay_ms": ms}


def ended(senders: list[OwnSender]) -> Iterator[Note]:
    """What they know. Raises AssertionError where one does not end."""
    for sender in senders:
        sender.stopping.set()
    for sender in senders:
        sender.join(60)
        assert not sender.is_alive(), f"{sender.name} does not end"
        yield from sender.notes
