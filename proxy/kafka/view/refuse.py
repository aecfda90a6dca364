"""Requests that would touch a hidden topic are answered here instead of by a broker.

A buffer topic is the log of what was accepted, and its committed offsets are cursors: no client may read it, write
it, change it or move its offsets. The whole request is refused: error 29 (TOPIC_AUTHORIZATION_FAILED) for what is
hidden and 55 (OPERATION_NOT_ATTEMPTED) for the rest, as a broker answers a request of which a part may not be done.
Requests that only read something about a topic (offsets, configuration, log directories) are relayed. Metadata's
answers are handled in `proxy.kafka.view.rewrite`.

An access control list on the brokers is the real fence; this one keeps accidents out where there is none.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import Message, decode, encode
from kafkawire.protocol.messages.fetch import FetchedPartition, FetchedTopic, FetchRequest, FetchResponse
from kafkawire.protocol.messages.offsets import (
    CommittedPartition,
    CommittedTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkawire.protocol.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest, ProduceResponse
from kafkawire.protocol.messages.topics import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigsResult,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkawire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TxnPartitionResult,
    TxnTopicResult,
)
from kafkawire.protocol.primitives import Buffer
from kafkawire.protocol.schema import ZERO_UUID
from proxy.kafka.view.rewrite import CONCEALED, Hidden

TOPIC_RESOURCE = 2
"""A topic among the resources whose configuration is altered (org.apache.kafka.common.config.ConfigResource)."""

FETCH_IDS_SINCE = 13
DELETE_IDS_SINCE = 6

_BY_ID_SINCE = {ApiKey.FETCH: FETCH_IDS_SINCE, ApiKey.DELETE_TOPICS: DELETE_IDS_SINCE}


class _Topic(NamedTuple):
    """How a request names a topic; an id of zeros is none."""

    name: str | None
    topic_id: Buffer = ZERO_UUID


Code = Callable[[_Topic], ErrorCode]


class _Guard(NamedTuple):
    """`topics` are those that a request names, `answer` refuses it with the code that each topic gets."""

    request: type[Message]
    topics: Callable[[Any], Iterator[_Topic]]
    answer: Callable[[Any, Code], Message]


def request_is_read(api_key: int) -> bool:
    """Whether a request has to be looked at whole: by `refuse` or, where a topic is only named, by `conceal`."""
    return api_key in _GUARDS or api_key in CONCEALED


def refuse(api_key: int, version: int, body: memoryview, hidden: Hidden) -> list[Buffer] | None:
    """The body of the answer to a request that names a hidden topic; None for any other, which is to be relayed.
    Raises Malformed and UnsupportedVersion."""
    if api_key not in _GUARDS:
        return None
    api = ApiKey(api_key)
    by_id = version >= _BY_ID_SINCE.get(api, version + 1) and bool(hidden.ids)
    if not by_id and not hidden.may_be_in(body):
        return None
    return refuse_decoded(decode(_GUARDS[api].request, version, body), version, hidden)


def refuse_decoded(request: Message, version: int, hidden: Hidden) -> list[Buffer] | None:
    """The same for a request that is decoded anyway: a Produce, which would be searched at the cost of its records.

    A Produce with acks=0 has no answer: its connection is to be closed.
    """
    guard = _GUARDS[request.api]
    if not any(_is_hidden(topic, hidden) for topic in guard.topics(request)):
        return None

    def code(topic: _Topic) -> ErrorCode:
        if _is_hidden(topic, hidden):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return encode(guard.answer(request, code), version)


def _is_hidden(topic: _Topic, hidden: Hidden) -> bool:
    return topic.topic_id in hidden.ids or (topic.name is not None and hidden.is_hidden(topic.name))


# --- one function per answer


def _named(request: Any) -> Iterator[_Topic]:
    return (_Topic(topic.name) for topic in request.topics)


def _create_topics(request: CreateTopicsRequest, code: Code) -> Message:
    return CreateTopicsResponse(
        topics=[CreatedTopic(name=topic.name, error_code=code(_Topic(topic.name))) for topic in request.topics]
    )


def _deleted(request: DeleteTopicsRequest) -> Iterator[_Topic]:
    yield from (_Topic(name) for name in request.topic_names)
    yield from (_Topic(topic.name, topic.topic_id) for topic in request.topics)


def _delete_topics(request: DeleteTopicsRequest, code: Code) -> Message:
    return DeleteTopicsResponse(
        responses=[
            DeletedTopic(name=topic.name, topic_id=topic.topic_id, error_code=code(topic))
            for topic in _deleted(request)
        ]
    )


def _delete_records(request: DeleteRecordsRequest, code: Code) -> Message:
    answer = DeleteRecordsResponse()
    for topic in request.topics:
        refused = code(_Topic(topic.name))
        results = [DeleteRecordsPartitionResult(one.partition_index, -1, refused) for one in topic.partitions]
        answer.topics.append(DeleteRecordsTopicResult(topic.name, results))
    return answer


def _create_partitions(request: CreatePartitionsRequest, code: Code) -> Message:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(topic.name, code(_Topic(topic.name))) for topic in request.topics]
    )


def _resources(request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> Iterator[_Topic]:
    return (_Topic(one.resource_name) for one in request.resources if one.resource_type == TOPIC_RESOURCE)


def _config_results(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest, code: Code
) -> Iterator[ConfigsResult]:
    for one in request.resources:
        refused = code(_Topic(one.resource_name if one.resource_type == TOPIC_RESOURCE else None))
        yield ConfigsResult(refused, None, one.resource_type, one.resource_name)


def _alter_configs(request: AlterConfigsRequest, code: Code) -> Message:
    return AlterConfigsResponse(responses=list(_config_results(request, code)))


def _incremental_alter_configs(request: IncrementalAlterConfigsRequest, code: Code) -> Message:
    return IncrementalAlterConfigsResponse(responses=list(_config_results(request, code)))


def _add_partitions(request: AddPartitionsToTxnRequest, code: Code) -> Message:
    answer = AddPartitionsToTxnResponse()
    for topic in request.topics:
        refused = code(_Topic(topic.name))
        results = [TxnPartitionResult(partition, refused) for partition in topic.partitions]
        answer.results_by_topic.append(TxnTopicResult(topic.name, results))
    return answer


def _committed(request: Any, code: Code) -> list[CommittedTopic]:
    return [
        CommittedTopic(
            topic.name,
            [CommittedPartition(one.partition_index, code(_Topic(topic.name))) for one in topic.partitions],
        )
        for topic in request.topics
    ]


def _produced(request: ProduceRequest) -> Iterator[_Topic]:
    return (_Topic(topic.name) for topic in request.topic_data)


def _produce(request: ProduceRequest, code: Code) -> Message:
    answer = ProduceResponse()
    for topic in request.topic_data:
        refused = code(_Topic(topic.name))
        results = [ProducedPartition(one.index, refused, base_offset=-1) for one in topic.partition_data]
        answer.responses.append(ProducedTopic(topic.name, results))
    return answer


def _fetched(request: FetchRequest) -> Iterator[_Topic]:
    return (_Topic(topic.topic, topic.topic_id) for topic in request.topics)


def _fetch(request: FetchRequest, code: Code) -> Message:
    """Outside any session (id 0), so that the client's next request names all its partitions again."""
    answer = FetchResponse()
    for topic in request.topics:
        refused = code(_Topic(topic.topic, topic.topic_id))
        results = [
            FetchedPartition(one.partition, refused, high_watermark=-1, records=b"") for one in topic.partitions
        ]
        answer.responses.append(FetchedTopic(topic.topic, topic.topic_id, results))
    return answer


_GUARDS: dict[ApiKey, _Guard] = {
    ApiKey.PRODUCE: _Guard(ProduceRequest, _produced, _produce),
    ApiKey.FETCH: _Guard(FetchRequest, _fetched, _fetch),
    ApiKey.OFFSET_COMMIT: _Guard(
        OffsetCommitRequest, _named, lambda request, code: OffsetCommitResponse(topics=_committed(request, code))
    ),
    ApiKey.TXN_OFFSET_COMMIT: _Guard(
        TxnOffsetCommitRequest,
        _named,
        lambda request, code: TxnOffsetCommitResponse(topics=_committed(request, code)),
    ),
    ApiKey.OFFSET_DELETE: _Guard(
        OffsetDeleteRequest, _named, lambda request, code: OffsetDeleteResponse(topics=_committed(request, code))
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _Guard(AddPartitionsToTxnRequest, _named, _add_partitions),
    ApiKey.CREATE_TOPICS: _Guard(CreateTopicsRequest, _named, _create_topics),
    ApiKey.DELETE_TOPICS: _Guard(DeleteTopicsRequest, _deleted, _delete_topics),
    ApiKey.DELETE_RECORDS: _Guard(DeleteRecordsRequest, _named, _delete_records),
    ApiKey.CREATE_PARTITIONS: _Guard(CreatePartitionsRequest, _named, _create_partitions),
    ApiKey.ALTER_CONFIGS: _Guard(AlterConfigsRequest, _resources, _alter_configs),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _Guard(IncrementalAlterConfigsRequest, _resources, _incremental_alter_configs),
}
