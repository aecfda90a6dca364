"""Three brokers behind the proxy: leaders of a topic and of its buffer differ, and move."""

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from random import Random

import pytest

from kafkawire.protocol.messages import metadata, produce
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import Place, soon
from tests.integration.proxy.conftest import Proxy, held
from tests.integration.proxy.load import Load
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import batch_of, plain

pytestmark = pytest.mark.thorough
SEED = 7


@pytest.fixture(scope="module")
def three() -> Iterator[Kafka]:
    with started(lambda: Kafka(3)) as cluster:
        yield cluster


@pytest.fixture
def opened(three: Kafka) -> Iterator[Proxy]:
    with ExitStack() as stack:
        proxy = Proxy(Place(three, stack), stack)
        stack.enter_context(proxy.open(proxy.registry))
        yield proxy


def brokers_seen(proxy: Proxy) -> list[tuple[int, int]]:
    with closing(WireClient(proxy.address)) as client:
        answer = client.ask(metadata.MetadataRequest(topics=[]), 12, metadata.MetadataResponse)
    return sorted((one.node_id, one.port) for one in answer.brokers)


def test_idempotent_producers_lose_and_repeat_nothing_when_brokers_go_and_come(three: Kafka, opened: Proxy) -> None:
    print(f"seed {SEED}")
    opened.place.make_topic(3)
    assert brokers_seen(opened) == [(n, opened.port + n) for n in (1, 2, 3)]
    load = Load(opened, Random(SEED), partitions=3)
    load.send(500)
    for node in three.nodes[1:]:
        node.kill()
        load.send(500)
        node.start()
        three.wait_ready()
        load.send(500)
    load.finish(120)
    servers = three.bootstrap_servers
    target = held(servers, opened.place.topic)
    buffer = held(servers, opened.place.buffer)
    assert Counter(int(one.value()) for one in target + buffer) == Counter(range(load.sent))
    for log in (target, buffer):
        for partition in range(3):
            values = [int(one.value()) for one in log if one.partition() == partition]
            assert values == sorted(values)


@pytest.mark.parametrize("headers", [{}, {"delay_ms": b"600000"}], ids=["immediate", "delayed"])
def test_a_leader_that_has_moved_is_named_by_the_proxys_address(
    three: Kafka, opened: Proxy, headers: dict[str, bytes]
) -> None:
    """KIP-951: from version 10 on the answer to a Produce holds the new leader's address."""
    opened.place.topic = f"orders-{len(headers)}-{opened.place.namespace}"
    opened.place.make_topic(1)
    with closing(WireClient(opened.address)) as client:
        leader = soon(lambda: leader_of(client, opened.place.topic))
    other = leader % 3 + 1
    request = produce.ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            produce.ProduceTopic(opened.place.topic, [produce.ProducePartition(0, batch_of([plain(1, **headers)]))])
        ],
    )
    with closing(WireClient(f"127.0.0.1:{opened.port + other}")) as client:
        body = bytes(client.body(request, 11))
    assert struct.pack(">i", opened.port + leader) in body
    for node in three.nodes:
        assert struct.pack(">i", node.port) not in body


def leader_of(client: WireClient, topic: str) -> int | None:
    request = metadata.MetadataRequest(topics=[metadata.MetadataTopicName(name=topic)])
    (found,) = client.ask(request, 12, metadata.MetadataResponse).topics
    return found.partitions[0].leader_id if found.partitions and found.partitions[0].leader_id > 0 else None
