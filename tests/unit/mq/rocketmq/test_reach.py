"""Whether the queue is there: name servers that answer are not enough."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock
from mq.errors import QueueUnavailable
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.admin import Administration
from rocketmq.errors import AnswerLost, Unreachable
from rocketmq.wire.bodies import BrokerAddresses
from rocketmq.wire.command import Command

OK, REFUSED = Command(0), Command(16)
LATE = AnswerLost("no answer in time")


def cluster_of(*brokers: Command | Exception) -> RocketmqCluster:
    """Registered brokers, by how each answers."""

    def to(address: str) -> Any:
        answer = brokers[int(address)]
        if isinstance(answer, Unreachable):
            raise answer
        return SimpleNamespace(start=lambda *_: answered(answer))

    registered = tuple(BrokerAddresses("c", f"broker-{n}", {0: str(n)}) for n in range(len(brokers)))
    links: Any = SimpleNamespace(to=to)
    names: Any = SimpleNamespace(cluster=lambda: registered)
    client: Any = SimpleNamespace(admin=Administration(links, names))
    return RocketmqCluster(RocketmqSettings(name_servers="n:1", namespace="ns"), client, ManualClock())


def answered(answer: Command | Exception) -> "Future[Command]":
    future = Future[Command]()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    return future


@pytest.mark.parametrize("answer", [OK, REFUSED])
@pytest.mark.parametrize("another", [OK, LATE, Unreachable("down")])
def test_one_broker_that_answers_is_enough(answer: Command, another: Command | Exception) -> None:
    cluster_of(answer).reach()
    cluster_of(another, answer).reach()


@pytest.mark.parametrize("brokers", [(LATE,), (Unreachable("down"),), (LATE, Unreachable("down"))])
def test_brokers_that_do_not_answer_are_not_there(brokers: tuple[Exception, ...]) -> None:
    with pytest.raises(QueueUnavailable, match="no broker answers, of broker-0"):
        cluster_of(*brokers).reach()


def test_without_a_registered_broker_the_queue_is_not_there() -> None:
    with pytest.raises(QueueUnavailable, match="no broker is registered"):
        cluster_of().reach()
