"""Committed offsets: decoded only where a request names a hidden topic; those are the cursors of the workers."""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.schema import Struct, array, int16, int32, int64, string


@dataclass(slots=True)
class OffsetCommitPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(null="0+")


@dataclass(slots=True)
class OffsetCommitTopic(Struct):
    name: str = string("0-9")
    partitions: list[OffsetCommitPartition] = array(OffsetCommitPartition)


@dataclass(slots=True)
class OffsetCommitRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+")
    group_instance_id: str | None = string("7+", null="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitTopic] = array(OffsetCommitTopic)


@dataclass(slots=True)
class CommittedPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class CommittedTopic(Struct):
    name: str = string("0-9")
    partitions: list[CommittedPartition] = array(CommittedPartition)


@dataclass(slots=True)
class OffsetCommitResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT

    throttle_time_ms: int = int32("3+")
    topics: list[CommittedTopic] = array(CommittedTopic)


@dataclass(slots=True)
class TxnOffsetCommitPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(null="0+")


@dataclass(slots=True)
class TxnOffsetCommitTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitPartition] = array(TxnOffsetCommitPartition)


@dataclass(slots=True)
class TxnOffsetCommitRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", null="3+", default=None)
    topics: list[TxnOffsetCommitTopic] = array(TxnOffsetCommitTopic)


@dataclass(slots=True)
class TxnOffsetCommitResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT

    throttle_time_ms: int = int32()
    topics: list[CommittedTopic] = array(CommittedTopic)


@dataclass(slots=True)
class OffsetDeletePartition(Struct):
    partition_index: int = int32()


@dataclass(slots=True)
class OffsetDeleteTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeletePartition] = array(OffsetDeletePartition)


@dataclass(slots=True)
class OffsetDeleteRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE

    group_id: str = string()
    topics: list[OffsetDeleteTopic] = array(OffsetDeleteTopic)


@dataclass(slots=True)
class OffsetDeleteResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[CommittedTopic] = array(CommittedTopic)
