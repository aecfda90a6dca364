"""Who is in the worker group, asked while its coordinator comes and goes."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from delayline.schedule.rules import DEFAULT_RULES
from mq.errors import QueueUnavailable
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import Place, soon


def answered(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except QueueUnavailable:
        return False
    return True


@pytest.mark.outage
def test_who_asks_for_members_during_an_outage_is_answered_after_it() -> None:
    """The library's client would never be answered again, and end the process by an assertion of its own."""
    with started(Kafka) as kafka, ExitStack() as stack:
        place = Place(kafka, stack)
        place.make_topic()
        queue = place.queue(request_timeout_s=2.0)
        ask = queue.cluster.members
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
        place.worker(queue).assigned(2)
        ask()
        kafka.nodes[0].kill()
        during = [answered(ask) for _ in range(3)]
        kafka.nodes[0].start()
        assert during == [False] * 3
        assert soon(lambda: answered(ask), 30.0)
