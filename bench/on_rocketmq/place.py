"""A topic on the only broker, with a namespace of its own, and what has been delivered into it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.message import Shard
from rocketmq.client.client import Client
from rocketmq.client.settings import ClientSettings
from rocketmq.wire.bodies import Queue
from rocketmq.wire.properties import decode_properties
from tests.brokers.rocketmq import BROKER

QUEUES = 8
DUE = "due-at-ms"
"""The property with the time at which a message is due, for all that deliver it."""
POLL_S = 0.2
_CLOCK = SystemClock()


class Delivered(NamedTuple):
    """A message in the topic: its number, when it was due and when the broker stored it, by the broker's clock."""

    number: str
    due_ms: int
    stored_ms: int


@dataclass(frozen=True)
class Place:
    servers: str
    namespace: str
    topic: str

    @classmethod
    def make(cls, servers: str) -> "Place":
        tag = uuid4().hex[:8]
        place = cls(servers, f"bench-{tag}", f"orders-{tag}")
        with place.client() as client:
            client.admin.create_topic(place.topic, BROKER, QUEUES)
        return place

    @property
    def buffer(self) -> str:
        return Names(self.namespace).buffer(self.topic)

    @property
    def queues(self) -> list[Queue]:
        return [Queue(self.topic, BROKER, number) for number in range(QUEUES)]

    @property
    def shards(self) -> list[Shard]:
        return [Shard(self.topic, f"{BROKER}:{number}") for number in range(QUEUES)]

    def client(self) -> Client:
        return Client(ClientSettings((self.servers,)))

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Until so many messages are in the topic. Raises RuntimeError when no more come for `timeout_s`."""
        seen, until_s = 0, _CLOCK.monotonic_s() + timeout_s
        with self.client() as client:
            while seen < count:
                now = sum(self._ends(client))
                if now > seen:
                    seen, until_s = now, _CLOCK.monotonic_s() + timeout_s
                elif _CLOCK.monotonic_s() > until_s:
                    raise RuntimeError(f"{self.topic}: {count - seen:,} messages are missing after {timeout_s:.0f} s")
                time.sleep(POLL_S)

    def ends(self) -> list[int]:
        """How many messages each queue holds."""
        with self.client() as client:
            return self._ends(client)

    def delivered(self, first: Sequence[int] = (0,) * QUEUES) -> Iterator[Delivered]:
        """All of them, queue by queue, or those from these offsets on."""
        with self.client() as client:
            for queue, offset, end in zip(self.queues, first, self._ends(client), strict=True):
                while offset < end:
                    pulled = client.broker.pull(queue, offset)
                    offset = pulled.next_offset
                    for message in pulled.messages:
                        found = decode_properties(message.properties)
                        yield Delivered(found["KEYS"], int(found[DUE]), message.stored_ms)

    def _ends(self, client: Client) -> list[int]:
        return [client.broker.max_offset(queue) for queue in self.queues]
