"""CHECK_TRANSACTION_STATE, by which a broker asks a producer for the outcome of a half message: where that is for a
buffer, the producer sees the message as it was sent. Pure.

The question's body is the half message, with its real topic in the place of its topic, and as REAL_TOPIC
(`AbstractTransactionalMessageCheckListener.sendCheckMessage`). Its fields name places, and the topic of all half
messages; they stay, because the answer, END_TRANSACTION, has them. What RocketMQ's own delays have become is among
the properties as a directive.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from mq.rocketmq.sent import as_sent
from rocketmq.errors import InvalidRequest, WireError
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command, Encoding
from rocketmq.wire.properties import encode_properties
from rocketmq.wire.stored import StoredMessage, encode_message, read_messages

REAL_TOPIC = "REAL_TOPIC"

TopicOf = Callable[[str], str | None]
"""The topic whose buffer this is; None where it is none of ours. Both by their names in RocketMQ."""

_CODE = re.compile(rb'"code"\s*:\s*%d\b' % Request.CHECK_TRANSACTION_STATE)


def may_be_check(head: memoryview) -> bool:
    """False is certain. Hot: once for each frame of a broker; `peek` costs six times as much."""
    return head[0] != Encoding.JSON or _CODE.search(head) is not None


def as_its_producer_knows(check: Command, topic_of: TopicOf) -> Command | None:
    """None where it is to pass as it came: it is about another message, or cannot be read."""
    try:
        for half in read_messages(check.body, checks_crc=False).messages:
            if (topic := topic_of(half.topic)) is not None:
                return replace(check, body=encode_message(_as_sent(half, topic)))
    except (WireError, InvalidRequest):
        pass
    return None


def _as_sent(half: StoredMessage, topic: str) -> StoredMessage:
    """Raises Malformed, InvalidRequest."""
    text = encode_properties({**half.properties_map(), REAL_TOPIC: topic})
    (sent,), sys_flag = as_sent([BatchMember(half.body, text)])
    return half._replace(
        topic=topic, properties=sent.properties.encode(), flag=sent.flag, sys_flag=half.sys_flag | sys_flag
    )
