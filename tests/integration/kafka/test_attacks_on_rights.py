"""What a client may not do by itself, it may not do through the proxy, whose own principal may more."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kafkawire.client.address import Address
from kafkawire.client.aio import connect
from kafkawire.protocol.errors import AnswerLost, ErrorCode
from kafkawire.protocol.messages import produce
from kafkawire.security.access import read_access
from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Pattern
from tests.integration.kafka import behind_strict as behind
from tests.integration.kafka.behind_strict import DELAYED, client, proxying
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S
from tests.integration.kafka.strict import CLIENT, Strict, login
from tests.integration.proxy.conftest import Proxy
from tests.unit.mq.kafka.batches import GZIP, NO_PRODUCER, NONE, Sent, batch_of, plain

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

pytestmark = pytest.mark.thorough

DELAYED_RECORD = plain(1, delay=b"1h")


@pytest.fixture
def place(strict_kafka: "Kafka") -> "Iterator[Strict]":
    with ExitStack() as stack:
        place = Strict(strict_kafka, stack)
        place.make_buffer()
        place.grant([need.acl for need in place.needs("proxy")])
        yield place


@pytest.fixture
def proxy(place: Strict) -> Iterator[Proxy]:
    with proxying(place, place.as_delayline()) as proxy:
        yield proxy


def ends(place: Strict) -> list[int]:
    """Of the target's first partition, and of the buffer's, which holds one record."""
    cluster = place.root.cluster
    return [cluster.log_range(topic, 0)[1] for topic in (place.topic, place.buffer)]


def codes(address: str, topic: str, records: bytes, acks: int = -1, transactional_id: str | None = None) -> list[int]:
    """What the client is answered for the records, as a broker's error."""
    host, port = address.split(":")
    parts = [produce.ProducePartition(0, records)]
    request = produce.ProduceRequest(transactional_id, acks, 5000, [produce.ProduceTopic(topic, parts)])
    return asyncio.run(_asked(Address(host, int(port)), request))


async def _asked(address: Address, request: produce.ProduceRequest) -> list[int]:
    connection = await connect(address, read_access(login("bob")), "client", PATIENCE_S, CLOCK)
    answer = await connection.ask(request, 11, produce.ProduceResponse, PATIENCE_S)
    connection.close()
    return [one.error_code for topic in answer.responses for one in topic.partition_responses]


def node(proxy: Proxy) -> str:
    """The port of the only node."""
    return f"127.0.0.1:{proxy.port + 1}"


def test_a_client_of_a_topic_cannot_write_into_its_buffer(place: Strict, proxy: Proxy) -> None:
    behind.allow_client(place)
    record = batch_of([DELAYED_RECORD], **NO_PRODUCER)
    assert codes(place.kafka.sasl_servers, place.buffer, record) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert codes(node(proxy), place.buffer, record) != [ErrorCode.NONE]
    (error,) = behind.produce(client(proxy.address), place.buffer, DELAYED)
    assert error is not None
    assert ends(place) == [0, 1]
    assert codes(node(proxy), place.topic, record) == [ErrorCode.NONE], "what it may do, it can"
    assert ends(place) == [0, 2]


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("records", [[DELAYED_RECORD], [plain(1), DELAYED_RECORD]], ids=["delayed", "mixed"])
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_client_that_may_not_write_to_a_topic_cannot_reach_it_by_a_delay(
    place: Strict, proxy: Proxy, acks: int, records: list[Sent], codec: int
) -> None:
    place.grant([Acl(Pattern("topic", LITERAL, place.topic), "Read")], CLIENT)
    batch = batch_of(records, codec, **NO_PRODUCER)
    assert codes(node(proxy), place.topic, batch, acks) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert ends(place) == [0, 1]


def test_not_even_without_waiting_for_an_answer(place: Strict, proxy: Proxy) -> None:
    place.grant([Acl(Pattern("topic", LITERAL, place.topic), "Read")], CLIENT)
    with pytest.raises(AnswerLost, match="closed"):
        codes(node(proxy), place.topic, batch_of([DELAYED_RECORD], **NO_PRODUCER), acks=0)
    assert ends(place) == [0, 1]


def test_a_client_cannot_add_to_the_transaction_of_another(place: Strict, proxy: Proxy) -> None:
    """The proxy may write under every client's transactional id; its clients under their own."""
    victim = Producer({"bootstrap.servers": place.kafka.bootstrap_servers, "transactional.id": place.client_id})
    victim.init_transactions(PATIENCE_S)
    victim.begin_transaction()
    victim.produce(place.topic, b"1", partition=1)
    victim.flush(PATIENCE_S)
    ids = place.described(place.client_id)
    topic = Pattern("topic", LITERAL, place.topic)
    place.grant([Acl(topic, "Write"), Acl(Pattern("transactional-id", PREFIXED, "mine"), "Write")], CLIENT)
    origin = {"producer_id": ids.producer_id, "producer_epoch": ids.producer_epoch, "base_sequence": 0}
    batch = batch_of([DELAYED_RECORD], transactional=True, **origin)
    refused = codes(node(proxy), place.topic, batch, transactional_id=place.client_id)
    assert refused == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert codes(node(proxy), place.topic, batch, transactional_id="mine") not in ([0], [])
    victim.commit_transaction(PATIENCE_S)
    assert ends(place) == [0, 1]
