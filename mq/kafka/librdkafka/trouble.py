"""What librdkafka and the brokers answer, as errors of `mq.errors`. Nowhere else does a Kafka error code appear.

Classes of codes are those of `org.apache.kafka.common.protocol.Errors`; negative ones are librdkafka's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from mq.errors import PartitionUnknown, QueueError, QueueUnavailable, RecordTooLarge, TopicUnknown

_NO_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_OF_RECORD = _TOO_LARGE | {
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_MSG_SIZE,
}
"""INVALID_MSG (CORRUPT_MESSAGE, 2) is not among them: a batch that was damaged on its way, which clients send again
(`CorruptRecordException` is retriable; `rd_kafka_err_action` retries it). For what is wrong with a record itself, a
missing key included, brokers have INVALID_RECORD since 2.4 (KIP-467)."""
_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
}
_NOT_A_MEMBER = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID, KafkaError._ASSIGNMENT_LOST}
_OLD_GENERATION = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.REBALANCE_IN_PROGRESS,
}
_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
_COORDINATOR_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
_FENCED = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}


def cause(error: KafkaException) -> KafkaError:
    """What the exception carries."""
    found = error.args[0]
    assert isinstance(found, KafkaError)
    return found


def queue_error(error: KafkaError, what: str) -> QueueError:
    """The error for callers who asked for `what`."""
    text = f"{what}: {error.str()}"
    code = error.code()
    if code in _NO_TOPIC:
        return TopicUnknown(text)
    if code == KafkaError._UNKNOWN_PARTITION:
        return PartitionUnknown(text)
    if code in _TOO_LARGE:
        return RecordTooLarge(text)
    return QueueUnavailable(text)


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Turn what the library raises into errors of ours. Raises QueueError."""
    try:
        yield
    except KafkaException as error:
        raise queue_error(cause(error), what) from error


def of_record(error: KafkaError) -> bool:
    """One record is at fault: it would be refused again and alone."""
    return error.code() in _OF_RECORD


def too_large(error: KafkaError) -> bool:
    """Larger than its topic takes."""
    return error.code() in _TOO_LARGE


def forbidden(error: KafkaError) -> bool:
    """We may not: make the topic, or write to it."""
    return error.code() in _FORBIDDEN


def no_topic(error: KafkaError) -> bool:
    """There is no such topic, or none that a pattern matches."""
    return error.code() in _NO_TOPIC


def not_a_member(error: KafkaError) -> bool:
    """The group has gone on without us: nothing that was ours is."""
    return error.code() in _NOT_A_MEMBER


def old_generation(error: KafkaError) -> bool:
    """The group has a newer generation, of which we may be a member."""
    return error.code() in _OLD_GENERATION


def unfinished(error: KafkaError) -> bool:
    """The coordinator is still ending the transaction before, and was so for as long as the library asked."""
    return error.code() == KafkaError.CONCURRENT_TRANSACTIONS


def fenced(error: KafkaError) -> bool:
    """Another producer has taken our transactional id: another worker took us for dead."""
    return error.code() in _FENCED


def end_of_partition(error: KafkaError) -> bool:
    """Everything that is committed so far has been read."""
    return error.code() == KafkaError._PARTITION_EOF


def out_of_range(error: KafkaError) -> bool:
    """The log does not hold the offset that was asked for."""
    return error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def moving(error: KafkaError) -> bool:
    """The partition's leader is changing, or has not yet heard how often it has (KIP-320): ask again."""
    return error.code() in _MOVING


def fatal(error: KafkaError) -> bool:
    """The client that reports it will never do anything again; another one may."""
    return error.fatal() or error.code() == KafkaError._FATAL


def local(error: KafkaError) -> bool:
    """The library's own word, not a broker's: mostly that no answer came."""
    return error.code() < 0


def purged(error: KafkaError) -> bool:
    """Dropped because another record of the transaction was refused."""
    return error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def timed_out(error: KafkaError) -> bool:
    """No broker has acknowledged the record in time."""
    return error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT)


def no_group(error: KafkaError) -> bool:
    return error.code() == KafkaError.GROUP_ID_NOT_FOUND


def coordinator_moving(error: KafkaError) -> bool:
    """The group's coordinator is only just found, or begins to know the group: ask again."""
    return error.code() in _COORDINATOR_MOVING


def no_rights(error: KafkaError) -> bool:
    """We may do nothing with the topic, or the group."""
    return error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)


def topic_exists(error: KafkaError) -> bool:
    return error.code() == KafkaError.TOPIC_ALREADY_EXISTS


def partitions_exist(error: KafkaError) -> bool:
    """The partitions have been added already."""
    return error.code() == KafkaError.INVALID_PARTITIONS
