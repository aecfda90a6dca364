"""A client on the session's RocketMQ, each test with a topic of its own."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from delayline.clock import SystemClock
from rocketmq.client.client import Client
from rocketmq.errors import TopicMissing
from rocketmq.wire.bodies import Queue
from tests.brokers.rocketmq import BROKER, RocketMq

CLOCK = SystemClock()
PATIENCE_S = 60.0


def soon(what: Callable[[], Any]) -> Any:
    """The first true answer."""
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while not (answer := what()):
        assert CLOCK.monotonic_s() < until_s, "it did not happen"
    return answer


@pytest.fixture
def client(rocketmq: RocketMq) -> Iterator[Client]:
    with Client(rocketmq.settings) as made:
        yield made


@pytest.fixture
def queue(client: Client) -> Queue:
    """The first of two, of a topic that is known."""
    return made(client, f"orders-{uuid4().hex[:8]}", 2)


def made(client: Client, topic: str, queues: int) -> Queue:
    """The first queue of a new topic, which is known."""
    client.admin.create_topic(topic, BROKER, queues)

    def is_known() -> bool:
        with suppress(TopicMissing):
            return bool(client.names.route(topic).queues)
        return False

    soon(is_known)
    return Queue(topic, BROKER, 0)
