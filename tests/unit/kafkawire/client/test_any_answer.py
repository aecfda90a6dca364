"""Whatever a broker answers, those who ask get an answer or an error that they know, soon and in little memory."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delayline.clock import SystemClock
from kafkawire.client.address import Address
from kafkawire.client.blocking import connect
from kafkawire.client.metadata import TRANSACTION, Nodes
from kafkawire.client.session import ROOM_BYTES
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import AnswerLost, PeerError
from kafkawire.protocol.message import RequestHeader, encode, response_frame
from kafkawire.protocol.messages.cluster import Coordinator, FindCoordinatorResponse
from kafkawire.protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from kafkawire.security.access import Access
from tests.tiers import examples
from tests.unit.mq.kafka.served import served

TIMEOUT_S = 2.0
BYTES_MAX = 64 << 20
CALM = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

hosts = st.sampled_from(["127.0.0.1", "", "a" * 300, "é" * 70, "127.0.0.1\0", "..", "[::1"])
int16s, int32s = st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
ports = st.sampled_from([-(1 << 31), -1, 0, 1, 65_535, 65_536, (1 << 31) - 1])
nodes_ids = st.sampled_from([-1, 0, 1, (1 << 31) - 1])
errors = st.sampled_from([0, 0, 0, 3, 5, 14, 15, 16, 29, 41, 72, -1, 32_767])
indexes = st.sampled_from([0, 0, 1, 2, -1, -(1 << 31), (1 << 31) - 1, 1 << 24])

brokers = st.builds(MetadataBroker, node_id=nodes_ids, host=hosts, port=ports)
partitions = st.builds(MetadataPartition, error_code=errors, partition_index=indexes, leader_id=nodes_ids)
topics = st.builds(
    MetadataTopic,
    error_code=errors,
    name=st.sampled_from(["orders", "payments", None]),
    topic_id=st.just(b"\0" * 16),
    partitions=st.lists(partitions, max_size=3),
)
metadata = st.builds(MetadataResponse, brokers=st.lists(brokers, max_size=3), topics=st.lists(topics, max_size=3))
coordinators = st.builds(
    Coordinator,
    key=st.sampled_from(["txn", ""]),
    node_id=nodes_ids,
    host=hosts,
    port=ports,
    error_code=errors,
    error_message=st.none() | st.text(max_size=5),
)
found = st.builds(FindCoordinatorResponse, error_code=errors, coordinators=st.lists(coordinators, max_size=3))


class Peer:
    """A broker that answers what a test scripts, or bytes made of it."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.damage: Callable[[bytes], bytes] = bytes

    def __call__(self, header: RequestHeader, body: memoryview) -> Any:
        answer = self.answers.get(header.api_key)
        if answer is None:
            return None
        encoded = encode(answer, header.version)
        frame = b"".join(response_frame(header.api_key, header.version, header.correlation_id, encoded))
        return self.damage(frame)


@pytest.fixture(scope="module")
def peer() -> Peer:
    return Peer()


@pytest.fixture(scope="module")
def address(peer: Peer) -> Iterator[Address]:
    with served(peer) as place:
        yield place


def nodes_at(address: Address) -> Nodes:
    return Nodes((address,), Access(), "tests", TIMEOUT_S, SystemClock())


def bounded(ask: Callable[[], object]) -> None:
    """Nothing but what is documented comes out, and it takes little memory."""
    tracemalloc.start()
    try:
        ask()
    except PeerError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < BYTES_MAX


@CALM
@given(metadata, st.integers(0, 3))
def test_any_metadata_gives_a_leader_or_an_error(
    peer: Peer, address: Address, answer: MetadataResponse, partition: int
) -> None:
    peer.answers, peer.damage = {ApiKey.METADATA: answer}, bytes

    def ask() -> None:
        with closing(nodes_at(address)) as nodes:
            leader = nodes.leader("orders", partition)
            assert leader >= 0
            nodes.connect(leader).close()

    bounded(ask)


@CALM
@given(found)
def test_any_word_about_a_coordinator_gives_a_node_or_an_error(
    peer: Peer, address: Address, answer: FindCoordinatorResponse
) -> None:
    peer.answers, peer.damage = {ApiKey.FIND_COORDINATOR: answer}, bytes

    def ask() -> None:
        with closing(nodes_at(address)) as nodes:
            node = nodes.coordinator(TRANSACTION, "txn")
            assert node >= 0
            nodes.connect(node).close()

    bounded(ask)


@CALM
@given(st.data())
def test_any_damage_to_an_answer_gives_an_answer_or_an_error(
    peer: Peer, address: Address, data: st.DataObject
) -> None:
    cut = data.draw(st.none() | st.integers(0, 60))
    flips = data.draw(st.lists(st.tuples(st.integers(4, 80), st.integers(0, 255)), max_size=4))
    length = data.draw(st.none() | st.integers(0, 200) | int32s)

    def damage(frame: bytes) -> bytes:
        changed = bytearray(frame)
        for at, value in flips:
            changed[at % len(changed)] = value
        if length is not None:
            changed[:4] = length.to_bytes(4, "big", signed=True)
        return bytes(changed[:cut]) + b"\0" * 200  # what follows is no answer either, and nobody has to wait for more

    topic = MetadataTopic(0, "orders", b"\1" * 16, partitions=[MetadataPartition(0, 0, 1, 0, [1], [1], [])])
    peer.answers = {
        ApiKey.METADATA: MetadataResponse(brokers=[MetadataBroker(1, "127.0.0.1", address.port)], topics=[topic]),
        ApiKey.FIND_COORDINATOR: FindCoordinatorResponse(
            coordinators=[Coordinator("txn", 1, "127.0.0.1", address.port, 0, None)]
        ),
    }
    peer.damage = damage

    def ask() -> None:
        with closing(Nodes((address,), Access(), "tests", 0.05, SystemClock())) as nodes:
            if data.draw(st.booleans()):
                nodes.leader("orders", 0)
            else:
                nodes.coordinator(TRANSACTION, "txn")

    bounded(ask)


@pytest.mark.parametrize("host", ["", "a" * 300, "é" * 70, "..", "127.0.0.1\0"])
@pytest.mark.parametrize("port", [-1, 0, 65_536])
def test_an_address_that_is_none_cannot_be_reached(host: str, port: int) -> None:
    with pytest.raises(PeerError):
        connect(Address(host, port), Access(), "tests", TIMEOUT_S, SystemClock())


def test_a_length_of_megabytes_takes_no_memory_before_they_come(peer: Peer, address: Address) -> None:
    peer.answers, peer.damage = {ApiKey.METADATA: MetadataResponse()}, lambda _: (99 << 20).to_bytes(4, "big") + b"\0"

    def ask() -> None:
        with closing(connect(address, Access(), "tests", 0.2, SystemClock())) as connection:
            connection.ask(MetadataRequest(topics=[]), 12, MetadataResponse)

    with pytest.raises(AnswerLost):
        ask()
    bounded(ask)


@pytest.mark.parametrize("length", [1, ROOM_BYTES - 100, ROOM_BYTES, ROOM_BYTES + 1, 4 * ROOM_BYTES + 7])
def test_an_answer_of_any_length_comes_whole(peer: Peer, address: Address, length: int) -> None:
    """Cluster ids are not as long, but the only field here that can be."""
    peer.answers, peer.damage = {ApiKey.METADATA: MetadataResponse(cluster_id="x" * length)}, bytes
    with closing(connect(address, Access(), "tests", TIMEOUT_S, SystemClock())) as connection:
        for _ in range(2):
            answer = connection.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            assert len(answer.cluster_id or "") == length
