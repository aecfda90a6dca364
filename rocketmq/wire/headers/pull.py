"""Reading: pulls, offsets of queues and groups, single messages."""

from dataclasses import dataclass
from enum import IntFlag

from rocketmq.wire.schema import Fields, named


class PullFlag(IntFlag):
    """Bits of a pull's sysFlag (`PullSysFlag`)."""

    COMMIT_OFFSET = 0x1
    SUSPEND = 0x2
    SUBSCRIPTION = 0x4
    CLASS_FILTER = 0x8
    LITE_PULL = 0x10


@dataclass(frozen=True, slots=True)
class PullMessage(Fields):
    """PULL_MESSAGE and LITE_PULL_MESSAGE. Without SUBSCRIPTION among the flags the broker uses what a consumer of the
    group has sent by heartbeat, and answers 24 where there is none."""

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class PullMessageAnswer(Fields):
    """The messages are the body. `next_begin_offset` is where to go on, whatever the answer's code."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None


@dataclass(frozen=True, slots=True)
class QueueOf(Fields):
    """GET_MAX_OFFSET, GET_MIN_OFFSET, GET_EARLIEST_MSG_STORETIME. A topic that is not known has 0, without an
    error. GET_MAX_OFFSET counts what can be pulled: brokers of 5.5.0 pass over the `committed` of Java's header."""

    topic: str
    queue_id: int
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class OffsetAnswer(Fields):
    """Of those that ask for an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class TimestampAnswer(Fields):
    """Of GET_EARLIEST_MSG_STORETIME."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class SearchOffset(Fields):
    """SEARCH_OFFSET_BY_TIMESTAMP. `boundary_type` is `lower`, the first at or after the time, or `upper`, the last
    at it."""

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class QueryConsumerOffset(Fields):
    """QUERY_CONSUMER_OFFSET. A group without one has 0 for a young queue, unless `set_zero_if_not_found` is false:
    then 22."""

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class UpdateConsumerOffset(Fields):
    """UPDATE_CONSUMER_OFFSET. Any offset is taken; the group has to be there, whatever its name (26)."""

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class ViewMessage(Fields):
    """VIEW_MESSAGE_BY_ID: the message at this offset of the commit log, as the body."""

    offset: int
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class QueryMessage(Fields):
    """QUERY_MESSAGE: messages with this key, stored between two times."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    index_type: str | None = None
    last_key: str | None = None
    broker: str | None = named("bname", None)
