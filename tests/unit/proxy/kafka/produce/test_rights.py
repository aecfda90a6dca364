"""What the proxy remembers of a client's rights, and for how long."""

from typing import Any

import pytest

from delayline.clock import ManualClock
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import RequestHeader
from kafkawire.protocol.messages.metadata import MetadataResponse, MetadataTopic
from kafkawire.protocol.messages.produce import ProduceRequest
from proxy.kafka.produce.produces import ClientProduce, PartitionBatch
from proxy.kafka.produce.rights import NOT_REPORTED, PROVEN_S, TOPICS_MAX, VERSION, WRITE, Rights
from proxy.kafka.response_order import Turn

READ = 1 << 3
TURN = Turn(ApiKey.PRODUCE, 9, 7)


def partitions() -> list[PartitionBatch]:
    header = RequestHeader(ApiKey.PRODUCE, 9, 7, "mine")
    return [PartitionBatch(ClientProduce(TURN, TURN, header, ProduceRequest(), 0, 1), "orders", 0, b"")]


def answer(**operations: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[MetadataTopic(name=name, topic_authorized_operations=bits) for name, bits in operations.items()]
    )


def topics(rights: Rights, *names: str) -> list[Any]:
    asked = rights.ask(names, partitions())
    return [] if asked is None else [topic.name for topic in asked.request.topics or ()]


def test_the_question_is_the_clients_own_and_makes_no_topic() -> None:
    asked = Rights(ManualClock()).ask(["orders"], partitions())
    assert asked is not None
    assert asked.header == RequestHeader(ApiKey.METADATA, VERSION, 7, "mine")
    assert asked.request.include_topic_authorized_operations
    assert not asked.request.allow_auto_topic_creation


def test_a_right_is_remembered_for_a_while_and_its_lack_is_not() -> None:
    clock = ManualClock()
    rights = Rights(clock)
    assert topics(rights, "a", "b", "a") == ["a", "b"]
    assert rights.answered(answer(a=READ | WRITE, b=READ)) == {"b": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert topics(rights, "a", "b") == ["b"]
    clock.advance(int(PROVEN_S * 1000) - 1)
    assert topics(rights, "a") == []
    clock.advance(1)
    assert topics(rights, "a") == ["a"]


@pytest.mark.parametrize(("code", "reported"), [(29, 29), (3, 3), (17, 17), (999, -1)])
def test_an_error_of_the_broker_denies_the_topic(code: int, reported: int) -> None:
    rights = Rights(ManualClock())
    found = rights.answered(MetadataResponse(topics=[MetadataTopic(error_code=code, name="a")]))
    assert found == {"a": reported}
    assert topics(rights, "a") == ["a"]


def test_a_broker_that_reports_nothing_denies_nothing() -> None:
    assert Rights(ManualClock()).answered(answer(a=NOT_REPORTED)) == {}


def test_the_memory_of_a_connection_is_bounded() -> None:
    rights = Rights(ManualClock())
    for number in range(2 * TOPICS_MAX):
        rights.answered(answer(**{f"t{number}": WRITE}))
    assert len(rights.proven_s) <= TOPICS_MAX
