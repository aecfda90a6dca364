"""An append under a claim on RocketMQ, cut off at any of its requests: the next claim finds all of it or none."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from mq.contract import Append
from mq.errors import QueueUnavailable
from tests.brokers.rocketmq import RocketMqAt
from tests.contract.drive import bodies
from tests.contract.on_rocketmq import SuiteQueue
from tests.integration.rocketmq.test_cut_steps import cut
from tests.integration.rocketmq.waiting import soon

BUFFER, AUDIT = "delayline.buffer.orders", "delayline.audit"
REQUESTS = 4
"""The step, the re-append, its row, the note that it is done."""


@pytest.fixture
def queue(rocketmq: RocketMqAt) -> Iterator[Any]:
    from delayline.schedule.rules import DEFAULT_RULES

    with closing(SuiteQueue(rocketmq.settings.name_servers[0], namespace="delayline", partitions=1)) as made:
        made.ensure_topic("orders")
        made.ensure_buffer("orders", DEFAULT_RULES)
        yield made


def pair(name: str) -> list[Append]:
    return [Append(topic, "0", name.encode()) for topic in (BUFFER, AUDIT)]


def claimed(queue: Any) -> Any:
    """When the broker has noticed that the last holder's connection has ended."""

    def claim() -> Any:
        try:
            return queue.claim("repair")
        except QueueUnavailable:
            return None

    return soon(claim)


@pytest.mark.thorough
def test_an_append_cut_off_at_any_request_is_there_wholly_or_not_at_all(queue: Any) -> None:
    expected = []
    for number in range(1, REQUESTS + 1):
        for sent in (False, True):
            name, claim = f"{number}-{sent}", claimed(queue)
            cut(claim.session, number, sent=sent)
            try:
                claim.append(pair(name))
                is_answered = True
            except QueueUnavailable:
                is_answered = False
            claim.close()
            with closing(claimed(queue)):
                happened = number > 1 or sent
                expected += [name.encode()] if happened else []
                assert (bodies(queue, BUFFER), bodies(queue, AUDIT)) == (expected, expected)
                assert happened or not is_answered


@pytest.mark.thorough
def test_a_name_is_refused_while_another_process_is_connected_under_it(queue: Any) -> None:
    first = claimed(queue)
    with pytest.raises(QueueUnavailable, match="another process has it, and is connected still"):
        queue.claim("repair")
    first.append(pair("a"))
    first.close()
    queue.claim("repair").close()
    assert bodies(queue, AUDIT) == [b"a"]
