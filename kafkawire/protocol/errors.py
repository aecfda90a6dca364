"""What can be wrong with bytes of the Kafka protocol, and the protocol's own error numbers.

    PeerError                    theirs: what a client or a broker sent cannot be served
    ├── Unreachable              no answer: nothing was sent
    │   └── NoToken              there is nothing to log in with right now
    ├── AnswerLost               no answer: the request may have been carried out
    ├── NotAuthenticated         the broker refused us, or is not who it should be
    ├── TopicMissing             the cluster has no such topic, or no such partition
    └── WireError                bytes that cannot be read; the connection they came on cannot go on
        ├── Malformed            not the message that its header names
        ├── FrameTooLarge        a length prefix beyond the limit, or below zero
        ├── Truncated            the stream ended where an answer was expected, or inside one
        ├── UnsupportedVersion   an API or a version of it that is not let through
        └── BatchError           the records of one partition; the rest of the request is sound
            ├── MalformedBatch   not one whole v2 batch: lengths, counts or varints that do not fit
            ├── CorruptBatch     the checksum does not fit the bytes
            ├── UnsupportedCompression   not in this version of Produce
            └── BatchTooLarge    decompressed, it would pass the limit

Arbitrary bytes raise these and nothing else. A `BatchError` carries the error that its partition is answered with;
no other module turns an exception of this family into a number.
"""

from enum import IntEnum
from typing import ClassVar

from delayline.errors import DelaylineError


class ErrorCode(IntEnum):
    """Those of `org.apache.kafka.common.protocol.Errors` that are sent or have to be understood."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    TRANSACTIONAL_ID_NOT_FOUND = 105
    TRANSACTION_ABORTABLE = 120


class PeerError(DelaylineError):
    """What a client or a broker sent cannot be served."""


class Unreachable(PeerError):
    """No answer: nothing was sent."""


class NoToken(Unreachable):
    """There is nothing to log in with right now: the source of tokens gives none."""


class AnswerLost(PeerError):
    """No answer: the request may have been carried out."""


class TopicMissing(PeerError):
    """The cluster has no such topic, or no such partition."""


class NotAuthenticated(PeerError):
    """The broker refused us, or is not who it should be."""


class NotAllowed(PeerError):
    """The broker knows us, and we may not do this."""


class WireError(PeerError):
    """Bytes that cannot be read."""


class Malformed(WireError):
    """Bytes that are not the message that they should be."""


class FrameTooLarge(WireError):
    """A frame longer than the limit, or of a length below zero."""


class Truncated(WireError):
    """The stream ended, between two frames or inside one."""


class UnsupportedVersion(WireError):
    """An API, or a version of it, that is not let through."""


class BatchError(WireError):
    """The records of one partition cannot be taken; `code` is the answer to the partition."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_RECORD


class MalformedBatch(BatchError):
    """Not one whole batch of the v2 format."""


class CorruptBatch(BatchError):
    """The checksum does not fit."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnsupportedCompression(BatchError):
    """A compression that this version of Produce may not use."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class BatchTooLarge(BatchError):
    """Decompressed, the records would take more than the limit."""

    code = ErrorCode.MESSAGE_TOO_LARGE
