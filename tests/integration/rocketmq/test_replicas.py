"""Two masters, of which the first has a replica that is asked to confirm what is stored: it never becomes the master,
and it may act for it (RIP-32) or not."""

from collections.abc import Iterator

import pytest

from rocketmq.client.client import Client
from rocketmq.errors import Unreachable
from rocketmq.wire.bodies import Queue
from rocketmq.wire.codes import Answer
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import BROKERS, RocketMq, started
from tests.integration.rocketmq.service import Service, kill
from tests.integration.rocketmq.waiting import soon

pytestmark = pytest.mark.thorough
A, B = BROKERS[:2]
OF_A = {(f"{A}:0", "unavailable"), (f"{A}:1", "unavailable")}


@pytest.fixture(scope="module", params=["it does not act", "it acts"])
def rocketmq(request: pytest.FixtureRequest) -> Iterator[RocketMq]:
    acts = str(request.param == "it acts").lower()
    try:
        with started(
            2,
            replicas=1,
            properties={"enableSlaveActingMaster": acts},
            replicated={"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"},
            name_server_properties={"supportActingMaster": acts},
        ) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


def test_a_replica_is_never_taken_for_its_master(service: Service, rocketmq: RocketMq, client: Client) -> None:
    service.send([0, 1, 2, 3], "waits", delay_ms=3_000)
    bring_back = kill(rocketmq, A)
    try:
        for number in range(10):
            service.send([2, 3], f"during-{number}", delay_ms=100)
        soon(lambda: service.stalled() == OF_A)
        client.names.forget(service.topic)
        assert client.names.route(service.topic).master_of(A) is None
        with pytest.raises(Unreachable, match="has no master"):
            client.broker.pull(Queue(service.topic, A, 0), 0)
        assert service.try_to_send(0, "refused").status_code == 503
        during = {tag for tag in service.sent if tag.startswith("during")}
        soon(lambda: during <= {one.tag for one in service.delivered(B)})
    finally:
        bring_back()
    service.wait_for_all()
    soon(lambda: not service.stalled())
    service.check_each_once()


def test_a_worker_that_is_started_without_the_master_knows_its_shards(service: Service, rocketmq: RocketMq) -> None:
    """Name servers keep the topics of a broker that has a replica."""
    service.send([0, 1], "waits", delay_ms=3_000)
    service.worker.kill()
    bring_back = kill(rocketmq, A)
    try:
        service.second_worker.start()
        soon(lambda: service.second_worker.wait_alive() and service.stalled(service.second_worker) == OF_A)
    finally:
        bring_back()
    service.wait_for_all()
    service.check_each_once()


def test_what_a_replica_has_not_confirmed_is_not_accepted(service: Service, rocketmq: RocketMq) -> None:
    rocketmq.replicas[0].freeze()
    try:
        answer = service.try_to_send(0, "unconfirmed")
    finally:
        rocketmq.replicas[0].thaw()
    assert answer.status_code == 503
    assert f"less safely than its broker is set to: code {Answer.FLUSH_SLAVE_TIMEOUT}" in answer.text
    soon(lambda: service.try_to_send(0, "confirmed").status_code == 201)
    service.wait_for_all()
    service.check_each_once()
