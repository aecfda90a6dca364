"""Metadata and DescribeTopicPartitions: which topics there are, and who leads them."""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.primitives import Buffer
from kafkawire.protocol.schema import Struct, array, boolean, int16, int32, string, struct_of, uuid


@dataclass(slots=True)
class MetadataTopicName(Struct):
    topic_id: Buffer = uuid("10+")
    name: str | None = string(null="10+")


@dataclass(slots=True)
class MetadataRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.METADATA

    topics: list[MetadataTopicName] | None = array(MetadataTopicName, null="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@dataclass(slots=True)
class MetadataBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", null="1+", default=None)


@dataclass(slots=True)
class MetadataPartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "5+")


@dataclass(slots=True)
class MetadataTopic(Struct):
    error_code: int = int16()
    name: str | None = string(null="12+")
    topic_id: Buffer = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataPartition] = array(MetadataPartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


@dataclass(slots=True)
class MetadataResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.METADATA

    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataBroker] = array(MetadataBroker)
    cluster_id: str | None = string("2+", null="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataTopic] = array(MetadataTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+")


@dataclass(slots=True)
class DescribedTopicName(Struct):
    name: str = string()


@dataclass(slots=True)
class TopicCursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


@dataclass(slots=True)
class DescribeTopicPartitionsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS

    topics: list[DescribedTopicName] = array(DescribedTopicName)
    response_partition_limit: int = int32(default=2000)
    cursor: TopicCursor | None = struct_of(TopicCursor, null="0+")


@dataclass(slots=True)
class DescribedPartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    eligible_leader_replicas: list[int] | None = array("int32", null="0+")
    last_known_elr: list[int] | None = array("int32", null="0+")
    offline_replicas: list[int] = array("int32")


@dataclass(slots=True)
class DescribedTopic(Struct):
    error_code: int = int16()
    name: str | None = string(null="0+")
    topic_id: Buffer = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribedPartition] = array(DescribedPartition)
    topic_authorized_operations: int = int32(default=-2147483648)


@dataclass(slots=True)
class DescribeTopicPartitionsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS

    throttle_time_ms: int = int32()
    topics: list[DescribedTopic] = array(DescribedTopic)
    next_cursor: TopicCursor | None = struct_of(TopicCursor, null="0+")
