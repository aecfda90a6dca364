"""Turns the requests of the transaction's state machine into messages of the protocol, and the answers into its
events. Pure."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import TopicPartition

from delayline.errors import Bug
from kafkawire.batch.build import Records
from kafkawire.client.blocking import Connection
from kafkawire.client.steps import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    Done,
    End,
    Event,
    Identity,
    Initialise,
    Opened,
    Refused,
    Request,
    Write,
    by_topic,
)
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, Malformed
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.offsets import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
)
from kafkawire.protocol.messages.produce import (
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from kafkawire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnTopic,
)
from kafkawire.protocol.primitives import Pieces

ACKS_ALL = -1

IMPLICIT_LEVEL = 2
"""`transaction.version` from which partitions and offsets need not be added to a transaction (KIP-890)."""


class Spoken(NamedTuple):
    """The versions of an API that we use, oldest and newest: with implicit partitions, and without. To brokers the
    version shows which of the two is meant."""

    api: ApiKey
    implicit: tuple[int, int]
    explicit: tuple[int, int]
    answer: type[Message]


SPOKEN: Mapping[type[Request], Spoken] = {
    Initialise: Spoken(ApiKey.INIT_PRODUCER_ID, (4, 4), (4, 4), InitProducerIdResponse),
    AddPartitions: Spoken(ApiKey.ADD_PARTITIONS_TO_TXN, (3, 3), (3, 3), AddPartitionsToTxnResponse),
    Write: Spoken(ApiKey.PRODUCE, (12, 12), (9, 11), ProduceResponse),
    AddOffsets: Spoken(ApiKey.ADD_OFFSETS_TO_TXN, (3, 3), (3, 3), AddOffsetsToTxnResponse),
    CommitOffsets: Spoken(ApiKey.TXN_OFFSET_COMMIT, (5, 5), (3, 4), TxnOffsetCommitResponse),
    End: Spoken(ApiKey.END_TXN, (5, 5), (3, 4), EndTxnResponse),
}


def speaks_implicit(connection: Connection) -> bool:
    """Whether the cluster is at a level where partitions are implicit, and this broker has the versions for it."""
    if connection.features.get("transaction.version", 0) < IMPLICIT_LEVEL:
        return False
    theirs = connection.versions
    return all(
        theirs.get(one.api, (0, -1))[1] >= one.implicit[0] for one in SPOKEN.values() if one.implicit != one.explicit
    )


# --- whose offsets


class Member(NamedTuple):
    """A member of the group, as brokers check it before they take offsets."""

    group: str
    generation: int
    member: str
    instance: str | None

    @classmethod
    def of(cls, metadata: bytes) -> "Member":
        """Parse what librdkafka hands on to producers (`rd_kafka_consumer_group_metadata_write`). It does not
        document the layout, so an unknown one is a Bug of ours.

            "CGMDv2:" | int32 generation, native | group NUL | member NUL | 01 for no instance, else 00 instance NUL
        """
        magic, rest = metadata[: len(_MAGIC)], metadata[len(_MAGIC) :]
        parts = rest[_GENERATION.size :].split(b"\0", 2)
        if magic != _MAGIC or len(parts) != 3 or parts[2][:1] not in (b"\x00", b"\x01"):
            raise Bug(f"librdkafka describes a group's member as {metadata!r}")
        (generation,) = _GENERATION.unpack_from(rest)
        instance = None if parts[2][0] else parts[2][1:-1].decode()
        return cls(parts[0].decode(), generation, parts[1].decode(), instance)


_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")


class Terms(NamedTuple):
    """What a transaction's requests have in common, and what they carry."""

    transactional_id: str
    transaction_timeout_ms: int
    batches: Sequence[Records] = ()
    offsets: Sequence[TopicPartition] = ()
    member: Member = Member("", -1, "", None)


# --- requests


def message_of(request: Request, terms: Terms) -> Message:
    """Every request but a Write, of which several share a message: `produce`."""
    match request:
        case Initialise():
            return InitProducerIdRequest(terms.transactional_id, terms.transaction_timeout_ms)
        case AddPartitions(identity, places):
            topics = [TxnTopic(topic, numbers) for topic, numbers in by_topic(places)]
            return AddPartitionsToTxnRequest(terms.transactional_id, *identity, topics)
        case AddOffsets(identity):
            return AddOffsetsToTxnRequest(terms.transactional_id, *identity, terms.member.group)
        case CommitOffsets(identity):
            return _offsets(identity, terms)
        case End(identity):
            return EndTxnRequest(terms.transactional_id, *identity, committed=True)
    raise Bug(f"{request} is not a request of its own")


def _offsets(identity: Identity, terms: Terms) -> TxnOffsetCommitRequest:
    """Metadata ends with a NUL, as librdkafka writes it: its readers expect one (see `mq.kafka.worker.cursors`)."""
    group, generation, member, instance = terms.member
    topics: dict[str, list[TxnOffsetCommitPartition]] = {}
    for one in terms.offsets:
        metadata = f"{one.metadata or ''}\0"
        partition = TxnOffsetCommitPartition(one.partition, one.offset, committed_metadata=metadata)
        topics.setdefault(one.topic, []).append(partition)
    return TxnOffsetCommitRequest(
        transactional_id=terms.transactional_id,
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[TxnOffsetCommitTopic(topic, partitions) for topic, partitions in topics.items()],
    )


def produce(writes: Iterable[Write], terms: Terms, timeout_ms: int) -> ProduceRequest:
    """One batch for each of several partitions."""
    topics: dict[str, list[ProducePartition]] = {}
    for identity, (topic, partition), sequence, number in writes:
        batch: Any = Pieces(terms.batches[number].batch(*identity, sequence))
        topics.setdefault(topic, []).append(ProducePartition(partition, batch))
    data = [ProduceTopic(topic, partitions) for topic, partitions in topics.items()]
    return ProduceRequest(terms.transactional_id, ACKS_ALL, timeout_ms, data)


# --- answers


def event_of(request: Request, answer: Message, terms: Terms, implicit: bool) -> Event:
    """`implicit`: whether the broker that was asked for a producer id has partitions implicit. An answer that lacks
    some of what was asked is no acknowledgement."""
    match answer:
        case InitProducerIdResponse(error_code=0):
            return Opened(Identity(answer.producer_id, answer.producer_epoch), implicit)
        case AddPartitionsToTxnResponse() if isinstance(request, AddPartitions):
            return _added(request, answer)
        case TxnOffsetCommitResponse():
            return _offsets_taken(request, terms, answer)
        case EndTxnResponse(error_code=0) if answer.producer_id >= 0:
            return Done(request, Identity(answer.producer_id, answer.producer_epoch))
        case InitProducerIdResponse() | AddOffsetsToTxnResponse() | EndTxnResponse():
            return _event(request, answer.error_code)
    raise Bug(f"{type(answer).__name__} for {request}")


def _event(request: Request, code: int) -> Event:
    return Refused(request, code) if code else Done(request)


def _offsets_taken(request: Request, terms: Terms, answer: TxnOffsetCommitResponse) -> Event:
    codes = {(topic.name, one.partition_index): one.error_code for topic in answer.topics for one in topic.partitions}
    is_whole = all((one.topic, one.partition) in codes for one in terms.offsets)
    return _event(request, next(filter(None, codes.values()), 0 if is_whole else ErrorCode.UNKNOWN_SERVER_ERROR))


def _added(request: AddPartitions, answer: AddPartitionsToTxnResponse) -> Event:
    codes = {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in answer.results_by_topic
        for one in topic.results_by_partition
    }
    of_places = tuple((place, code) for place, code in codes.items() if code)
    if not of_places:
        return _event(request, 0 if codes.keys() >= set(request.places) else ErrorCode.UNKNOWN_SERVER_ERROR)
    attempted = [code for _, code in of_places if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return Refused(request, attempted[0] if attempted else of_places[0][1], of_places)


def produced(writes: Sequence[Write], answer: ProduceResponse) -> list[tuple[Write, ProducedPartition]]:
    """The outcome of each write. Raises Malformed where the answer lacks one."""
    found = {(topic.name, one.index): one for topic in answer.responses for one in topic.partition_responses}
    try:
        return [(write, found[write.place]) for write in writes]
    except KeyError as error:
        raise Malformed(f"the answer to a Produce lacks {error}") from None
