"""What brokers answer about rights, as the library reports it."""

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from delayline.clock import ManualClock
from mq.errors import QueueUnavailable
from mq.kafka.admin import access as module
from mq.kafka.admin.access import Access
from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Binding, Pattern
from mq.kafka.settings import KafkaSettings

SETTINGS = KafkaSettings(bootstrap_servers="k1:9092", request_timeout_s=1.0)
ALLOWED = SimpleNamespace(authorized_operations=[AclOperation.READ, AclOperation.DESCRIBE])


def done(answer: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    if isinstance(answer, int):
        future.set_exception(KafkaException(KafkaError(answer)))
    else:
        future.set_result(answer)
    return future


class Admin:
    """Answers one after the other; a number is the code of an error. The last one is repeated."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def _next(self) -> "Future[Any]":
        return done(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])

    def describe_consumer_groups(self, groups: Sequence[str], **_: Any) -> dict[str, "Future[Any]"]:
        return dict.fromkeys(groups, self._next())

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, "Future[Any]"]:
        return {"orders": self._next()}

    def describe_acls(self, wanted: Any, **_: Any) -> "Future[Any]":
        return self._next()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


def asking(monkeypatch: pytest.MonkeyPatch, clock: ManualClock, *answers: Any, may: str = "DESCRIBE") -> Access:
    admin = Admin(*answers)
    monkeypatch.setattr(module, "admin_client", lambda _: admin)
    cluster: Any = SimpleNamespace(operations=lambda: frozenset({may}))
    return Access(SETTINGS, cluster, clock, lambda seconds: clock.advance(int(seconds * 1000)))


def test_a_coordinator_that_is_only_just_found_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    moving = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
    assert asking(monkeypatch, clock, *moving, ALLOWED).group_operations("g") == {"READ", "DESCRIBE"}
    with pytest.raises(QueueUnavailable):
        asking(monkeypatch, clock, *moving).group_operations("g")
    assert clock.monotonic_s() > SETTINGS.request_timeout_s


@pytest.mark.parametrize(
    ("code", "operations"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, frozenset()),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, frozenset()),
        (KafkaError.GROUP_ID_NOT_FOUND, None),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, None),
    ],
)
def test_what_is_refused_allows_nothing_and_what_is_not_there_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, code: int, operations: frozenset[str] | None
) -> None:
    access = asking(monkeypatch, clock, code)
    assert (access.group_operations("g"), access.topic_operations("orders")) == (operations, operations)


def test_lists_are_read_where_we_may_and_are_not_known_where_we_may_not(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    prefixed, literal = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    listed = [
        AclBinding(ResourceType.TOPIC, "ns.", prefixed, "User:a", "*", AclOperation.ALTER_CONFIGS, allow),
        AclBinding(ResourceType.BROKER, "kafka-cluster", literal, "User:a", "10.0.0.1", AclOperation.ALL, deny),
    ]
    assert asking(monkeypatch, clock, listed, may="ALTER_CONFIGS").bindings() is None
    assert asking(monkeypatch, clock, listed).bindings() == [
        Binding(Acl(Pattern("topic", PREFIXED, "ns."), "AlterConfigs"), "User:a", "*", allows=True),
        Binding(Acl(Pattern("cluster", LITERAL, "kafka-cluster"), "All"), "User:a", "10.0.0.1", allows=False),
    ]
