"""Produce: the records of a client, and their outcomes.

`records` is a slice of the request. A client may leave it null: such a partition must never reach a broker, which
answers it by closing the connection without a word.
"""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.primitives import Buffer
from kafkawire.protocol.schema import Struct, array, int16, int32, int64, record_data, string, struct_of


@dataclass(slots=True)
class ProducePartition(Struct):
    index: int = int32()
    records: Buffer | None = record_data(null="0+")


@dataclass(slots=True)
class ProduceTopic(Struct):
    name: str = string("0-12")
    partition_data: list[ProducePartition] = array(ProducePartition)


@dataclass(slots=True)
class ProduceRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.PRODUCE

    transactional_id: str | None = string("3+", null="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[ProduceTopic] = array(ProduceTopic)


@dataclass(slots=True)
class RecordError(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", null="8+", default=None)


@dataclass(slots=True)
class CurrentLeader(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@dataclass(slots=True)
class ProducedPartition(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[RecordError] = array(RecordError, "8+")
    error_message: str | None = string("8+", null="8+", default=None)
    current_leader: CurrentLeader | None = struct_of(CurrentLeader, "10+", tag=0)


@dataclass(slots=True)
class ProducedTopic(Struct):
    name: str = string("0-12")
    partition_responses: list[ProducedPartition] = array(ProducedPartition)


@dataclass(slots=True)
class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", null="10+", default=None)


@dataclass(slots=True)
class ProduceResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.PRODUCE

    responses: list[ProducedTopic] = array(ProducedTopic)
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
