"""Answers as clients get them: versions, addresses, hidden topics."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.names import Names
from kafkawire.client.address import Address
from kafkawire.protocol.apis import APIS, ApiKey, is_let_through
from kafkawire.protocol.errors import ErrorCode, WireError
from kafkawire.protocol.message import Message, decode, encode
from kafkawire.protocol.messages.cluster import (
    ApiVersion,
    ApiVersionsResponse,
    ClusterBroker,
    Coordinator,
    DescribeClusterResponse,
    FinalizedFeature,
    FindCoordinatorResponse,
)
from kafkawire.protocol.messages.metadata import (
    DescribedTopic,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    MetadataTopicName,
    TopicCursor,
)
from kafkawire.protocol.messages.produce import NodeEndpoint, ProducedPartition, ProducedTopic, ProduceResponse
from proxy.kafka.view.rewrite import Hidden, View, conceal, response_is_read, rewrite_response, unsupported_version
from tests.unit.mq.kafka.tables import values, versions

REAL = "real-host-"
HIDDEN = Hidden(lambda name: name.startswith("delayline.buffer."), b"delayline.buffer.")
BUFFER = "delayline.buffer.orders"


def address_of(node_id: int, real: Address) -> Address:
    assert real == Address(f"{REAL}{node_id}", 9092)
    return Address("proxy", 19000 + node_id)


VIEW = View(address_of, HIDDEN)


def rewritten(message: Message, version: int, asked: tuple[str, ...] = ()) -> bytes:
    body = memoryview(b"".join(encode(message, version)))
    return b"".join(rewrite_response(message.api, version, body, VIEW, asked))


def broker(node_id: int) -> MetadataBroker:
    return MetadataBroker(node_id, f"{REAL}{node_id}", 9092)


def topic(name: str) -> MetadataTopic:
    return MetadataTopic(name=name, partitions=[MetadataPartition(0, 0, 2, replica_nodes=[1, 2], isr_nodes=[2])])


def metadata(*names: str) -> MetadataResponse:
    return MetadataResponse(brokers=[broker(1), broker(2)], topics=[topic(name) for name in names])


every_metadata = pytest.mark.parametrize("version", versions(MetadataResponse))


@every_metadata
def test_metadata_shows_the_proxys_addresses_and_is_otherwise_the_same(version: int) -> None:
    message = metadata("orders", "mail")
    message.controller_id = 2 if version >= 1 else -1
    answer = decode(MetadataResponse, version, rewritten(message, version))
    for one in message.brokers:
        one.host, one.port = "proxy", 19000 + one.node_id
    assert answer == message


@every_metadata
def test_metadata_of_all_topics_leaves_out_what_is_hidden(version: int) -> None:
    answer = decode(MetadataResponse, version, rewritten(metadata("a", BUFFER, "z"), version))
    assert answer.topics == [topic("a"), topic("z")]


@every_metadata
def test_a_hidden_topic_that_was_asked_for_does_not_exist(version: int) -> None:
    answer = decode(MetadataResponse, version, rewritten(metadata("a", BUFFER), version, (BUFFER,)))
    unknown = MetadataTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=BUFFER)
    assert answer.topics == [topic("a"), unknown]


@pytest.mark.slow
@given(values(MetadataResponse))
def test_whatever_metadata_carries_only_hosts_and_ports_change(drawn: tuple[MetadataResponse, int]) -> None:
    message, version = drawn
    view = View(lambda node, _: Address("proxy", 1), HIDDEN)
    body = memoryview(b"".join(encode(message, version)))
    answer = decode(MetadataResponse, version, b"".join(rewrite_response(ApiKey.METADATA, version, body, view)))
    for one in message.brokers:
        if one.node_id >= 0 and one.host:
            one.host, one.port = "proxy", 1
    assert answer == message


@pytest.mark.parametrize("asked", [(), (BUFFER,)])
def test_a_description_of_topics_hides_the_same_way(asked: tuple[str, ...]) -> None:
    message = DescribeTopicPartitionsResponse(topics=[DescribedTopic(name="a"), DescribedTopic(name=BUFFER)])
    answer = decode(DescribeTopicPartitionsResponse, 0, rewritten(message, 0, asked))
    shown = [(one.name, one.error_code) for one in answer.topics]
    assert shown == [("a", 0), *((name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in asked)]


@pytest.mark.parametrize("version", range(10, 13))
def test_a_new_leader_in_an_answer_to_produce_is_the_proxys(version: int) -> None:
    message = ProduceResponse(
        responses=[ProducedTopic("orders", [ProducedPartition(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)])],
        node_endpoints=[NodeEndpoint(2, f"{REAL}2", 9092, "rack")],
    )
    data = rewritten(message, version)
    assert REAL.encode() not in data
    assert decode(ProduceResponse, version, data).node_endpoints == [NodeEndpoint(2, "proxy", 19002, "rack")]


def test_an_answer_to_produce_without_a_new_leader_passes_as_it_is() -> None:
    body = memoryview(b"".join(encode(ProduceResponse(responses=[ProducedTopic("orders", [])]), 10)))
    assert rewrite_response(ApiKey.PRODUCE, 10, body, VIEW) == [body]
    assert not response_is_read(ApiKey.PRODUCE, 9)
    assert not response_is_read(ApiKey.FETCH, 15)


@pytest.mark.parametrize("version", versions(FindCoordinatorResponse))
def test_a_coordinator_is_found_at_the_proxys_address(version: int) -> None:
    message = FindCoordinatorResponse()
    if version < 4:
        message.node_id, message.host, message.port = 1, f"{REAL}1", 9092
    else:
        message.coordinators = [Coordinator("g", 1, f"{REAL}1", 9092), Coordinator("h", -1, "", -1, 15)]
    answer = decode(FindCoordinatorResponse, version, rewritten(message, version))
    if version < 4:
        assert (answer.node_id, answer.host, answer.port) == (1, "proxy", 19001)
    else:
        assert answer.coordinators == [Coordinator("g", 1, "proxy", 19001), Coordinator("h", -1, "", -1, 15)]


@pytest.mark.parametrize("version", versions(DescribeClusterResponse))
def test_a_description_of_the_cluster_shows_the_proxys_addresses(version: int) -> None:
    message = DescribeClusterResponse(brokers=[ClusterBroker(2, f"{REAL}2", 9092)])
    answer = decode(DescribeClusterResponse, version, rewritten(message, version))
    assert answer.brokers == [ClusterBroker(2, "proxy", 19002)]


def test_controllers_are_none_of_the_proxys() -> None:
    message = DescribeClusterResponse(endpoint_type=2, brokers=[ClusterBroker(100, "controller", 9093)])
    assert decode(DescribeClusterResponse, 1, rewritten(message, 1)) == message


@pytest.mark.parametrize("version", versions(ApiVersionsResponse))
def test_only_what_both_broker_and_proxy_have_is_offered(version: int) -> None:
    offered = [(0, 0, 13), (1, 4, 18), (3, 0, 13), (18, 0, 5), (76, 1, 1), (78, 1, 2), (999, 0, 3), (15, 7, 9)]
    message = ApiVersionsResponse(api_keys=[ApiVersion(*row) for row in offered])
    if version >= 3:
        message.finalized_features = [FinalizedFeature("transaction.version", 2, 2)]
    answer = decode(ApiVersionsResponse, version, rewritten(message, version))
    shown = [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys]
    assert shown == [(0, 0, 12), (1, 4, 15), (3, 0, 13), (18, 0, 4)]
    assert answer.finalized_features == message.finalized_features


def test_a_broker_that_does_not_know_the_version_of_the_question_is_understood() -> None:
    refused = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 3)])
    body = memoryview(b"".join(encode(refused, 0)))
    assert b"".join(rewrite_response(ApiKey.API_VERSIONS, 4, body, VIEW)) == body


def test_the_proxys_own_refusal_names_the_versions_it_has() -> None:
    answer = decode(ApiVersionsResponse, 0, b"".join(unsupported_version()))
    assert answer == ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 4)])


@pytest.mark.parametrize("version", versions(MetadataRequest))
def test_a_question_for_a_hidden_topic_does_not_reach_the_broker(version: int) -> None:
    request = MetadataRequest(topics=[MetadataTopicName(name="a"), MetadataTopicName(name=BUFFER)])
    found = conceal(ApiKey.METADATA, version, memoryview(b"".join(encode(request, version))), HIDDEN)
    assert found.asked == (BUFFER,)
    assert [one.name for one in decode(MetadataRequest, version, b"".join(found.body)).topics or ()] == ["a"]


def test_a_description_of_a_hidden_topic_alone_is_asked_for_as_it_is() -> None:
    request = DescribeTopicPartitionsRequest(topics=[DescribedTopicName(BUFFER)])
    body = memoryview(b"".join(encode(request, 0)))
    assert conceal(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body, HIDDEN) == ([body], (BUFFER,))


@pytest.mark.parametrize(
    ("cursor", "shown"),
    [
        (None, None),
        (TopicCursor("orders", 3), TopicCursor("orders", 3)),
        (TopicCursor(BUFFER, 3), TopicCursor("delayline.buffer/", 0)),
    ],
)
def test_a_list_that_breaks_off_at_a_hidden_topic_goes_on_behind_all_of_them(
    cursor: TopicCursor | None, shown: TopicCursor | None
) -> None:
    answer = DescribeTopicPartitionsResponse(topics=[DescribedTopic(name="a")], next_cursor=cursor)
    found = decode(DescribeTopicPartitionsResponse, 0, memoryview(rewritten(answer, 0)))
    assert (found.next_cursor, [topic.name for topic in found.topics]) == (shown, ["a"])


@pytest.mark.parametrize(
    ("name", "next_shown"),
    [("ns.audit", "ns.dlq."), ("ns.dlq.", None), ("ns.dlq.a", None), ("ns.owners", "ns.retry."), ("ns.rules", "ns/")],
)
def test_a_list_that_breaks_off_at_a_hidden_topic_goes_on_with_the_next_that_is_shown(
    name: str, next_shown: str | None
) -> None:
    names = Names("ns")
    view = View(address_of, Hidden(names.is_hidden, b"ns.", shown=names.group_prefixes))
    answer = DescribeTopicPartitionsResponse(next_cursor=TopicCursor(name, 3))
    body = memoryview(b"".join(encode(answer, 0)))
    changed = b"".join(rewrite_response(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body, view))
    found = decode(DescribeTopicPartitionsResponse, 0, memoryview(changed))
    assert found.next_cursor == (TopicCursor(name, 3) if next_shown is None else TopicCursor(next_shown, 0))


@pytest.mark.parametrize("topics", [None, [], [MetadataTopicName(name="a-delayline.buffer.")]])
def test_a_question_that_names_nothing_hidden_goes_on_as_it_is(topics: list[MetadataTopicName] | None) -> None:
    body = memoryview(b"".join(encode(MetadataRequest(topics=topics), 12)))
    assert conceal(ApiKey.METADATA, 12, body, HIDDEN) == ([body], ())


@given(st.sampled_from(sorted(APIS)), st.integers(0, 13), st.binary(max_size=80), st.booleans())
def test_arbitrary_bytes_are_rewritten_or_refused_and_nothing_else(
    key: int, version: int, noise: bytes, marked: bool
) -> None:
    body = memoryview(noise + b"delayline.buffer." if marked else noise)
    view = View(lambda node, real: real, HIDDEN)
    with suppress(WireError):
        conceal(key, version, body, HIDDEN)
    if response_is_read(key, version):
        with suppress(WireError):
            rewrite_response(key, version, body, view, ("delayline.buffer.x",))


def test_the_mark_is_taken_literally() -> None:
    hidden = Hidden(lambda name: False, b"a.b")
    assert not hidden.may_be_in(b"axb")
    assert hidden.may_be_in(memoryview(b"-a.b-"))
    assert re.escape(b"a.b") != b"a.b"


def test_share_groups_are_not_offered_whatever_the_broker_has() -> None:
    """Without ShareGroupHeartbeat (76) none begins; ShareFetch (78) and ShareAcknowledge (79) name brokers' own
    addresses."""
    offered = ApiVersionsResponse(api_keys=[ApiVersion(key, 0, 2) for key in (3, 76, 78, 79)])
    body = memoryview(b"".join(encode(offered, 3)))
    shown = decode(ApiVersionsResponse, 3, b"".join(rewrite_response(ApiKey.API_VERSIONS, 3, body, VIEW)))
    assert [one.api_key for one in shown.api_keys] == [3]
    assert not any(is_let_through(key, version) for key in (76, 78, 79) for version in range(3))
