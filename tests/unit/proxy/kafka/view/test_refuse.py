"""Requests that name a hidden topic are answered without a broker."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.protocol.apis import APIS, ApiKey
from kafkawire.protocol.errors import ErrorCode, WireError
from kafkawire.protocol.message import Message, decode, encode
from kafkawire.protocol.messages import fetch, offsets, produce, topics, transactions
from proxy.kafka.view.refuse import TOPIC_RESOURCE, refuse, request_is_read
from proxy.kafka.view.rewrite import Hidden
from tests.unit.mq.kafka.tables import versions

BUFFER = "delayline.buffer.orders"
BUFFER_ID = b"b" * 16
OTHER_ID = b"o" * 16
HIDDEN = Hidden(lambda name: name.startswith("delayline.buffer."), b"delayline.buffer.", {BUFFER_ID})
NO, LATER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED


def with_partitions(cls: Any, partition: Any) -> Any:
    return lambda names: [cls(name, [partition()]) for name in names]


def naming(*names: str) -> dict[type[Message], Message]:
    """A request of every guarded kind that names these topics."""
    return {
        type(one): one
        for one in (
            produce.ProduceRequest(
                acks=1, topic_data=with_partitions(produce.ProduceTopic, produce.ProducePartition)(names)
            ),
            offsets.OffsetCommitRequest(
                group_id="g",
                topics=with_partitions(offsets.OffsetCommitTopic, offsets.OffsetCommitPartition)(names),
            ),
            offsets.TxnOffsetCommitRequest(
                topics=with_partitions(offsets.TxnOffsetCommitTopic, offsets.TxnOffsetCommitPartition)(names)
            ),
            offsets.OffsetDeleteRequest(
                topics=with_partitions(offsets.OffsetDeleteTopic, offsets.OffsetDeletePartition)(names)
            ),
            transactions.AddPartitionsToTxnRequest(topics=with_partitions(transactions.TxnTopic, int)(names)),
            topics.CreateTopicsRequest(topics=[topics.CreatableTopic(name) for name in names]),
            topics.DeleteRecordsRequest(
                topics=with_partitions(topics.DeleteRecordsTopic, topics.DeleteRecordsPartition)(names)
            ),
            topics.CreatePartitionsRequest(topics=[topics.CreatePartitionsTopic(name) for name in names]),
            topics.AlterConfigsRequest(resources=[topics.ConfigsResource(TOPIC_RESOURCE, name) for name in names]),
            topics.IncrementalAlterConfigsRequest(
                resources=[topics.IncrementalConfigsResource(TOPIC_RESOURCE, name) for name in names]
            ),
        )
    }


ANSWERS: dict[type[Message], type[Message]] = {
    produce.ProduceRequest: produce.ProduceResponse,
    offsets.OffsetCommitRequest: offsets.OffsetCommitResponse,
    offsets.TxnOffsetCommitRequest: offsets.TxnOffsetCommitResponse,
    offsets.OffsetDeleteRequest: offsets.OffsetDeleteResponse,
    transactions.AddPartitionsToTxnRequest: transactions.AddPartitionsToTxnResponse,
    topics.CreateTopicsRequest: topics.CreateTopicsResponse,
    topics.DeleteTopicsRequest: topics.DeleteTopicsResponse,
    topics.DeleteRecordsRequest: topics.DeleteRecordsResponse,
    topics.CreatePartitionsRequest: topics.CreatePartitionsResponse,
    topics.AlterConfigsRequest: topics.AlterConfigsResponse,
    topics.IncrementalAlterConfigsRequest: topics.IncrementalAlterConfigsResponse,
    fetch.FetchRequest: fetch.FetchResponse,
}


def refused(request: Message, version: int) -> Any:
    """The answer, decoded; None where the request may pass."""
    body = refuse(request.api, version, memoryview(b"".join(encode(request, version))), HIDDEN)
    return None if body is None else decode(ANSWERS[type(request)], version, b"".join(body))


def codes(answer: Any) -> list[int]:
    """Every error code of an answer, in order."""
    found = []
    for name in type(answer).__slots__:
        value = getattr(answer, name)
        if name.endswith("error_code") and name != "topic_config_error_code":
            found.append(value)
        elif isinstance(value, list):
            found += [code for one in value if hasattr(one, "unknown_tags") for code in codes(one)]
    return found


CASES = [(cls, version) for cls in naming() for version in versions(cls)]


def test_a_request_that_names_a_hidden_topic_is_refused_whole() -> None:
    for cls, version in CASES:
        answer = refused(naming("orders", BUFFER)[cls], version)
        top = [0] if cls is offsets.OffsetDeleteRequest else []
        assert codes(answer) == [*top, LATER, NO], (cls, version)


def test_a_request_that_names_none_passes() -> None:
    for cls, version in CASES:
        assert refused(naming("orders", "x.delayline.buffer.")[cls], version) is None, (cls, version)


@pytest.mark.parametrize("version", versions(topics.DeleteTopicsRequest))
def test_a_hidden_topic_is_not_deleted_by_name(version: int) -> None:
    request = topics.DeleteTopicsRequest()
    if version < 6:
        request.topic_names = ["orders", BUFFER]
    else:
        request.topics = [topics.DeletedTopicName("orders"), topics.DeletedTopicName(BUFFER)]
    answer = refused(request, version)
    assert [(one.name, one.error_code) for one in answer.responses] == [("orders", LATER), (BUFFER, NO)]


def test_a_hidden_topic_is_not_deleted_by_id() -> None:
    ids = [topics.DeletedTopicName(None, OTHER_ID), topics.DeletedTopicName(None, BUFFER_ID)]
    answer = refused(topics.DeleteTopicsRequest(topics=ids), 6)
    assert [(one.topic_id, one.error_code) for one in answer.responses] == [(OTHER_ID, LATER), (BUFFER_ID, NO)]
    assert refused(topics.DeleteTopicsRequest(topics=ids[:1]), 6) is None


@pytest.mark.parametrize("version", versions(fetch.FetchRequest))
def test_a_hidden_topic_is_not_read(version: int) -> None:
    partitions = [fetch.FetchPartition(0), fetch.FetchPartition(1)]
    names = ["", ""] if version >= 13 else ["orders", BUFFER]
    ids = [OTHER_ID, BUFFER_ID] if version >= 13 else [bytes(16), bytes(16)]
    wanted = [fetch.FetchTopic(name, topic_id, partitions) for name, topic_id in zip(names, ids, strict=True)]
    answer = refused(fetch.FetchRequest(topics=wanted), version)
    assert [[one.error_code for one in found.partitions] for found in answer.responses] == [[LATER] * 2, [NO] * 2]
    assert (answer.session_id, answer.error_code) == (0, 0)
    assert refused(fetch.FetchRequest(topics=wanted[:1]), version) is None


def test_the_configuration_of_something_else_with_a_hidden_name_may_change() -> None:
    request = topics.AlterConfigsRequest(resources=[topics.ConfigsResource(4, BUFFER)])
    assert refused(request, 2) is None


def test_a_name_in_the_data_of_a_request_refuses_nothing() -> None:
    records = BUFFER.encode() * 10
    request = produce.ProduceRequest(
        acks=-1, topic_data=[produce.ProduceTopic("orders", [produce.ProducePartition(0, records)])]
    )
    assert refused(request, 12) is None


def test_what_can_name_a_topic_is_read_and_the_rest_is_not() -> None:
    assert {key for key in APIS if request_is_read(key)} == {
        *(cls.api for cls in ANSWERS), ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS
    }  # fmt: skip


@given(st.sampled_from(sorted(APIS)), st.integers(0, 15), st.binary(max_size=60), st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_pass_and_nothing_else(
    key: int, version: int, before: bytes, behind: bytes
) -> None:
    with suppress(WireError):
        refuse(key, version, memoryview(before + BUFFER.encode() + behind), HIDDEN)
