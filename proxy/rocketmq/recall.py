"""RECALL_MESSAGE of what Delayline holds: a cancel, as over HTTP. OK means that it will not be delivered.

The handle has RocketMQ's five parts, and behind them queue id and offset of the message's record in the buffer:

    v1 topic broker timestamp uniqueKey queueId offset

From the record follows the message's id. The shard's owner decides the operation in the order of the log, and the
answer is given behind its commit. A handle without the last two parts is RocketMQ's own, and goes to the broker.
"""

import asyncio
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from delayline.buffer.outcome import Outcome
from delayline.buffer.record import Message, read
from delayline.errors import MalformedRecord, UnknownFormat
from delayline.names import Names
from delayline.questions.inquiry import WAITING, Found, Gone, Owners, OwnerUnavailable, State
from delayline.records.message import MessageId, Shard
from delayline.records.record import decode_body, encode_body
from mq.contract import Append, Client, LogRecord
from mq.errors import OffsetOutOfRange, PartitionUnknown, QueueError, TopicUnknown
from mq.rocketmq.naming import Place
from proxy.rocketmq.sends.request import RemotingRefusal
from proxy.rocketmq.settings import RocketmqProxySettings
from rocketmq.errors import Malformed
from rocketmq.wire.codes import Answer
from rocketmq.wire.command import Command
from rocketmq.wire.headers.send import RecallMessage
from rocketmq.wire.ids import RecallHandle, decode_recall_handle

READ_TRIES, READ_PAUSE_S = 10, 0.05
"""A record can be read milliseconds after its send was answered."""

T = TypeVar("T")


NO_SUCH = "there is no such message"


class Wanted(NamedTuple):
    """The message that a handle means."""

    shard: Shard
    offset: int
    unique_key: str


class _Refused(Exception):
    """Ends a recall."""

    def __init__(self, remark: str, code: int = Answer.ILLEGAL_OPERATION) -> None:
        super().__init__(remark)
        self.refusal = RemotingRefusal(code, f"recall failed, {remark}")


def wanted_of(request: Command, broker: str) -> Wanted | RemotingRefusal | None:
    """None where it is for the broker to answer. Codes and texts are RocketMQ's (`RecallMessageProcessor`)."""
    try:
        asked = RecallMessage.from_fields(request.fields)
        handle = decode_recall_handle(asked.recall_handle)
    except Malformed:
        return None
    if len(handle.more) < 2:
        return None
    if asked.topic != handle.topic:
        return RemotingRefusal(Answer.ILLEGAL_OPERATION, "recall failed, topic not match")
    if handle.broker != broker:
        return RemotingRefusal(Answer.ILLEGAL_OPERATION, "recall failed, broker service not available")
    return _wanted(handle) or RemotingRefusal(Answer.ILLEGAL_OPERATION, "recall handle is invalid")


def _wanted(handle: RecallHandle) -> Wanted | None:
    queue_id, offset = handle.more[:2]
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in (queue_id, offset)):
        return None
    place = Place(handle.broker, int(queue_id))
    return Wanted(Shard(handle.topic, place.name), int(offset), handle.unique_key)


class Recalls:
    """On one event loop; what blocks runs in threads."""

    def __init__(self, settings: RocketmqProxySettings, names: Names, client: Client, owners: Owners) -> None:
        self._settings = settings
        self._names = names
        self._client = client
        self._owners = owners

    async def recall(self, wanted: Wanted) -> RemotingRefusal | None:
        """None: it is cancelled, and will never be delivered."""
        try:
            message_id = await asyncio.wait_for(self._message_id(wanted), self._settings.recall_s)
            found = await self._asked(self._owners.find(message_id))
            if isinstance(found, Found) and found.state in WAITING:
                await self._cancel(message_id)
            else:
                _check_cancelled(found)
        except _Refused as error:
            return error.refusal
        except (OwnerUnavailable, TimeoutError, QueueError) as error:
            return RemotingRefusal(
                Answer.SERVICE_NOT_AVAILABLE, f"recall failed, {str(error) or 'no owner has answered'}"
            )
        return None

    async def _message_id(self, wanted: Wanted) -> MessageId:
        """Raises _Refused, QueueError."""
        topic = wanted.shard.topic
        if not self._settings.is_delay_enabled(topic):
            raise _Refused(f"the topic[{topic}] takes no delays", Answer.TOPIC_NOT_EXIST)
        for _ in range(READ_TRIES):
            if (record := await asyncio.to_thread(self._record, wanted)) is not None:
                return self._id_of(wanted, record)
            await asyncio.sleep(READ_PAUSE_S)
        raise _Refused(NO_SUCH)

    def _record(self, wanted: Wanted) -> LogRecord | None:
        """None where it cannot be read, yet or any more. Blocks. Raises _Refused, QueueError."""
        topic, partition = wanted.shard
        try:
            found = self._client.read(self._names.buffer(topic), partition, wanted.offset, 1)
        except (TopicUnknown, PartitionUnknown) as error:
            raise _Refused(NO_SUCH) from error
        except OffsetOutOfRange:
            return None
        return found[0] if found else None

    def _id_of(self, wanted: Wanted, record: LogRecord) -> MessageId:
        """Raises _Refused."""
        try:
            found = read(record.body, record.appended_at_ms, self._settings.rules_for(wanted.shard.topic))
            headers = dict(decode_body(record.body).headers)
        except (MalformedRecord, UnknownFormat) as error:
            raise _Refused(NO_SUCH) from error
        if not isinstance(found, Message) or headers.get(b"UNIQ_KEY") != wanted.unique_key.encode():
            raise _Refused(NO_SUCH)
        return MessageId(wanted.shard, wanted.offset, found.due_ms)

    async def _cancel(self, message_id: MessageId) -> None:
        """Raises _Refused, OwnerUnavailable, TimeoutError, QueueError."""
        shard = message_id.shard
        body = encode_body(None, None, [(b"delay-op", b"cancel"), (b"delay-ref", str(message_id).encode())])
        append = Append(self._names.buffer(shard.topic), shard.partition, body)
        (position,) = await self._asked(self._client.append([append]))
        resolution = await self._asked(self._owners.decided(shard, position.offset))
        if resolution.outcome is not Outcome.APPLIED:
            _check_cancelled(await self._asked(self._owners.find(message_id)))

    async def _asked(self, future: "Future[T]") -> T:
        """Raises TimeoutError, and what the future does."""
        return await asyncio.wait_for(asyncio.wrap_future(future), self._settings.recall_s)


def _check_cancelled(found: Found | Gone | None) -> None:
    """As RocketMQ refuses a handle whose time has passed: raises _Refused."""
    if not isinstance(found, Found):
        raise _Refused("timestamp invalid: the message has ended")
    if found.state is not State.CANCELLED:
        raise _Refused(f"the message is {found.state.value}")
