"""A worker that is frozen across the due time of messages: what was stored meanwhile is decided first."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from rocketmq.client.client import Client
from rocketmq.errors import RocketmqError
from rocketmq.wire.bodies import Queue
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.integration.rocketmq.service import QUEUES, Service
from tests.integration.rocketmq.waiting import CLOCK, soon

pytestmark = pytest.mark.thorough
MESSAGES = 12
DELAY_MS = 1500


def stored(client: Client, service: Service) -> int:
    """Messages in the buffer, or none where it cannot be read yet."""
    buffer = f"{service.namespace}%buffer%{service.topic}"
    with suppress(RocketmqError):
        return sum(client.broker.max_offset(Queue(buffer, BROKER, number)) for number in range(QUEUES))
    return 0


def delivered(client: Client, service: Service) -> list[str]:
    queues = [Queue(service.topic, BROKER, number) for number in range(QUEUES)]
    return sorted(one.body.decode() for queue in queues for one in client.broker.pull(queue, 0).messages)


@pytest.fixture
def running(rocketmq: RocketMqAt, client: Client, tmp_path: Path) -> Service:
    return Service(rocketmq, client, tmp_path)


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("replaces", [False, True])
def test_of_two_with_one_own_id_one_is_delivered(
    running: Service, client: Client, is_read: bool, replaces: bool
) -> None:
    """`is_read`: whether the worker had read the first one."""
    try:
        running.start()
        names = [f"own-{number}" for number in range(MESSAGES)]
        conflict = {"on_conflict": "replace"} if replaces else {}

        def send(value: str, name: str) -> None:
            schedule = {"own_id": name, "delay": f"{DELAY_MS}ms", **conflict}
            path = f"v1/topics/{running.topic}/messages"
            running.ask("post", path, json={"value": f"{value}-{name}", "schedule": schedule})

        with ThreadPoolExecutor(2 * MESSAGES) as threads:
            if not is_read:
                os.kill(running.worker.pid, signal.SIGSTOP)
            sent = [threads.submit(send, "first", name) for name in names]
            if is_read:
                [one.result() for one in sent]
                os.kill(running.worker.pid, signal.SIGSTOP)
            else:
                soon(lambda: stored(client, running) >= QUEUES + MESSAGES)
            sent += [threads.submit(send, "second", name) for name in names]
            soon(lambda: stored(client, running) >= QUEUES + 2 * MESSAGES)
            due_ms = CLOCK.now_ms() + DELAY_MS
            soon(lambda: CLOCK.now_ms() > due_ms)
            os.kill(running.worker.pid, signal.SIGCONT)
            [one.result() for one in sent]
        wanted = "second" if replaces else "first"
        soon(lambda: len(delivered(client, running)) >= QUEUES + MESSAGES)
        found = [one for one in delivered(client, running) if "own" in one]
        assert found == sorted(f"{wanted}-{name}" for name in names)
    finally:
        running.close()
