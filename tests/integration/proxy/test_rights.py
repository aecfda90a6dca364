"""What is unpacked for a client follows from what it may write: on a broker with an authorizer."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from kafkawire.batch.compression import compress
from kafkawire.batch.head import Codec
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import RequestHeader, encode, read_response, request_frame
from kafkawire.protocol.messages import cluster, produce
from proxy.kafka.limits import KafkaLimits
from tests.conftest import started
from tests.integration.kafka.conftest import Place, soon
from tests.integration.proxy.conftest import Proxy
from tests.integration.proxy.test_split import in_buffer, in_target, produced
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import GZIP, NO_PRODUCER, batch_of, plain, with_payload

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

MIB = 1 << 20
DELAY = [("delay", b"1h")]
BOMB = with_payload(batch_of([], **NO_PRODUCER), compress(Codec.GZIP, bytes(8 * MIB), b""), GZIP, 1)
"""Whoever unpacks it meets a limit, and counts that."""

LIMITS = KafkaLimits(plain_bytes_max=2 * MIB)
EVERYBODY_ELSE = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def strict() -> "Iterator[Kafka]":
    from tests.brokers.kafka import Kafka

    properties = {"super.users": "User:root"}  # and no more the one that everybody is who does not log in
    with started(lambda: Kafka(properties=properties)) as broker:
        yield broker


@pytest.fixture
def guarded(strict: "Kafka") -> Iterator[Proxy]:
    """A proxy before it, and a topic."""
    with ExitStack() as stack:
        proxy = Proxy(Place(strict, stack), stack)
        proxy.make_topic(1)
        stack.enter_context(proxy.open(proxy.registry, kafka_limits=LIMITS))
        yield proxy


def forbid(proxy: Proxy, operation: AclOperation = AclOperation.WRITE) -> None:
    name, pattern = proxy.place.topic, ResourcePatternType.LITERAL
    acl = AclBinding(ResourceType.TOPIC, name, pattern, EVERYBODY_ELSE, "*", operation, AclPermissionType.DENY)
    for future in proxy.place.admin.create_acls([acl]).values():
        future.result(30)
    soon(lambda: sent(proxy, batch_of([plain(1)], **NO_PRODUCER)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def allow(proxy: Proxy) -> None:
    any_of = AclBindingFilter(
        ResourceType.TOPIC,
        proxy.place.topic,
        ResourcePatternType.LITERAL,
        None,  # type: ignore[arg-type]  # any principal: the library takes None here, its stubs do not
        None,  # type: ignore[arg-type]  # any host
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in proxy.place.admin.delete_acls([any_of]).values():
        future.result(30)


def asked(topic: str, records: bytes) -> produce.ProduceRequest:
    parts = [produce.ProducePartition(0, records)]
    return produce.ProduceRequest(acks=1, timeout_ms=5000, topic_data=[produce.ProduceTopic(topic, parts)])


def code_of(client: WireClient, topic: str, records: bytes) -> int:
    answer = client.ask(asked(topic, records), 9, produce.ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def unpacked(proxy: Proxy) -> float:
    """How many bombs."""
    return proxy.count("delayline_kafka_proxy_limited_total")


def sent(proxy: Proxy, records: bytes, topic: str = "") -> int:
    with closing(WireClient(f"127.0.0.1:{proxy.port + 1}")) as client:
        return code_of(client, topic or proxy.place.topic, records)


@pytest.mark.parametrize("operation", [AclOperation.WRITE, AclOperation.DESCRIBE])
def test_nothing_is_unpacked_for_a_client_that_may_not_write(guarded: Proxy, operation: AclOperation) -> None:
    assert sent(guarded, BOMB) == ErrorCode.MESSAGE_TOO_LARGE
    forbid(guarded, operation)
    with closing(WireClient(f"127.0.0.1:{guarded.port + 1}")) as client:
        for _ in range(3):
            assert code_of(client, guarded.place.topic, BOMB) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert unpacked(guarded) == 1
        allow(guarded)
        soon(lambda: code_of(client, guarded.place.topic, BOMB) == ErrorCode.MESSAGE_TOO_LARGE)
        assert unpacked(guarded) == 2


def test_nothing_is_unpacked_for_a_topic_that_is_not_there(guarded: Proxy) -> None:
    assert sent(guarded, BOMB, "orders-missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unpacked(guarded) == 0
    assert "orders-missing" not in guarded.place.admin.list_topics(timeout=30).topics


def test_a_producer_is_answered_as_by_the_broker_and_goes_on_when_it_may(guarded: Proxy) -> None:
    forbid(guarded)
    for idempotent in (True, False):
        zstd = {"compression.type": "zstd", "enable.idempotence": idempotent, "message.timeout.ms": 60_000}
        (error,) = produced(guarded, [(b"1", DELAY)], **zstd)
        assert error.code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(guarded)
    soon(lambda: produced(guarded, [(b"2", DELAY), (b"3", [])], **{"compression.type": "zstd"}) == [None, None])
    assert (in_target(guarded, 1), in_buffer(guarded, 1)) == ([3], [2])


def test_answers_keep_their_order_around_a_question_of_the_proxy(guarded: Proxy) -> None:
    with closing(WireClient(f"127.0.0.1:{guarded.port + 1}")) as client:
        requests = [
            (cluster.ApiVersionsRequest("test", "1"), 3),
            (asked(guarded.place.topic, BOMB), 9),
            (cluster.ApiVersionsRequest("test", "1"), 3),
            (asked(guarded.place.topic, BOMB), 9),
        ]
        frames = [
            b"".join(request_frame(RequestHeader(one.api, version, 70 + n, "x"), encode(one, version)))
            for n, (one, version) in enumerate(requests)
        ]
        client.send(b"".join(frames))
        answered = [read_response(one.api, version, client.payload())[0] for one, version in requests]
    assert answered == [70, 71, 72, 73]
