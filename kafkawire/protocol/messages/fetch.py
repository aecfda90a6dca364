"""Fetch. The proxy decodes requests, where a hidden topic may be named; responses pass it unread."""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.primitives import Buffer
from kafkawire.protocol.schema import Struct, array, int8, int16, int32, int64, record_data, string, struct_of, uuid


@dataclass(slots=True)
class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@dataclass(slots=True)
class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()


@dataclass(slots=True)
class FetchTopic(Struct):
    topic: str = string("0-12")
    topic_id: Buffer = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


@dataclass(slots=True)
class ForgottenTopic(Struct):
    topic: str = string("7-12")
    topic_id: Buffer = uuid("13+")
    partitions: list[int] = array("int32", "7+")


@dataclass(slots=True)
class FetchRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.FETCH

    cluster_id: str | None = string("12+", null="12+", tag=0, default=None)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = struct_of(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=2147483647)
    isolation_level: int = int8("4+")
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


@dataclass(slots=True)
class DivergingEpoch(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@dataclass(slots=True)
class FetchLeader(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@dataclass(slots=True)
class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@dataclass(slots=True)
class AbortedTransaction(Struct):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


@dataclass(slots=True)
class FetchedPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: DivergingEpoch | None = struct_of(DivergingEpoch, "12+", tag=0)
    current_leader: FetchLeader | None = struct_of(FetchLeader, "12+", tag=1)
    snapshot_id: SnapshotId | None = struct_of(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, "4+", null="4+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Buffer | None = record_data(null="0+")


@dataclass(slots=True)
class FetchedTopic(Struct):
    topic: str = string("0-12")
    topic_id: Buffer = uuid("13+")
    partitions: list[FetchedPartition] = array(FetchedPartition)


@dataclass(slots=True)
class FetchResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.FETCH

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchedTopic] = array(FetchedTopic)
