"""Every queue that the contract suite runs over. RocketMQ joins here when it exists.

A test that is about what only a queue in this process can promise says so: `@local_only("why")`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from delayline.clock import ManualClock
from mq.embedded import EmbeddedQueue
from mq.local.queue import LocalQueue
from mq.memory import MemoryQueue

NAMESPACE = "delayline"
local_only = pytest.mark.local_only
MakeQueue = Callable[..., LocalQueue]
Meanwhile = Callable[[Callable[[], None]], None]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "make_queue" in metafunc.fixturenames:
        on_kafka = pytest.param("kafka", marks=pytest.mark.broker)
        metafunc.parametrize("make_queue", ["memory", "embedded", on_kafka], indirect=True)


@pytest.fixture(scope="module")
def meanwhile() -> Iterator[Meanwhile]:
    """Closes queues on Kafka while the next test runs: leaving a group takes a third of a second. What goes wrong is
    an error at the end of the module."""
    closed: list[Future[None]] = []
    with ThreadPoolExecutor(2) as threads:
        yield lambda close: closed.append(threads.submit(close))
    for one in closed:
        one.result()


@pytest.fixture
def make_queue(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, meanwhile: Meanwhile
) -> Iterator[MakeQueue]:
    """Makes a queue with the limits given; it is closed at the end."""
    local = request.node.get_closest_marker("local_only")
    kind = request.param
    if kind == "kafka" and local is not None:
        pytest.skip(local.args[0])
    with ExitStack() as queues:

        def make(namespace: str = NAMESPACE, **limits: Any) -> LocalQueue:
            if kind == "kafka":
                servers = request.getfixturevalue("kafka").bootstrap_servers
                from tests.contract.on_kafka import SuiteQueue

                queue = SuiteQueue(servers, namespace=namespace, **limits)
                queues.callback(meanwhile, queue.close)
                return queue
            if kind == "memory":
                return queues.enter_context(closing(MemoryQueue(namespace=namespace, clock=clock, **limits)))
            folder = tmp_path / "queue"
            return queues.enter_context(
                closing(EmbeddedQueue.open(folder, namespace=namespace, clock=clock, disk_free_min_bytes=0, **limits))
            )

        yield make


@pytest.fixture
def queue(make_queue: MakeQueue) -> LocalQueue:
    return make_queue()
