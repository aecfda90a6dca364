"""What the proxy remembers of a client's rights, and for how long."""

from typing import Any

import pytest

from delayline.clock import ManualClock
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import RequestHeader
from kafkawire.protocol.messages.metadata import MetadataResponse, MetadataTopic
from proxy.kafka.produce.rights import NOT_REPORTED, PROVEN_S, TOPICS_MAX, VERSION, WRITE, Denied, Rights

READ = 1 << 3
CLIENT = RequestHeader(ApiKey.PRODUCE, 9, 7, "mine")
UNAUTHORIZED = Denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def no_more(denied: object) -> None:
    """What follows is another's."""


def answer(**operations: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[MetadataTopic(name=name, topic_authorized_operations=bits) for name, bits in operations.items()]
    )


def topics(rights: Rights, *names: str) -> list[Any]:
    asked = rights.ask(names, CLIENT, no_more)
    return [] if asked is None else [topic.name for topic in asked.request.topics or ()]


def test_the_question_is_the_clients_own_and_makes_no_topic() -> None:
    asked = Rights(ManualClock()).ask(["orders"], CLIENT, no_more)
    assert asked is not None
    assert asked.header == RequestHeader(ApiKey.METADATA, VERSION, 7, "mine")
    assert asked.request.include_topic_authorized_operations
    assert not asked.request.allow_auto_topic_creation


def test_a_right_is_remembered_for_a_while_and_its_lack_is_not() -> None:
    clock = ManualClock()
    rights = Rights(clock)
    assert topics(rights, "a", "b", "a") == ["a", "b"]
    assert rights.answered(answer(a=READ | WRITE, b=READ)) == {"b": UNAUTHORIZED}
    assert topics(rights, "a", "b") == ["b"]
    clock.advance(int(PROVEN_S * 1000) - 1)
    assert topics(rights, "a") == []
    clock.advance(1)
    assert topics(rights, "a") == ["a"]


@pytest.mark.parametrize(("code", "reported"), [(29, 29), (3, 3), (17, 17), (999, -1)])
def test_an_error_of_the_broker_denies_the_topic(code: int, reported: int) -> None:
    rights = Rights(ManualClock())
    found = rights.answered(MetadataResponse(topics=[MetadataTopic(error_code=code, name="a")]))
    assert found == {"a": Denied(ErrorCode(reported))}
    assert topics(rights, "a") == ["a"]


@pytest.mark.parametrize(
    ("code", "operations", "is_missing"),
    [(3, WRITE, True), (3, READ, False), (3, NOT_REPORTED, False), (29, WRITE, False), (0, READ, False)],
)
def test_a_topic_is_missing_only_for_a_client_that_could_write_to_it(
    code: int, operations: int, is_missing: bool
) -> None:
    topic = MetadataTopic(error_code=code, name="a", topic_authorized_operations=operations)
    assert Rights(ManualClock()).answered(MetadataResponse(topics=[topic]))["a"].is_missing is is_missing


def test_a_broker_that_reports_nothing_denies_nothing() -> None:
    assert Rights(ManualClock()).answered(answer(a=NOT_REPORTED)) == {}


def test_the_memory_of_a_connection_is_bounded() -> None:
    rights = Rights(ManualClock())
    for number in range(2 * TOPICS_MAX):
        rights.answered(answer(**{f"t{number}": WRITE}))
    assert len(rights.proven_s) <= TOPICS_MAX
