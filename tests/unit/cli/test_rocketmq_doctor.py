"""What is found of RocketMQ's brokers, and of what waits there."""

import pytest

from cli.rocketmq_doctor import broker, waiting
from delayline.records.message import Shard

SHARD = Shard("orders", "a:0")
GOOD = {"maxMessageSize": "4194304", "flushDiskType": "SYNC_FLUSH", "fileReservedTime": "72"}


@pytest.mark.parametrize(
    ("changed", "levels"),
    [
        ({}, ["ok"]),
        ({"flushDiskType": "ASYNC_FLUSH"}, ["warn", "ok"]),
        ({"cleanFileForciblyEnable": "true"}, ["warn", "ok"]),
        ({"cleanFileForciblyEnable": "false"}, ["ok"]),
        ({"maxMessageSize": "65536"}, ["fail", "ok"]),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "1"}, ["warn", "ok"]),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}, ["ok"]),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "1", "allAckInSyncStateSet": "true"}, ["ok"]),
        ({"brokerRole": "SYNC_MASTER"}, ["ok"]),
    ],
)
def test_a_brokers_settings_are_judged(changed: dict[str, str], levels: list[str]) -> None:
    assert [found.level for found in broker("broker-a", {**GOOD, **changed})] == levels


@pytest.mark.parametrize(
    ("age_s", "kept_s", "count"), [(47 * 3600, 72 * 3600, 0), (49 * 3600, 72 * 3600, 1), (9e9, None, 0)]
)
def test_messages_that_wait_nearly_as_long_as_their_broker_keeps_them_are_found(
    age_s: float, kept_s: float | None, count: int
) -> None:
    found = list(waiting(SHARD, age_s, kept_s))
    assert [one.level for one in found] == ["warn"] * count
    assert [one.check for one in found] == ["orders a:0"] * count
