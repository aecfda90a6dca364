"""What clients are answered. Pure."""

from collections.abc import Mapping

from proxy.rocketmq.sends.request import RemotingRefusal
from proxy.rocketmq.sends.split import Buffered
from rocketmq.errors import InvalidRequest, Malformed
from rocketmq.wire.codes import STORED
from rocketmq.wire.command import Command, answer_to
from rocketmq.wire.headers.send import SendMessageAnswer
from rocketmq.wire.ids import RecallHandle


def refused(request: Command, refusal: RemotingRefusal) -> Command:
    return answer_to(request, refusal.code, remark=refusal.remark)


def buffered_answer(sent: Buffered, answer: Command, broker: str, buffer: str) -> Command:
    """The broker's answer to a send into the buffer, as one to a send into the topic: RocketMQ's own for a message
    that it delays itself names the offset where the message waits, too. Of a single one it has the recall handle."""
    if answer.code not in STORED:
        answer.remark = answer.remark.replace(buffer, sent.topic)
    elif sent.unique_key:
        answer.fields = {**answer.fields, "transactionId": sent.unique_key, **_recall(sent, answer, broker)}
    return answer


def _recall(sent: Buffered, answer: Command, broker: str) -> Mapping[str, str]:
    """Nothing where a broker's name has a space, which separates the parts of a handle."""
    if sent.due_ms is None:
        return {}
    try:
        stored = SendMessageAnswer.from_fields(answer.fields)
        where = (str(stored.queue_id), str(stored.queue_offset))
        handle = RecallHandle(sent.topic, broker, sent.due_ms + 1, sent.unique_key, where)
        return {"recallHandle": handle.encode()}
    except (InvalidRequest, Malformed):
        return {}
