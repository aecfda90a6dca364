"""What brokers report about rights: access control lists, and what we may do with topics and groups.

Every call blocks, at most `request_timeout_s`, and raises QueueError.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from delayline.clock import Clock
from mq.errors import QueueError, QueueUnavailable
from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Binding, Pattern
from mq.kafka.admin.cluster import PASSING_S, Cluster, admin_client
from mq.kafka.librdkafka import trouble
from mq.kafka.settings import KafkaSettings

KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.BROKER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
}
HOW = {ResourcePatternType.LITERAL: LITERAL, ResourcePatternType.PREFIXED: PREFIXED}

ANY: Any = None
"""Any name, principal or host: the library takes None, its stubs do not."""


class Access:
    """Each question has a client of its own: see `Cluster._described_group`."""

    def __init__(
        self, settings: KafkaSettings, cluster: Cluster, clock: Clock, pause: Callable[[float], object]
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._pause = pause
        self._timeout_s = settings.request_timeout_s

    def bindings(self) -> list[Binding] | None:
        """All access control lists; None where we may not list them, which is Describe on the cluster. Where brokers
        refuse it, the library answers that there are none (librdkafka 2.16), and so it does where they have no
        authorizer."""
        if "DESCRIBE" not in (self._cluster.operations() or ()):
            return None
        everything = AclBindingFilter(
            ResourceType.ANY, ANY, ResourcePatternType.ANY, ANY, ANY, AclOperation.ANY, AclPermissionType.ANY
        )
        admin = admin_client(self._settings)
        found = self._answer(admin.describe_acls(everything, request_timeout=self._timeout_s), "listing ACLs")
        return [binding for one in found if (binding := _binding(one)) is not None]

    def topic_operations(self, topic: str) -> frozenset[str] | None:
        """What we may do with the topic (READ, DESCRIBE, ...), empty where that is nothing; None where there is no
        such topic, or brokers do not report it."""
        admin, topics = admin_client(self._settings), TopicCollection([topic])
        asked = admin.describe_topics(topics, include_authorized_operations=True, request_timeout=self._timeout_s)
        return self._operations(asked[topic], f"what we may do with topic {topic!r}")

    def group_operations(self, group: str) -> frozenset[str] | None:
        """The same of a consumer group. Its coordinator is only just found where no group was asked for before."""
        give_up_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            try:
                return self._group_operations(group)
            except QueueError as error:
                passes = _has_cause(error, trouble.coordinator_moving)
                if not passes or self._clock.monotonic_s() > give_up_s or self._pause(PASSING_S):
                    raise

    def _group_operations(self, group: str) -> frozenset[str] | None:
        admin, timeout_s = admin_client(self._settings), self._timeout_s
        asked = admin.describe_consumer_groups([group], include_authorized_operations=True, request_timeout=timeout_s)
        return self._operations(asked[group], f"what we may do with group {group!r}")

    def _operations(self, future: "Future[Any]", what: str) -> frozenset[str] | None:
        try:
            allowed = self._answer(future, what).authorized_operations
        except QueueError as error:
            if _has_cause(error, trouble.no_rights):
                return frozenset()
            if _has_cause(error, trouble.no_topic) or _has_cause(error, trouble.no_group):
                return None
            raise
        return None if allowed is None else frozenset(operation.name for operation in allowed)

    def _answer(self, future: "Future[Any]", what: str) -> Any:
        with trouble.translated_errors(what):
            try:
                return future.result(self._timeout_s + 1)
            except TimeoutError as error:
                raise QueueUnavailable(f"{what}: no answer") from error


def _has_cause(error: QueueError, is_it: Callable[[KafkaError], bool]) -> bool:
    return isinstance(error.__cause__, KafkaException) and is_it(trouble.cause(error.__cause__))


def _binding(found: AclBinding) -> Binding | None:
    """None for kinds of resources that we do not use: delegation tokens, users."""
    if found.restype not in KINDS or found.resource_pattern_type not in HOW:
        return None
    pattern = Pattern(KINDS[found.restype], HOW[found.resource_pattern_type], found.name)
    allows = found.permission_type == AclPermissionType.ALLOW
    return Binding(
        Acl(pattern, operation_name(AclOperation(found.operation).name)), found.principal, found.host, allows
    )


def operation_name(name: str) -> str:
    """DESCRIBE_CONFIGS -> DescribeConfigs."""
    return "".join(part.capitalize() for part in name.split("_"))
