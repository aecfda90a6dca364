"""What a client may not do by itself, it may not do through the proxy, whose own principal may more."""

import asyncio
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
from tests.integration.kafka.behind_strict import DELAYED, client
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S
from tests.integration.kafka.strict import CLIENT, Strict, login
from tests.integration.proxy.conftest import Proxy
from tests.unit.mq.kafka.batches import GZIP, NO_PRODUCER, NONE, Sent, batch_of, plain

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.thorough

DELAYED_RECORD = plain(1, delay=b"1h")


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


def test_a_client_of_a_topic_cannot_write_into_its_buffer(guarded: Strict, proxied: Proxy) -> None:
    behind.allow_client(guarded)
    record = batch_of([DELAYED_RECORD], **NO_PRODUCER)
    assert codes(guarded.kafka.sasl_servers, guarded.buffer, record) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert codes(node(proxied), guarded.buffer, record) != [ErrorCode.NONE]
    (error,) = behind.produce(client(proxied.address), guarded.buffer, DELAYED)
    assert error is not None
    assert ends(guarded) == [0, 1]
    assert codes(node(proxied), guarded.topic, record) == [ErrorCode.NONE], "what it may do, it can"
    assert ends(guarded) == [0, 2]


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("records", [[DELAYED_RECORD], [plain(1), DELAYED_RECORD]], ids=["delayed", "mixed"])
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_client_that_may_not_write_to_a_topic_cannot_reach_it_by_a_delay(
    guarded: Strict, proxied: Proxy, acks: int, records: list[Sent], codec: int
) -> None:
    guarded.grant([Acl(Pattern("topic", LITERAL, guarded.topic), "Read")], CLIENT)
    batch = batch_of(records, codec, **NO_PRODUCER)
    assert codes(node(proxied), guarded.topic, batch, acks) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert ends(guarded) == [0, 1]


def test_not_even_without_waiting_for_an_answer(guarded: Strict, proxied: Proxy) -> None:
    guarded.grant([Acl(Pattern("topic", LITERAL, guarded.topic), "Read")], CLIENT)
    with pytest.raises(AnswerLost, match="closed"):
        codes(node(proxied), guarded.topic, batch_of([DELAYED_RECORD], **NO_PRODUCER), acks=0)
    assert ends(guarded) == [0, 1]


def test_a_client_cannot_add_to_the_transaction_of_another(guarded: Strict, proxied: Proxy) -> None:
    """The proxy may write under every client's transactional id; its clients under their own."""
    victim = Producer({"bootstrap.servers": guarded.kafka.bootstrap_servers, "transactional.id": guarded.client_id})
    victim.init_transactions(PATIENCE_S)
    victim.begin_transaction()
    victim.produce(guarded.topic, b"1", partition=1)
    victim.flush(PATIENCE_S)
    ids = guarded.described(guarded.client_id)
    topic = Pattern("topic", LITERAL, guarded.topic)
    guarded.grant([Acl(topic, "Write"), Acl(Pattern("transactional-id", PREFIXED, "mine"), "Write")], CLIENT)
    origin = {"producer_id": ids.producer_id, "producer_epoch": ids.producer_epoch, "base_sequence": 0}
    batch = batch_of([DELAYED_RECORD], transactional=True, **origin)
    refused = codes(node(proxied), guarded.topic, batch, transactional_id=guarded.client_id)
    assert refused == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert codes(node(proxied), guarded.topic, batch, transactional_id="mine") not in ([0], [])
    victim.commit_transaction(PATIENCE_S)
    assert ends(guarded) == [0, 1]
