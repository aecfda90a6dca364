"""Right, act, topic by the Kafka proxy: each is answered as the broker answers it, and a delay changes nothing."""

import asyncio
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewTopic

from kafkawire.client.address import Address
from kafkawire.client.aio import connect
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.messages import produce
from kafkawire.security.access import read_access
from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Pattern
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S
from tests.integration.kafka.strict import CLIENT, Strict, login
from tests.integration.proxy.conftest import Proxy
from tests.unit.mq.kafka.batches import NO_PRODUCER, Sent, batch_of, plain

if TYPE_CHECKING:
    pass

GRANTS = {
    "nothing": [],
    "read": [(LITERAL, "{topic}", "Read")],
    "describe": [(LITERAL, "{topic}", "Describe")],
    "write to another topic": [(LITERAL, "{topic}-2", "Write"), (LITERAL, "{topic}", "Read")],
    "write to the buffer": [(LITERAL, "{buffer}", "Write")],
    "write": [(LITERAL, "{topic}", "Write")],
    "write by prefix": [(PREFIXED, "orders", "Write")],
    "write to all": [(LITERAL, "*", "Write")],
    "all": [(LITERAL, "{topic}", "All")],
}
"""ACLs of a client: how their pattern matches, the pattern, and what they allow."""

MAY_WRITE = {"write", "write by prefix", "write to all", "all"}
KINDS = {"plain": [plain(1)], "delayed": [plain(1, delay=b"1h")], "mixed": [plain(1), plain(2, delay=b"1h")]}


async def _codes(address: str, topic: str, batches: list[list[Sent]]) -> list[int]:
    host, port = address.split(":")
    connection = await connect(Address(host, int(port)), read_access(login("bob")), "client", PATIENCE_S, CLOCK)
    found = []
    for records in batches:
        parts = [produce.ProducePartition(0, batch_of(records, **NO_PRODUCER))]
        request = produce.ProduceRequest(None, -1, 5000, [produce.ProduceTopic(topic, parts)])
        answer = await connection.ask(request, 11, produce.ProduceResponse, PATIENCE_S)
        found += [one.error_code for topic in answer.responses for one in topic.partition_responses]
    connection.close()
    return found


def codes(address: str, topic: str, batches: list[list[Sent]]) -> list[int]:
    """What user bob is answered for each of them, as a broker's error."""
    return asyncio.run(_codes(address, topic, batches))


@pytest.mark.parametrize("granted", GRANTS)
def test_each_record_is_allowed_or_refused_as_by_the_broker(guarded: Strict, proxied: Proxy, granted: str) -> None:
    names = {"topic": guarded.topic, "buffer": guarded.buffer}
    acls = [Acl(Pattern("topic", how, name.format(**names)), operation) for how, name, operation in GRANTS[granted]]
    if acls:
        guarded.grant(acls, CLIENT)
    by_broker = codes(guarded.kafka.sasl_servers, guarded.topic, [[plain(1)]])
    assert by_broker == [ErrorCode.NONE if granted in MAY_WRITE else ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    by_proxy = codes(f"127.0.0.1:{proxied.port + 1}", guarded.topic, list(KINDS.values()))
    assert by_proxy == by_broker * len(KINDS)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_retry_needs_the_right_to_write_to_the_topic_of_its_group(
    guarded: Strict, proxied: Proxy, is_there: bool
) -> None:
    """It is a worker that writes there, which may."""
    node, retry = f"127.0.0.1:{proxied.port + 1}", f"{guarded.namespace}.retry.billing"
    batches = [[plain(1, delay_retry=b"billing")], [plain(2, delay=b"1h"), plain(3, delay_retry=b"billing")]]
    guarded.grant([Acl(Pattern("topic", LITERAL, guarded.topic), "Write")], CLIENT)
    if is_there:
        guarded.admin.create_topics([NewTopic(retry, 1, 1)])[retry].result(PATIENCE_S)
    assert codes(node, guarded.topic, batches) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert codes(node, guarded.topic, [[plain(4, delay=b"1h")]]) == [ErrorCode.NONE], "the rest it may"
    guarded.grant([Acl(Pattern("topic", PREFIXED, f"{guarded.namespace}.retry."), "Write")], CLIENT)
    assert codes(node, guarded.topic, batches) == [ErrorCode.NONE] * 2


def test_rights_are_those_of_now(guarded: Strict, proxied: Proxy) -> None:
    """As soon as the broker goes by them, over a connection that is new."""
    node = f"127.0.0.1:{proxied.port + 1}"
    for _ in range(2):
        guarded.grant([Acl(Pattern("topic", LITERAL, guarded.topic), "Write")], CLIENT)
        assert codes(node, guarded.topic, list(KINDS.values())) == [ErrorCode.NONE] * 3
        guarded.revoke()
        guarded.grant([need.acl for need in guarded.needs("proxy")])
        assert codes(node, guarded.topic, list(KINDS.values())) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 3
