"""The scripted broker follows its script, whatever the client is."""

from collections.abc import Iterator
from contextlib import closing
from threading import Event
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, Producer

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, Malformed
from kafkawire.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.brokers.kafka import KafkaAt
from tests.brokers.scripted import (
    CUT_AFTER,
    CUT_BEFORE,
    FORWARD,
    Act,
    Altered,
    Asked,
    Held,
    Instead,
    Late,
    Script,
    Scripted,
)
from tests.integration.kafka.conftest import soon
from tests.integration.proxy.wire_client import WireClient

INIT_VERSION = 4
TRANSACTION = 1


@pytest.fixture
def scripted(kafka: KafkaAt) -> Iterator[Scripted]:
    with closing(Scripted(kafka.bootstrap_servers)) as broker:
        yield broker


@pytest.fixture
def client(scripted: Scripted) -> Iterator[WireClient]:
    with closing(WireClient(scripted.bootstrap_servers)) as one:
        yield one


def on(api: ApiKey, act: Act) -> Script:
    return lambda asked: act if asked.api == api else FORWARD


def found(client: WireClient, name: str) -> FindCoordinatorResponse:
    return client.ask(FindCoordinatorRequest(name, TRANSACTION), 3, FindCoordinatorResponse)


def initialised(client: WireClient, name: str) -> InitProducerIdResponse:
    return client.ask(InitProducerIdRequest(name, 10_000), INIT_VERSION, InitProducerIdResponse)


def epoch_of(scripted: Scripted, name: str) -> int:
    """How often a producer has been initialised, this time included."""
    with closing(WireClient(scripted.upstream)) as other:
        return soon(lambda: answer if not (answer := initialised(other, name)).error_code else None).producer_epoch


def ready(client: WireClient) -> str:
    """A transactional id whose coordinator has it loaded."""
    name = f"txn-{uuid4()}"
    soon(lambda: found(client, name).error_code == 0)  # the first question makes the coordinators' topic
    soon(lambda: initialised(client, name).error_code == 0)
    return name


def test_clients_stay_behind_it(kafka: KafkaAt, scripted: Scripted, client: WireClient) -> None:
    metadata = client.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    place = found(client, ready(client))
    real = int(kafka.bootstrap_servers.rpartition(":")[2])
    assert {broker.port for broker in metadata.brokers} == {place.port}
    assert place.port != real
    with closing(WireClient(f"127.0.0.1:{place.port}")) as other:
        other.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    behind = [asked.node for asked in scripted.seen if asked.api == ApiKey.METADATA]
    assert behind == [-1, metadata.brokers[0].node_id]


def test_a_request_that_is_cut_before_was_not_carried_out(scripted: Scripted, client: WireClient) -> None:
    name = ready(client)
    scripted.script = on(ApiKey.INIT_PRODUCER_ID, CUT_BEFORE)
    with pytest.raises(AssertionError, match="closed"):
        initialised(client, name)
    assert epoch_of(scripted, name) == 1


def test_a_request_whose_answer_is_lost_was_carried_out(scripted: Scripted, client: WireClient) -> None:
    name = ready(client)
    scripted.script = on(ApiKey.INIT_PRODUCER_ID, CUT_AFTER)
    with pytest.raises(AssertionError, match="closed"):
        initialised(client, name)
    assert epoch_of(scripted, name) == 2


def test_a_late_request_is_carried_out_when_its_time_has_come(scripted: Scripted, client: WireClient) -> None:
    name, late = ready(client), Event()
    scripted.script = on(ApiKey.INIT_PRODUCER_ID, Late(late))
    with pytest.raises(AssertionError, match="closed"):
        initialised(client, name)
    assert epoch_of(scripted, name) == 1
    late.set()
    soon(lambda: epoch_of(scripted, name) > 3)


def test_an_answer_is_held_until_it_may_come(scripted: Scripted, client: WireClient) -> None:
    name, held = ready(client), Event()

    def script(asked: Asked) -> Act:
        return Held(held) if asked.api == ApiKey.INIT_PRODUCER_ID else FORWARD

    with scripted.following(script):
        held.set()
        assert initialised(client, name).producer_epoch == 1


def test_a_client_gets_what_the_broker_never_sent(scripted: Scripted, client: WireClient) -> None:
    name = ready(client)
    with scripted.following(on(ApiKey.INIT_PRODUCER_ID, Instead(ErrorCode.NOT_COORDINATOR))):
        assert initialised(client, name).error_code == ErrorCode.NOT_COORDINATOR
    assert initialised(client, name).producer_epoch == 1


def test_an_answer_is_altered(scripted: Scripted, client: WireClient) -> None:
    name = ready(client)
    scripted.script = on(ApiKey.INIT_PRODUCER_ID, Altered(lambda data: data[:-1]))
    with pytest.raises(Malformed):
        initialised(client, name)


def test_connections_are_ended_by_client_id(scripted: Scripted, client: WireClient) -> None:
    client.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    assert scripted.hang_up(lambda client_id: client_id == "somebody else") == 0
    assert scripted.hang_up(lambda client_id: client_id == "wire-client") == 1


@pytest.mark.parametrize(
    "code",
    [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE],
)
def test_librdkafka_takes_a_refusal_for_the_brokers_own(scripted: Scripted, kafka: KafkaAt, code: ErrorCode) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"refused-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    scripted.script = on(ApiKey.PRODUCE, Instead(code))
    heard: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": scripted.bootstrap_servers, "message.timeout.ms": 500, "log_level": 0})
    producer.produce(topic, b"x", partition=0, callback=lambda error, _: heard.append(error))
    assert producer.flush(20) == 0
    expected = {int(code)} if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else {KafkaError._MSG_TIMED_OUT}
    assert {error.code() for error in heard if error is not None} == expected


def test_a_broker_that_is_not_there_ends_the_connection() -> None:
    with (
        closing(Scripted("127.0.0.1:1")) as nowhere,
        closing(WireClient(nowhere.bootstrap_servers)) as lost,
        pytest.raises((AssertionError, OSError)),
    ):
        lost.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
