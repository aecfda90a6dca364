"""Sends, in long names and in letters, and what they are answered with."""

from collections.abc import Mapping
from dataclasses import dataclass

from rocketmq.wire.schema import Fields, named, wire_names

DEFAULT_TOPIC = "TBW102"
"""The topic whose settings a topic that is created by a send takes over."""
DEFAULT_QUEUES = 4


@dataclass(frozen=True, slots=True)
class SendMessage(Fields):
    """SEND_MESSAGE. Times in ms since the epoch; `batch` is `true` or it is none: a broker reads `1` as one
    message."""

    producer_group: str
    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str | None = None
    default_topic: str = DEFAULT_TOPIC
    default_topic_queue_nums: int = DEFAULT_QUEUES
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: int | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class SendMessageV2(Fields):
    """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the same, in letters. Brokers take it without c, d and m."""

    producer_group: str = named("a")
    topic: str = named("b")
    queue_id: int = named("e")
    sys_flag: int = named("f")
    born_timestamp: int = named("g")
    flag: int = named("h")
    properties: str | None = named("i", None)
    default_topic: str = named("c", DEFAULT_TOPIC)
    default_topic_queue_nums: int = named("d", DEFAULT_QUEUES)
    reconsume_times: int | None = named("j", None)
    unit_mode: bool | None = named("k", None)
    batch: bool | None = named("m", None)
    max_reconsume_times: int | None = named("l", None)
    broker: str | None = named("n", None)


_LONG, _SHORT = wire_names(SendMessage), wire_names(SendMessageV2)
LETTERS: Mapping[str, str] = {_LONG[name]: letter for name, letter in _SHORT.items()}
"""Of a long name, the letter."""


@dataclass(frozen=True, slots=True)
class SendMessageAnswer(Fields):
    """`msg_id` names where the message is stored (`ids.decode_message_id`); of a batch, one after each comma.
    `transaction_id` is the unique key; `recall_handle` is there for timer messages alone."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerSendMsgBack(Fields):
    """CONSUMER_SEND_MSG_BACK. `offset` is one of the commit log; level 0: by how often it failed, -1: dead letter."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: int | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class RecallMessage(Fields):
    """RECALL_MESSAGE. Success means that a marker was stored, not that there was such a message."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class RecallMessageAnswer(Fields):
    """The unique key of what was recalled."""

    msg_id: str


@dataclass(frozen=True, slots=True)
class EndTransaction(Fields):
    """END_TRANSACTION. `commit_or_rollback` is a `stored.TransactionState`."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class CheckTransactionState(Fields):
    """CHECK_TRANSACTION_STATE, pushed with the half message as the body."""

    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    broker: str | None = named("bname", None)
