"""Requests that make, change or delete topics: decoded only where one of them names a hidden topic."""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.primitives import Buffer
from kafkawire.protocol.schema import Struct, array, boolean, int8, int16, int32, int64, string, uuid


@dataclass(slots=True)
class ReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array("int32")


@dataclass(slots=True)
class TopicConfig(Struct):
    name: str = string()
    value: str | None = string(null="0+")


@dataclass(slots=True)
class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[ReplicaAssignment] = array(ReplicaAssignment)
    configs: list[TopicConfig] = array(TopicConfig)


@dataclass(slots=True)
class CreateTopicsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+")


@dataclass(slots=True)
class CreatedTopicConfig(Struct):
    name: str = string("5+")
    value: str | None = string("5+", null="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+")


@dataclass(slots=True)
class CreatedTopic(Struct):
    name: str = string()
    topic_id: Buffer = uuid("7+")
    error_code: int = int16()
    error_message: str | None = string("1+", null="0+")
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatedTopicConfig] | None = array(CreatedTopicConfig, "5+", null="5+")


@dataclass(slots=True)
class CreateTopicsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS

    throttle_time_ms: int = int32("2+")
    topics: list[CreatedTopic] = array(CreatedTopic)


@dataclass(slots=True)
class DeletedTopicName(Struct):
    name: str | None = string("6+", null="6+", default=None)
    topic_id: Buffer = uuid("6+")


@dataclass(slots=True)
class DeleteTopicsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    topics: list[DeletedTopicName] = array(DeletedTopicName, "6+")
    topic_names: list[str] = array("string", "0-5")
    timeout_ms: int = int32()


@dataclass(slots=True)
class DeletedTopic(Struct):
    name: str | None = string(null="6+")
    topic_id: Buffer = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", null="5+", default=None)


@dataclass(slots=True)
class DeleteTopicsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS

    throttle_time_ms: int = int32("1+")
    responses: list[DeletedTopic] = array(DeletedTopic)


@dataclass(slots=True)
class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()


@dataclass(slots=True)
class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@dataclass(slots=True)
class DeleteRecordsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@dataclass(slots=True)
class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@dataclass(slots=True)
class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@dataclass(slots=True)
class DeleteRecordsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)


@dataclass(slots=True)
class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array("int32")


@dataclass(slots=True)
class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, null="0+")


@dataclass(slots=True)
class CreatePartitionsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@dataclass(slots=True)
class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)


@dataclass(slots=True)
class CreatePartitionsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)


@dataclass(slots=True)
class AlterableConfig(Struct):
    name: str = string()
    value: str | None = string(null="0+")


@dataclass(slots=True)
class ConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@dataclass(slots=True)
class AlterConfigsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS

    resources: list[ConfigsResource] = array(ConfigsResource)
    validate_only: bool = boolean()


@dataclass(slots=True)
class ConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(null="0+")
    resource_type: int = int8()
    resource_name: str = string()


@dataclass(slots=True)
class AlterConfigsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS

    throttle_time_ms: int = int32()
    responses: list[ConfigsResult] = array(ConfigsResult)


@dataclass(slots=True)
class IncrementalConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(null="0+")


@dataclass(slots=True)
class IncrementalConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalConfig] = array(IncrementalConfig)


@dataclass(slots=True)
class IncrementalAlterConfigsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS

    resources: list[IncrementalConfigsResource] = array(IncrementalConfigsResource)
    validate_only: bool = boolean()


@dataclass(slots=True)
class IncrementalAlterConfigsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS

    throttle_time_ms: int = int32()
    responses: list[ConfigsResult] = array(ConfigsResult)
