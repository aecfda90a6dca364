"""Every queue that the contract suite runs over. Kafka and RocketMQ join here when they exist."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from delayline.clock import ManualClock
from mq.embedded import EmbeddedQueue
from mq.local.queue import LocalQueue
from mq.memory import MemoryQueue

NAMESPACE = "delayline"
MakeQueue = Callable[..., LocalQueue]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "embedded"])
def make_queue(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[MakeQueue]:
    """Makes a queue with the limits given; it is closed at the end."""
    with ExitStack() as queues:

        def make(namespace: str = NAMESPACE, **limits: Any) -> LocalQueue:
            if request.param == "memory":
                return queues.enter_context(closing(MemoryQueue(namespace=namespace, clock=clock, **limits)))
            folder = tmp_path / "queue"
            return queues.enter_context(
                closing(EmbeddedQueue.open(folder, namespace=namespace, clock=clock, disk_free_min_bytes=0, **limits))
            )

        yield make


@pytest.fixture
def queue(make_queue: MakeQueue) -> LocalQueue:
    return make_queue()
