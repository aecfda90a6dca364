"""Every queue that the contract suite runs over.

A test that is about what only a queue in this process can promise is marked: `@local_only("why")`; one that is about
what RocketMQ has nothing for: `@not_on_rocketmq("why")`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.encryption.data_key import DataKey
from mq.embedded import EmbeddedQueue
from mq.local.queue import LocalQueue
from mq.memory import MemoryQueue

NAMESPACE = "delayline"
DATA_KEY = DataKey(b"data key", bytes(range(32)))
IN_EVERY_RUN = ("test_sink", "test_source")
"""What `make test` runs on RocketMQ too; a test there takes half a second."""
local_only = pytest.mark.local_only
not_on_rocketmq = pytest.mark.not_on_rocketmq
MakeQueue = Callable[..., LocalQueue]
Meanwhile = Callable[[Callable[[], None]], None]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "make_queue" in metafunc.fixturenames:
        on_kafka = pytest.param("kafka", marks=pytest.mark.broker)
        left_out = [] if metafunc.module.__name__.endswith(IN_EVERY_RUN) else [pytest.mark.thorough]
        on_rocketmq = pytest.param("rocketmq", marks=[pytest.mark.broker, *left_out])
        metafunc.parametrize("make_queue", ["memory", "embedded", "encrypted", on_kafka, on_rocketmq], indirect=True)


@pytest.fixture(scope="module")
def meanwhile() -> Iterator[Meanwhile]:
    """Closes queues on Kafka while the next test runs: leaving a group takes a third of a second. What goes wrong is
    an error at the end of the module."""
    closed: list[Future[None]] = []
    with ThreadPoolExecutor(2) as threads:
        yield lambda close: closed.append(threads.submit(close))
    for one in closed:
        one.result()


def _on_brokers(request: pytest.FixtureRequest, kind: str, namespace: str, limits: dict[str, Any]) -> Any:
    if kind == "kafka":
        from tests.contract import on_kafka

        servers = request.getfixturevalue("kafka").bootstrap_servers
        return on_kafka.SuiteQueue(servers, namespace=namespace, **limits)
    from tests.contract import on_rocketmq

    server = request.getfixturevalue("rocketmq").settings.name_servers[0]
    return on_rocketmq.SuiteQueue(server, namespace=namespace, **limits)


@pytest.fixture
def make_queue(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, meanwhile: Meanwhile
) -> Iterator[MakeQueue]:
    """Makes a queue with the limits given; it is closed at the end."""
    kind = request.param
    for mark, kinds in (("local_only", ("kafka", "rocketmq")), ("not_on_rocketmq", ("rocketmq",))):
        only = request.node.get_closest_marker(mark)
        if only is not None and kind in kinds:
            pytest.skip(only.args[0])
    with ExitStack() as queues:

        def make(namespace: str = NAMESPACE, **limits: Any) -> LocalQueue:
            if kind in ("kafka", "rocketmq"):
                queue = _on_brokers(request, kind, namespace, limits)
                queues.callback(meanwhile, queue.close)
                return queue
            if kind == "memory":
                return queues.enter_context(closing(MemoryQueue(namespace=namespace, clock=clock, **limits)))
            more = limits | {"data_key": DATA_KEY if kind == "encrypted" else None, "disk_free_min_bytes": 0}
            opened = EmbeddedQueue.open(tmp_path / "queue", namespace=namespace, clock=clock, **more)
            return queues.enter_context(closing(opened))

        yield make


@pytest.fixture
def queue(make_queue: MakeQueue) -> LocalQueue:
    return make_queue()
