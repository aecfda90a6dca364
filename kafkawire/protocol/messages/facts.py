"""Facts about topics: their settings, and how far a log is replicated."""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.schema import Struct, array, boolean, int8, int16, int32, int64, string

LATEST = -1
"""Asks ListOffsets for the high watermark."""


@dataclass(slots=True)
class ListedPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


@dataclass(slots=True)
class ListedTopic(Struct):
    name: str = string()
    partitions: list[ListedPartition] = array(ListedPartition)


@dataclass(slots=True)
class ListOffsetsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS

    replica_id: int = int32(default=-1)
    isolation_level: int = int8("2+")
    topics: list[ListedTopic] = array(ListedTopic)
    timeout_ms: int = int32("10+")


@dataclass(slots=True)
class PartitionOffset(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


@dataclass(slots=True)
class TopicOffsets(Struct):
    name: str = string()
    partitions: list[PartitionOffset] = array(PartitionOffset)


@dataclass(slots=True)
class ListOffsetsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS

    throttle_time_ms: int = int32("2+")
    topics: list[TopicOffsets] = array(TopicOffsets)


@dataclass(slots=True)
class EpochPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@dataclass(slots=True)
class EpochTopic(Struct):
    topic: str = string()
    partitions: list[EpochPartition] = array(EpochPartition)


@dataclass(slots=True)
class OffsetForLeaderEpochRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH

    replica_id: int = int32("3+", default=-2)
    topics: list[EpochTopic] = array(EpochTopic)


@dataclass(slots=True)
class EpochEnd(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@dataclass(slots=True)
class EpochEnds(Struct):
    topic: str = string()
    partitions: list[EpochEnd] = array(EpochEnd)


@dataclass(slots=True)
class OffsetForLeaderEpochResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH

    throttle_time_ms: int = int32()
    topics: list[EpochEnds] = array(EpochEnds)


@dataclass(slots=True)
class ConfigsAsked(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", null="0+")


@dataclass(slots=True)
class DescribeConfigsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS

    resources: list[ConfigsAsked] = array(ConfigsAsked)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


@dataclass(slots=True)
class ConfigSynonym(Struct):
    name: str = string()
    value: str | None = string(null="0+")
    source: int = int8()


@dataclass(slots=True)
class DescribedConfig(Struct):
    name: str = string()
    value: str | None = string(null="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[ConfigSynonym] = array(ConfigSynonym)
    config_type: int = int8("3+")
    documentation: str | None = string("3+", null="0+")


@dataclass(slots=True)
class DescribedConfigs(Struct):
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribedConfig] = array(DescribedConfig)


@dataclass(slots=True)
class DescribeConfigsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS

    throttle_time_ms: int = int32()
    results: list[DescribedConfigs] = array(DescribedConfigs)
