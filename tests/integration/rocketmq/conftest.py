"""A client on the session's RocketMQ, each test with a topic of its own. A module that needs other brokers has a
fixture `rocketmq` of its own."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from rocketmq.client.client import Client
from rocketmq.errors import TopicMissing
from rocketmq.wire.bodies import Queue
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.integration.rocketmq.service import Service
from tests.integration.rocketmq.waiting import soon


@pytest.fixture
def client(rocketmq: RocketMqAt) -> Iterator[Client]:
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


@pytest.fixture
def service(rocketmq: RocketMqAt, client: Client, tmp_path: Path) -> Iterator[Service]:
    """On all brokers."""
    with closing(Service(rocketmq, client, tmp_path)) as made:
        made.start()
        yield made
        print(made.worker.tail_of_log())
