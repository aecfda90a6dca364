"""Topics of Delayline's own that are deleted: a shard stalls, and nothing is lost or delivered again silently."""

import pytest

from rocketmq.client.client import Client
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.integration.rocketmq.service import QUEUES, Service, delete
from tests.integration.rocketmq.waiting import soon

pytestmark = pytest.mark.thorough
SHARDS = {f"{BROKER}:{number}" for number in range(QUEUES)}


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_journal_that_was_deleted_is_a_cursor_that_is_lost(
    service: Service, rocketmq: RocketMqAt, client: Client, is_killed: bool
) -> None:
    service.send([0, 1], "delivered")
    service.wait_for_all()
    soon(lambda: service.pending() == 0)
    service.worker.kill() if is_killed else service.worker.stop()
    delete(rocketmq, client, f"{service.namespace}%cursor%{service.topic}")
    service.worker.start()
    service.worker.wait_alive()
    soon(lambda: {(shard, "cursor_lost") for shard in SHARDS} <= service.stalled())
    found = [one.tag for one in service.delivered()]
    assert len(found) == len(set(found))


def test_a_buffer_that_was_deleted_behind_its_route_is_no_empty_one(
    service: Service, rocketmq: RocketMqAt, client: Client
) -> None:
    service.send([0, 1], "waits", delay_ms=600_000)
    soon(lambda: service.pending() == 2)
    service.worker.kill()
    delete(rocketmq, client, f"{service.namespace}%buffer%{service.topic}", routes=False)
    service.worker.start()
    service.worker.wait_alive()
    soon(lambda: {(shard, "buffer_recreated") for shard in SHARDS} <= service.stalled())
