"""One broker of three nodes, of which a controller makes one the master (RIP-44): it is killed, or frozen."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from rocketmq.client.client import Client
from rocketmq.client.connection import connect
from rocketmq.clock import MachineClock
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import TopicOf
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import RocketMq, Server, started
from tests.integration.rocketmq.service import Service
from tests.integration.rocketmq.waiting import soon

pytestmark = pytest.mark.thorough
CONFIRMED = {"allAckInSyncStateSet": "true", "inSyncReplicas": "2", "minInSyncReplicas": "2"}
LOST = "a broker has lost the end of its log"


def running(properties: dict[str, str]) -> Iterator[RocketMq]:
    try:
        with started(1, replicas=2, properties=properties, has_controller=True) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


@pytest.fixture(scope="module")
def confirmed() -> Iterator[RocketMq]:
    """What is acknowledged is on all replicas that count."""
    yield from running(CONFIRMED)


@pytest.fixture(scope="module")
def unconfirmed() -> Iterator[RocketMq]:
    """The defaults: the master acknowledges by itself."""
    yield from running({})


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[[RocketMq], Service]]:
    """A service whose topics all nodes know: replicas ask for topics every few seconds, and one that is elected
    before does not have them."""
    with ExitStack() as stack:

        def serve(server: RocketMq) -> Service:
            made = Service(server, stack.enter_context(Client(server.settings)), tmp_path)
            stack.enter_context(closing(made))
            made.start(range(2))
            own = [f"{made.namespace}%{name}" for name in ("audit", f"buffer%{made.topic}", f"cursor%{made.topic}")]
            soon(lambda: all(knows(server, node, topic) for node in server.nodes for topic in [made.topic, *own]))
            stack.callback(lambda: print(made.worker.tail_of_log()))
            return made

        yield serve


def knows(server: RocketMq, node: Server, topic: str) -> bool:
    connection = connect(node.address, server.settings, MachineClock())
    with closing(connection):
        asked = Command(Request.GET_TOPIC_CONFIG, TopicOf(topic).to_fields())
        return connection.ask(asked).code == Answer.SUCCESS


def send_on(service: Service, tag: str, count: int = 20) -> None:
    """Until so many were accepted; the others may be stored."""
    accepted = len(service.sent) + count
    number = 0
    while len(service.sent) < accepted:
        number += 1
        service.try_to_send(number % 2, f"{tag}-{number}", delay_ms=500)


def kill(server: RocketMq, master: Server) -> Callable[[], None]:
    master.kill()

    def back() -> None:
        master.start()
        server.wait_registered(master)

    return back


def freeze(server: RocketMq, master: Server) -> Callable[[], None]:
    """It goes on where it was, and does not know yet that another is the master."""
    master.freeze()
    return master.thaw


@pytest.mark.parametrize("take_away", [kill, freeze])
def test_another_master_has_all_that_was_accepted(
    confirmed: RocketMq,
    serving: Callable[[RocketMq], Service],
    take_away: Callable[[RocketMq, Server], Callable[[], None]],
) -> None:
    service = serving(confirmed)
    send_on(service, "before")
    master = confirmed.master()
    bring_back = take_away(confirmed, master)
    try:
        confirmed.wait_for_other_master(master)
        # Two nodes may be too few until the third is back: one of them is not always in sync by itself again.
        for number in range(6):
            service.try_to_send(number % 2, f"after-{number}")
    finally:
        bring_back()
    send_on(service, "again")
    service.wait_for_all()
    soon(lambda: not service.stalled())
    service.check_each_once()
    assert LOST not in service.worker.log.read_text() + service.api.log.read_text()


def test_what_only_a_lost_master_had_is_lost_and_reported(
    unconfirmed: RocketMq, serving: Callable[[RocketMq], Service]
) -> None:
    service = serving(unconfirmed)
    send_on(service, "before")
    service.wait_for_all()
    master, others = unconfirmed.master(), unconfirmed.nodes
    others.remove(master)
    kept = set(service.sent)
    for node in others:
        node.freeze()  # killed now, they would no longer be in sync, and none could be elected
    send_on(service, "lost", count=6)
    service.wait_for_all()
    master.kill()
    for node in others:
        node.kill()
        node.start()
    unconfirmed.wait_for_other_master(master)
    service.sent = kept
    send_on(service, "after")
    service.wait_for_all()
    service.check_each_once()
    soon(lambda: LOST in service.worker.log.read_text())
    assert LOST in service.api.log.read_text()
    master.start()
    unconfirmed.wait_registered(master)
