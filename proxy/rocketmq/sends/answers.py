"""What clients are answered. Pure."""

from collections.abc import Mapping

from proxy.rocketmq.sends.request import RemotingRefusal
from proxy.rocketmq.sends.split import Buffered
from rocketmq.errors import InvalidRequest, UnreadableHeader
from rocketmq.wire.codes import Answer
from rocketmq.wire.command import IS_ANSWER, Command, Encoding, answer_to
from rocketmq.wire.headers.send import SendMessageAnswer
from rocketmq.wire.ids import RecallHandle


def refused(request: Command, refusal: RemotingRefusal) -> Command:
    return answer_to(request, refusal.code, remark=refusal.remark)


def unreadable(error: UnreadableHeader) -> Command:
    """To a request of which no more is known. Brokers end the connection; with an answer the client learns why."""
    remark, encoding = f"the request's header cannot be read: {error}", Encoding(error.encoding)
    return Command(Answer.SYSTEM_ERROR, opaque=error.opaque, flag=IS_ANSWER, remark=remark, encoding=encoding)


def readdressed(
    answer: Command, opaque: int, *, fields: Mapping[str, str] | None = None, remark: str | None = None
) -> Command:
    """The answer as one to the request with this number. Hot: once for each send."""
    return Command(
        *(answer.code, answer.fields if fields is None else fields, answer.body, opaque, answer.flag),
        *(answer.remark if remark is None else remark, answer.language, answer.version, answer.encoding),
    )


def place_in(stored: SendMessageAnswer, place: int, sent: Buffered, broker: str) -> dict[str, str]:
    """What the answer to a send has in the place of `stored`, that to the request with all messages, in which those
    of the send begin at `place`. RocketMQ's own for a message that it delays itself names the offset where the
    message waits, too. Of a single one it has the recall handle. Hot."""
    offset = stored.queue_offset + place
    ids = stored.msg_id.split(",")[place : place + sent.messages]
    fields = {"queueOffset": str(offset), "msgId": ",".join(ids)}
    if sent.unique_key:
        fields["transactionId"] = sent.unique_key
        fields |= _recall(sent, stored.queue_id, offset, broker)
    return fields


def _recall(sent: Buffered, queue_id: int, offset: int, broker: str) -> Mapping[str, str]:
    """Nothing where a broker's name has a space, which separates the parts of a handle."""
    if sent.due_ms is None:
        return {}
    try:
        handle = RecallHandle(sent.topic, broker, sent.due_ms + 1, sent.unique_key, (str(queue_id), str(offset)))
        return {"recallHandle": handle.encode()}
    except InvalidRequest:
        return {}
