"""What is asked of a broker: sends, pulls, offsets, recalls.

Each question goes to the master of the broker that the queue names. `..._later` gives a future, so that many can
be under way on one connection; the others wait. Both raise what `Client` documents.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import NamedTuple, TypeVar

from rocketmq.client.masters import Masters
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import InvalidRequest, Malformed
from rocketmq.wire.batch import BatchMember, encode_batch
from rocketmq.wire.bodies import (
    Queue,
)
from rocketmq.wire.codes import STORED, Answer, Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.pull import (
    OffsetAnswer,
    PullFlag,
    PullMessage,
    PullMessageAnswer,
    QueryConsumerOffset,
    QueueOf,
    SearchOffset,
    UpdateConsumerOffset,
    ViewMessage,
)
from rocketmq.wire.headers.send import (
    RecallMessage,
    RecallMessageAnswer,
    SendMessageAnswer,
    SendMessageV2,
)
from rocketmq.wire.ids import decode_recall_handle
from rocketmq.wire.properties import encode_properties
from rocketmq.wire.stored import StoredMessage, read_messages

PRODUCER_GROUP = "rocketmq-client"
PULL_GROUP = "CID_RMQ_SYS_client"
"""Groups of this beginning may pull without being there."""
PULL_MESSAGES_MAX = 1000

T = TypeVar("T")


class Sent(NamedTuple):
    """`code` is one of `codes.STORED`: other than 0, the message is stored less safely than was asked for."""

    code: int
    answer: SendMessageAnswer


class PullStatus(Enum):
    """What a pull has brought."""

    FOUND = "messages"
    NOTHING_YET = "the offset is the end of the queue"
    NONE_MATCH = "messages, but none that the expression takes"
    OFFSET_MOVED = "the queue does not have this offset"


_PULLED = {
    int(Answer.SUCCESS): PullStatus.FOUND,
    int(Answer.PULL_NOT_FOUND): PullStatus.NOTHING_YET,
    int(Answer.PULL_RETRY_IMMEDIATELY): PullStatus.NONE_MATCH,
    int(Answer.PULL_OFFSET_MOVED): PullStatus.OFFSET_MOVED,
}


class Pulled(NamedTuple):
    """`next_offset` is where to go on, whatever the status."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage]


class BrokerRequests:
    """Part of `Client`."""

    def __init__(self, settings: ClientSettings, masters: Masters, clock: RocketmqClock) -> None:
        self._settings = settings
        self._masters = masters
        self._clock = clock

    # --- sending

    def send_later(
        self,
        queue: Queue,
        body: bytes,
        properties: Mapping[str, str] | None = None,
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_ms: int | None = None,
        reconsume_times: int = 0,
    ) -> Future[Sent]:
        """One message. `sys_flag` marks a body that is compressed already."""
        text = encode_properties(properties or {})
        header = self._send_header(queue, text, flag, sys_flag, born_ms, reconsume_times, is_batch=False)
        command = Command(Request.SEND_MESSAGE_V2, header.to_fields(), self._checked(body))
        return self._masters.start(queue, command, _sent, STORED)

    def send(
        self, queue: Queue, body: bytes, properties: Mapping[str, str] | None = None, *, sys_flag: int = 0
    ) -> Sent:
        return self.send_later(queue, body, properties, sys_flag=sys_flag).result()

    def send_one_way(self, queue: Queue, body: bytes, properties: Mapping[str, str] | None = None) -> None:
        """Whether it was stored stays unknown."""
        header = self._send_header(queue, encode_properties(properties or {}), 0, 0, None, 0, is_batch=False)
        command = Command(Request.SEND_MESSAGE_V2, header.to_fields(), self._checked(body))
        self._masters.send_one_way(queue, command)

    def send_batch_later(
        self, queue: Queue, members: Iterable[BatchMember], *, born_ms: int | None = None, sys_flag: int = 0
    ) -> Future[Sent]:
        """All or none of them. A broker passes over the delays of members: they are delivered at once."""
        body = self._checked(encode_batch(members))
        if not body:
            raise InvalidRequest("a batch without members")
        header = self._send_header(queue, "", 0, sys_flag, born_ms, 0, is_batch=True)
        return self._masters.start(
            queue, Command(Request.SEND_BATCH_MESSAGE, header.to_fields(), body), _sent, STORED
        )

    def send_batch(self, queue: Queue, members: Iterable[BatchMember]) -> Sent:
        return self.send_batch_later(queue, members).result()

    def _send_header(
        self,
        queue: Queue,
        properties: str,
        flag: int,
        sys_flag: int,
        born_ms: int | None,
        reconsume_times: int,
        *,
        is_batch: bool,
    ) -> SendMessageV2:
        return SendMessageV2(
            producer_group=PRODUCER_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=self._clock.now_ms() if born_ms is None else born_ms,
            flag=flag,
            properties=properties,
            reconsume_times=reconsume_times,
            unit_mode=False,
            batch=is_batch,
            broker=queue.broker,
        )

    def _checked(self, body: bytes) -> bytes:
        if len(body) > self._settings.body_bytes_max:
            raise InvalidRequest(f"a body of {len(body)} bytes; brokers take {self._settings.body_bytes_max}")
        return body

    # --- pulling

    def pull_later(
        self,
        queue: Queue,
        offset: int,
        *,
        messages_max: int = PULL_MESSAGES_MAX,
        wait_s: float = 0.0,
        group: str = PULL_GROUP,
        expression: str = "*",
    ) -> Future[Pulled]:
        """From `offset` on. With `wait_s` a pull at the end of the queue is answered when a message comes."""
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_s > 0 else PullFlag(0))
        header = PullMessage(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=messages_max,
            sys_flag=int(flags),
            commit_offset=0,
            suspend_timeout_millis=round(wait_s * 1000),
            sub_version=0,
            subscription=expression,
            expression_type="TAG",
            broker=queue.broker,
        )
        command = Command(Request.PULL_MESSAGE, header.to_fields())
        return self._masters.start(queue, command, _pulled, _PULLED, self._settings.request_timeout_s + wait_s)

    def pull(
        self, queue: Queue, offset: int, *, messages_max: int = PULL_MESSAGES_MAX, wait_s: float = 0.0
    ) -> Pulled:
        return self.pull_later(queue, offset, messages_max=messages_max, wait_s=wait_s).result()

    def view_later(self, queue: Queue, commit_log_offset: int) -> Future[StoredMessage]:
        """The message at this offset of the commit log of the queue's broker. It is there as soon as its send has
        been answered, and before it can be pulled."""
        header = ViewMessage(commit_log_offset, queue.topic)
        return self._masters.start(
            queue, Command(Request.VIEW_MESSAGE_BY_ID, header.to_fields()), _one, (Answer.SUCCESS,)
        )

    def view(self, queue: Queue, commit_log_offset: int) -> StoredMessage:
        return self.view_later(queue, commit_log_offset).result()

    # --- offsets

    def max_offset(self, queue: Queue) -> int:
        """Behind the last message that can be pulled: a moment after its send was answered. 0 for a queue that is not
        known."""
        return self.max_offset_later(queue).result()

    def max_offset_later(self, queue: Queue) -> Future[int]:
        header = QueueOf(queue.topic, queue.queue_id, queue.broker)
        command = Command(Request.GET_MAX_OFFSET, header.to_fields())
        return self._masters.start(queue, command, _offset, (Answer.SUCCESS,))

    def min_offset(self, queue: Queue) -> int:
        """Of the first message that is still there."""
        return self._offset(queue, Request.GET_MIN_OFFSET, QueueOf(queue.topic, queue.queue_id, queue.broker))

    def offset_at(self, queue: Queue, stored_ms: int) -> int:
        """Of the first message stored at this time or later; behind the last one where there is none."""
        header = SearchOffset(queue.topic, queue.queue_id, stored_ms, "lower", queue.broker)
        return self._offset(queue, Request.SEARCH_OFFSET_BY_TIMESTAMP, header)

    def committed(self, group: str, queue: Queue) -> int | None:
        """None where the group has committed nothing."""
        header = QueryConsumerOffset(group, queue.topic, queue.queue_id, False, queue.broker)
        command = Command(Request.QUERY_CONSUMER_OFFSET, header.to_fields())
        answer = self._masters.ask(queue, command, (Answer.SUCCESS, Answer.QUERY_NOT_FOUND))
        return OffsetAnswer.from_fields(answer.fields).offset if answer.code == Answer.SUCCESS else None

    def commit(self, group: str, queue: Queue, offset: int) -> None:
        """Kept in memory by the broker and written to its disk every few seconds. The group has to be there, also
        one that pulls need not have."""
        header = UpdateConsumerOffset(group, queue.topic, queue.queue_id, offset, queue.broker)
        self._masters.ask(queue, Command(Request.UPDATE_CONSUMER_OFFSET, header.to_fields()))

    def _offset(self, queue: Queue, code: Request, header: QueueOf | SearchOffset) -> int:
        return _offset(self._masters.ask(queue, Command(code, header.to_fields())))

    # --- cancelling

    def recall(self, handle: str) -> str:
        """Cancel a timer message by what its sender got. Its unique key: a marker is stored, whether or not there was
        such a message."""
        found = decode_recall_handle(handle)
        header = RecallMessage(found.topic, handle, PRODUCER_GROUP, found.broker)
        queue = Queue(found.topic, found.broker, 0)
        answer = self._masters.ask(queue, Command(Request.RECALL_MESSAGE, header.to_fields()))
        return RecallMessageAnswer.from_fields(answer.fields).msg_id


def _offset(answer: Command) -> int:
    return OffsetAnswer.from_fields(answer.fields).offset


def _one(answer: Command) -> StoredMessage:
    found = read_messages(answer.body).messages
    if len(found) != 1:
        raise Malformed(f"{len(found)} messages where one was asked for")
    return found[0]


def _sent(answer: Command) -> Sent:
    return Sent(answer.code, SendMessageAnswer.from_fields(answer.fields))


def _pulled(answer: Command) -> Pulled:
    header = PullMessageAnswer.from_fields(answer.fields)
    messages = read_messages(answer.body)
    if messages.cut_bytes:
        raise Malformed(f"a pull whose last {messages.cut_bytes} bytes are no whole message")
    return Pulled(
        *(_PULLED[answer.code], header.next_begin_offset, header.min_offset, header.max_offset, messages.messages)
    )
