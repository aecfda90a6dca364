"""Brokers that are too old for a commit although others are not: the error names them, and at once."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from mq.errors import CommitUnknown
from mq.kafka.data_path.sends import Send
from tests.unit.mq.kafka.made_up_brokers import LOST
from tests.unit.mq.kafka.worker.test_wire_transactions import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    BODY,
    END,
    INIT,
    OFFSETS,
    PRODUCE,
    Scene,
)


def too_old(scene: Scene, node: int, api: ApiKey) -> None:
    """What is met where a node does not speak an API as it has to, at once and with an error that names it."""
    scene.brokers.lacks.add((node, api))
    aborted = scene.aborted(Send("orders", 0, BODY), Send("orders", 1, BODY))
    assert aborted.error.code() == KafkaError.UNSUPPORTED_VERSION
    assert f"node {node}: {api.name} 0-2" in str(aborted)
    assert "Kafka 3.0" in str(aborted)
    assert not aborted.failures
    assert not aborted.silent


@pytest.mark.parametrize(("node", "api"), [(1, PRODUCE), (2, PRODUCE), (1, OFFSETS), (1, END), (1, INIT)])
def test_a_broker_that_is_too_old_is_named_and_not_waited_for(node: int, api: ApiKey) -> None:
    scene = Scene()
    too_old(scene, node, api)
    assert scene.clock.monotonic_s() == 0
    scene.brokers.lacks.clear()  # it was replaced meanwhile
    scene.run()


@pytest.mark.parametrize("api", [ADD_PARTITIONS, ADD_OFFSETS])
def test_so_is_one_that_is_too_old_for_what_is_needed_elsewhere(api: ApiKey) -> None:
    too_old(Scene(level=1), 1, api)


def test_what_others_answer_does_not_hide_who_is_too_old() -> None:
    scene = Scene()
    scene.brokers.script(PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # node 1, which is asked as well
    too_old(scene, 2, PRODUCE)


def test_an_end_in_doubt_whose_coordinator_is_now_too_old_is_unknown() -> None:
    scene = Scene()
    connect, brokers = scene.brokers.connect, scene.brokers

    def older(node: int) -> Any:
        if END in brokers.apis():
            brokers.lacks.add((node, END))
        return connect(node)

    brokers.connect = older
    brokers.script(END, LOST)
    with pytest.raises(CommitUnknown, match="node 1: END_TXN"):
        scene.run()
