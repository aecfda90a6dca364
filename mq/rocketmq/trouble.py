"""What RocketMQ's answers mean: the only place where its codes have a meaning.

1         the broker failed in some way, and the message may have been stored; with too few replicas it was not, and
          may be tried again (`PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH`, which has no code of its own)
2, 14     busy, or its store takes nothing now: it was not stored, and may be tried again
13        the message is not permitted: too large, or its properties
16        neither the account nor the topic's permissions let one write
17, 29    no such topic, or no such queue of it, on this broker
"""

from mq.errors import PartitionUnknown, QueueError, QueueUnavailable, RecordTooLarge, TopicUnknown
from rocketmq.errors import InvalidRequest, Refused, RocketmqError, Unreachable
from rocketmq.wire.codes import Answer

_BUSY = frozenset({Answer.SYSTEM_BUSY, Answer.SERVICE_NOT_AVAILABLE, Answer.FLOW_CONTROL, Answer.GO_AWAY})
_TOO_FEW_REPLICAS = "in-sync replicas not enough"
_NO_PLACE = frozenset({Answer.TOPIC_NOT_EXIST, Answer.INVALID_PARAMETER})
_REFUSED = frozenset({Answer.MESSAGE_ILLEGAL, Answer.NO_PERMISSION, *_NO_PLACE})


def is_busy(error: RocketmqError) -> bool:
    """It was not stored, and may be a moment later."""
    if not isinstance(error, Refused):
        return False
    return error.code in _BUSY or (error.code == Answer.SYSTEM_ERROR and error.remark == _TOO_FEW_REPLICAS)


def is_refused(error: RocketmqError) -> bool:
    """It was not stored, and will not be before an operator changes something."""
    return isinstance(error, InvalidRequest) or (isinstance(error, Refused) and error.code in _REFUSED)


def is_of_record(error: RocketmqError) -> bool:
    """The record is at fault, and not the topic."""
    illegal = isinstance(error, Refused) and error.code == Answer.MESSAGE_ILLEGAL
    return illegal or isinstance(error, InvalidRequest)


def is_not_stored(error: RocketmqError) -> bool:
    """For certain nothing was stored."""
    return isinstance(error, Unreachable) or is_busy(error) or is_refused(error)


def queue_error(error: RocketmqError, doing: str) -> QueueError:
    """The error of the contract, for a request that is no commit."""
    text = f"{doing}: {error}"
    if is_of_record(error):
        return RecordTooLarge(text)
    if isinstance(error, Refused) and error.code == Answer.TOPIC_NOT_EXIST:
        return TopicUnknown(text)
    if isinstance(error, Refused) and error.code == Answer.INVALID_PARAMETER:
        return PartitionUnknown(text)
    return QueueUnavailable(text)
