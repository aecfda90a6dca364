"""What is asked of a broker: sends, pulls, offsets, locks, send-backs, recalls.

Each question goes to the master of the broker that the queue names. `..._later` gives a future, so that many can
be under way on one connection; the others wait. Both raise what `Client` documents.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from rocketmq.client.connection import BrokerConnection
from rocketmq.client.nameservers import NameServers
from rocketmq.client.refusals import check
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import AnswerLost, InvalidRequest, Malformed, Unreachable
from rocketmq.wire.batch import BatchMember, encode_batch
from rocketmq.wire.bodies import (
    Consumer,
    Queue,
    decode_consumer_ids,
    decode_locked,
    encode_heartbeat,
    encode_locks,
)
from rocketmq.wire.codes import STORED, Answer, Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import ConsumerRunningInfo, ConsumersOf, UnregisterClient
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
    ConsumerSendMsgBack,
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
PUSH_ANSWER_S = 15.0
"""A broker waits ten seconds for a client's answer to what it passes on (`Broker2Client.callClient`)."""
WRITTEN_S = 5.0
NOT_WRITTEN = "RemotingSendRequestException"
_PASSED_ON = (
    Answer.SUCCESS,
    Answer.SYSTEM_ERROR,
    Answer.REQUEST_CODE_NOT_SUPPORTED,
    Answer.CONSUME_MSG_TIMEOUT,
)
"""What a client answers, or the broker of it."""

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


class Connections(Protocol):
    """Where requests go."""

    def to(self, address: str) -> BrokerConnection:
        """An open connection. Raises Unreachable."""


class BrokerRequests:
    """Part of `Client`."""

    def __init__(
        self, settings: ClientSettings, links: Connections, names: NameServers, clock: RocketmqClock
    ) -> None:
        self._settings = settings
        self._links = links
        self._names = names
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
        return self._start(queue, command, _sent, STORED)

    def send(
        self, queue: Queue, body: bytes, properties: Mapping[str, str] | None = None, *, sys_flag: int = 0
    ) -> Sent:
        return self.send_later(queue, body, properties, sys_flag=sys_flag).result()

    def send_one_way(self, queue: Queue, body: bytes, properties: Mapping[str, str] | None = None) -> None:
        """Whether it was stored stays unknown."""
        header = self._send_header(queue, encode_properties(properties or {}), 0, 0, None, 0, is_batch=False)
        command = Command(Request.SEND_MESSAGE_V2, header.to_fields(), self._checked(body))
        self._links.to(self._names.master(queue.topic, queue.broker)).send_oneway(command)

    def send_batch_later(
        self, queue: Queue, members: Iterable[BatchMember], *, born_ms: int | None = None, sys_flag: int = 0
    ) -> Future[Sent]:
        """All or none of them. A broker passes over the delays of members: they are delivered at once."""
        body = self._checked(encode_batch(members))
        if not body:
            raise InvalidRequest("a batch without members")
        header = self._send_header(queue, "", 0, sys_flag, born_ms, 0, is_batch=True)
        return self._start(queue, Command(Request.SEND_BATCH_MESSAGE, header.to_fields(), body), _sent, STORED)

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
        return self._start(queue, command, _pulled, _PULLED, self._settings.request_timeout_s + wait_s)

    def pull(
        self, queue: Queue, offset: int, *, messages_max: int = PULL_MESSAGES_MAX, wait_s: float = 0.0
    ) -> Pulled:
        return self.pull_later(queue, offset, messages_max=messages_max, wait_s=wait_s).result()

    def view_later(self, queue: Queue, commit_log_offset: int) -> Future[StoredMessage]:
        """The message at this offset of the commit log of the queue's broker. It is there as soon as its send has
        been answered, and before it can be pulled."""
        header = ViewMessage(commit_log_offset, queue.topic)
        return self._start(queue, Command(Request.VIEW_MESSAGE_BY_ID, header.to_fields()), _one, (Answer.SUCCESS,))

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
        return self._start(queue, command, _offset, (Answer.SUCCESS,))

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
        answer = self._ask(queue, command, (Answer.SUCCESS, Answer.QUERY_NOT_FOUND))
        return OffsetAnswer.from_fields(answer.fields).offset if answer.code == Answer.SUCCESS else None

    def commit(self, group: str, queue: Queue, offset: int) -> None:
        """Kept in memory by the broker and written to its disk every few seconds. The group has to be there, also
        one that pulls need not have."""
        header = UpdateConsumerOffset(group, queue.topic, queue.queue_id, offset, queue.broker)
        self._ask(queue, Command(Request.UPDATE_CONSUMER_OFFSET, header.to_fields()))

    def _offset(self, queue: Queue, code: Request, header: QueueOf | SearchOffset) -> int:
        return _offset(self._ask(queue, Command(code, header.to_fields())))

    # --- consumers

    def lock(self, group: str, client_id: str, queues: Collection[Queue]) -> set[Queue]:
        """Those of `queues`, all of one broker, that are now this client's. A lock ends by itself after a minute
        (rocketmq.broker.rebalance.lockMaxLiveTime)."""
        return decode_locked(self._locks(Request.LOCK_BATCH_MQ, group, client_id, queues).body)

    def unlock(self, group: str, client_id: str, queues: Collection[Queue]) -> None:
        self._locks(Request.UNLOCK_BATCH_MQ, group, client_id, queues)

    def _locks(self, code: Request, group: str, client_id: str, queues: Collection[Queue]) -> Command:
        if len({queue.broker for queue in queues}) != 1:
            raise InvalidRequest("queues are locked and unlocked broker by broker")
        return self._ask(next(iter(queues)), Command(code, body=encode_locks(group, client_id, queues)))

    def heartbeat(
        self, queue: Queue, client_id: str, producers: Iterable[str] = (), consumers: Iterable[Consumer] = ()
    ) -> None:
        """To the queue's broker: who we are, on the connection that everything else goes over."""
        body = encode_heartbeat(client_id, producers, consumers, self._clock.now_ms())
        self._ask(queue, Command(Request.HEART_BEAT, body=body))

    def leave(self, queue: Queue, client_id: str, *, consumer_group: str | None = None) -> None:
        """The opposite of a heartbeat."""
        header = UnregisterClient(client_id, consumer_group=consumer_group, broker=queue.broker)
        self._ask(queue, Command(Request.UNREGISTER_CLIENT, header.to_fields()))

    def consumers(self, group: str, queue: Queue) -> list[str]:
        """Ids of the group's clients that the queue's broker knows; none where it knows no such group."""
        command = Command(Request.GET_CONSUMER_LIST_BY_GROUP, ConsumersOf(group, queue.broker).to_fields())
        answer = self._ask(queue, command, (Answer.SUCCESS, Answer.SYSTEM_ERROR))
        return decode_consumer_ids(answer.body) if answer.code == Answer.SUCCESS else []

    def is_connected_later(self, group: str, client_id: str, queue: Queue) -> "Future[bool]":
        """Whether the queue's broker can write to this client of the group. A broker lists a client whose heartbeat
        it has carried out behind the end of its connection, for `channelExpiredTimeout`: no request of it can come.
        One that does not answer, for which the broker waits ten seconds, is connected."""
        header = ConsumerRunningInfo(group, client_id, broker=queue.broker)
        command = Command(Request.GET_CONSUMER_RUNNING_INFO, header.to_fields())
        asked_s = self._clock.monotonic_s()

        def read(answer: Command) -> bool:
            # The same words mean that too many requests of the broker's own are under way; then it has waited.
            in_time = self._clock.monotonic_s() - asked_s < WRITTEN_S
            return not (answer.code == Answer.SYSTEM_ERROR and NOT_WRITTEN in answer.remark and in_time)

        return self._start(queue, command, read, _PASSED_ON, PUSH_ANSWER_S)

    def send_back(self, group: str, message: StoredMessage, queue: Queue, *, delay_level: int = 0) -> None:
        """The group is to see it again later, the longer the more often; -1: put it among the group's dead
        letters."""
        header = ConsumerSendMsgBack(
            message.commit_log_offset,
            group,
            delay_level,
            origin_msg_id=message.offset_message_id,
            origin_topic=message.topic,
            broker=queue.broker,
        )
        self._ask(queue, Command(Request.CONSUMER_SEND_MSG_BACK, header.to_fields()))

    def recall(self, handle: str) -> str:
        """Cancel a timer message by what its sender got. Its unique key: a marker is stored, whether or not there was
        such a message."""
        found = decode_recall_handle(handle)
        header = RecallMessage(found.topic, handle, PRODUCER_GROUP, found.broker)
        queue = Queue(found.topic, found.broker, 0)
        answer = self._ask(queue, Command(Request.RECALL_MESSAGE, header.to_fields()))
        return RecallMessageAnswer.from_fields(answer.fields).msg_id

    # --- all of them

    def _ask(self, queue: Queue, command: Command, success: Collection[int] = (Answer.SUCCESS,)) -> Command:
        return self._start(queue, command, _itself, success).result()

    def _start(
        self,
        queue: Queue,
        command: Command,
        read: Callable[[Command], T],
        success: Collection[int],
        timeout_s: float | None = None,
    ) -> Future[T]:
        """The route is asked for anew after a failure: the broker may have moved."""
        address = self._names.master(queue.topic, queue.broker)
        timeout_s = self._settings.request_timeout_s if timeout_s is None else timeout_s
        try:
            answered = self._links.to(address).start(command, timeout_s)
        except Unreachable:
            self._names.forget(queue.topic)
            raise
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()

        def finish(done: Future[Command]) -> None:
            try:
                result.set_result(read(check(done.result(), command, success)))
            except AnswerLost as error:
                self._names.forget(queue.topic)
                result.set_exception(error)
            except Exception as error:  # noqa: BLE001  # it is the asker's
                result.set_exception(error)

        answered.add_done_callback(finish)
        return result


def _itself(answer: Command) -> Command:
    return answer


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
