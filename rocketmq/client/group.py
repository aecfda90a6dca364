"""What is asked of a broker about a consumer group: heartbeats, members, locks, send-backs."""

from collections.abc import Collection, Iterable
from concurrent.futures import Future

from rocketmq.client.masters import Masters
from rocketmq.clock import RocketmqClock
from rocketmq.errors import InvalidRequest
from rocketmq.wire.bodies import Consumer, Queue, decode_consumer_ids, decode_locked, encode_heartbeat, encode_locks
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import ConsumerRunningInfo, ConsumersOf, UnregisterClient
from rocketmq.wire.headers.send import ConsumerSendMsgBack
from rocketmq.wire.stored import StoredMessage

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


class GroupRequests:
    """Part of `Client`. Each goes to the broker of the queue."""

    def __init__(self, masters: Masters, clock: RocketmqClock) -> None:
        self._masters = masters
        self._clock = clock

    def lock(self, group: str, client_id: str, queues: Collection[Queue]) -> set[Queue]:
        """Those of `queues`, all of one broker, that are now this client's. A lock ends by itself after a minute
        (rocketmq.broker.rebalance.lockMaxLiveTime)."""
        return decode_locked(self._locks(Request.LOCK_BATCH_MQ, group, client_id, queues).body)

    def unlock(self, group: str, client_id: str, queues: Collection[Queue]) -> None:
        self._locks(Request.UNLOCK_BATCH_MQ, group, client_id, queues)

    def _locks(self, code: Request, group: str, client_id: str, queues: Collection[Queue]) -> Command:
        if len({queue.broker for queue in queues}) != 1:
            raise InvalidRequest("queues are locked and unlocked broker by broker")
        return self._masters.ask(next(iter(queues)), Command(code, body=encode_locks(group, client_id, queues)))

    def heartbeat(
        self, queue: Queue, client_id: str, producers: Iterable[str] = (), consumers: Iterable[Consumer] = ()
    ) -> None:
        """To the queue's broker: who we are, on the connection that everything else goes over."""
        body = encode_heartbeat(client_id, producers, consumers, self._clock.now_ms())
        self._masters.ask(queue, Command(Request.HEART_BEAT, body=body))

    def leave(self, queue: Queue, client_id: str, *, consumer_group: str | None = None) -> None:
        """The opposite of a heartbeat."""
        header = UnregisterClient(client_id, consumer_group=consumer_group, broker=queue.broker)
        self._masters.ask(queue, Command(Request.UNREGISTER_CLIENT, header.to_fields()))

    def consumers(self, group: str, queue: Queue) -> list[str]:
        """Ids of the group's clients that the queue's broker knows; none where it knows no such group."""
        command = Command(Request.GET_CONSUMER_LIST_BY_GROUP, ConsumersOf(group, queue.broker).to_fields())
        answer = self._masters.ask(queue, command, (Answer.SUCCESS, Answer.SYSTEM_ERROR))
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

        return self._masters.start(queue, command, read, _PASSED_ON, PUSH_ANSWER_S)

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
        self._masters.ask(queue, Command(Request.CONSUMER_SEND_MSG_BACK, header.to_fields()))
