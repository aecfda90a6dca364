"""Transactions, and what a broker remembers of producers (KIP-98, KIP-664, KIP-890)."""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.schema import Struct, array, boolean, int8, int16, int32, int64, string


@dataclass(slots=True)
class InitProducerIdRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID

    transactional_id: str | None = string(null="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@dataclass(slots=True)
class InitProducerIdResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()


@dataclass(slots=True)
class TxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class AddPartitionsToTxnRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN

    transactional_id: str = string("0-3")
    producer_id: int = int64("0-3")
    producer_epoch: int = int16("0-3")
    topics: list[TxnTopic] = array(TxnTopic, "0-3")


@dataclass(slots=True)
class TxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


@dataclass(slots=True)
class TxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[TxnPartitionResult] = array(TxnPartitionResult)


@dataclass(slots=True)
class AddPartitionsToTxnResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN

    throttle_time_ms: int = int32()
    results_by_topic: list[TxnTopicResult] = array(TxnTopicResult, "0-3")


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@dataclass(slots=True)
class AddOffsetsToTxnResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN

    throttle_time_ms: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class EndTxnRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.END_TXN

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@dataclass(slots=True)
class EndTxnResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.END_TXN

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


@dataclass(slots=True)
class ProducersTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array("int32")


@dataclass(slots=True)
class DescribeProducersRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS

    topics: list[ProducersTopic] = array(ProducersTopic)


@dataclass(slots=True)
class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@dataclass(slots=True)
class PartitionProducers(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


@dataclass(slots=True)
class TopicProducers(Struct):
    name: str = string()
    partitions: list[PartitionProducers] = array(PartitionProducers)


@dataclass(slots=True)
class DescribeProducersResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS

    throttle_time_ms: int = int32()
    topics: list[TopicProducers] = array(TopicProducers)


@dataclass(slots=True)
class DescribeTransactionsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS

    transactional_ids: list[str] = array("string")


@dataclass(slots=True)
class TransactionTopic(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class DescribedTransaction(Struct):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TransactionTopic] = array(TransactionTopic)


@dataclass(slots=True)
class DescribeTransactionsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS

    throttle_time_ms: int = int32()
    transaction_states: list[DescribedTransaction] = array(DescribedTransaction)


@dataclass(slots=True)
class ListTransactionsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS

    state_filters: list[str] = array("string")
    producer_id_filters: list[int] = array("int64")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", null="2+", default=None)


@dataclass(slots=True)
class ListedTransaction(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@dataclass(slots=True)
class ListTransactionsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array("string")
    transaction_states: list[ListedTransaction] = array(ListedTransaction)


@dataclass(slots=True)
class MarkedTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array("int32")


@dataclass(slots=True)
class Marker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[MarkedTopic] = array(MarkedTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


@dataclass(slots=True)
class WriteTxnMarkersRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS

    markers: list[Marker] = array(Marker)


@dataclass(slots=True)
class MarkedPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class MarkedTopicResult(Struct):
    name: str = string()
    partitions: list[MarkedPartition] = array(MarkedPartition)


@dataclass(slots=True)
class MarkerResult(Struct):
    producer_id: int = int64()
    topics: list[MarkedTopicResult] = array(MarkedTopicResult)


@dataclass(slots=True)
class WriteTxnMarkersResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS

    markers: list[MarkerResult] = array(MarkerResult)
