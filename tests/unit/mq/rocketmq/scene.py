"""A broker in memory, as far as owners of shards use one, whose network and store can be held up."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

from delayline.buffer.cursor import Cursor
from delayline.clock import ManualClock
from delayline.records.message import Shard
from mq.contract import ShardBatch
from mq.rocketmq import trouble
from mq.rocketmq.batches import QueueBatch
from mq.rocketmq.journal import Journals
from mq.rocketmq.ownership import Holding, Ownership
from mq.rocketmq.parts import PartSender
from mq.rocketmq.rows import LaterRows
from mq.rocketmq.session import Session
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.sink import RocketmqSink
from rocketmq.client.broker import Pulled, PullStatus, Sent
from rocketmq.errors import AnswerLost, RocketmqError
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue
from rocketmq.wire.headers.send import SendMessageAnswer
from rocketmq.wire.stored import StoredMessage

SETTINGS = RocketmqSettings(name_servers="a:1", namespace="ns")
SHARD = Shard("orders", "a:0")
TARGET, AUDIT, JOURNAL = (Queue(topic, "a", 0) for topic in ("orders", "ns%audit", "ns%cursor%orders"))


class Landing(NamedTuple):
    """A batch that is on its way."""

    queue: Queue
    members: Sequence[BatchMember]


class BrokerInMemory:
    """Queues, the order in which all was stored, and who is a member. What is stored is `shown` in that order, when
    a pull waits for it; what is `deleted` is passed over. Batches for `held_up` queues land with `land`; `refusing`
    ones are refused, and `slow` ones answer with `answer`."""

    def __init__(self) -> None:
        self.queues: dict[Queue, list[BatchMember]] = defaultdict(list)
        self.order: list[Queue] = []
        self.shown: dict[Queue, int] = defaultdict(int)
        self.members: list[str] = []
        self.connected: set[str] = set()
        self.deleted: set[tuple[Queue, int]] = set()
        self.held_up: set[Queue] = set()
        self.refusing: dict[Queue, RocketmqError] = {}
        self.landing: list[Landing] = []
        self.slow: set[Queue] = set()
        self.waiting: list[tuple[Landing, Future[Sent]]] = []
        self.before_store: Callable[[Queue], None] = lambda _: None

    def store(self, queue: Queue, members: Sequence[BatchMember]) -> int:
        self.queues[queue] += members
        self.order += [queue] * len(members)
        return len(self.queues[queue]) - len(members)

    def land(self) -> None:
        """What was on its way."""
        for queue, members in self.landing:
            self.store(queue, members)
        self.landing.clear()

    def answer(self) -> None:
        """What waits for an answer has one."""
        waiting, self.waiting = self.waiting, []
        for (queue, members), future in waiting:
            future.set_result(Sent(0, SendMessageAnswer("", queue.queue_id, self.store(queue, members))))

    def show(self, queue: Queue, end: int) -> None:
        """Up to here, and all that was stored before."""
        while self.shown[queue] < min(end, len(self.queues[queue])):
            self.shown[self.order.pop(0)] += 1

    def bodies(self, queue: Queue) -> list[bytes]:
        return [bytes(one.body) for one in self.queues[queue]]


class Requests:
    """Over one connection."""

    def __init__(self, broker: BrokerInMemory) -> None:
        self._broker = broker
        self.is_open = True
        self.client_id = ""

    # --- the group

    def heartbeat(self, _: Queue, client_id: str, **__: Any) -> None:
        self.client_id = client_id
        self._broker.members.append(client_id)
        self._broker.connected.add(client_id)

    def consumers(self, _: str, __: Queue) -> list[str]:
        return list(self._broker.members)

    def is_connected_later(self, _: str, client_id: str, __: Queue) -> "Future[bool]":
        future: Future[bool] = Future()
        future.set_result(client_id in self._broker.connected)
        return future

    def leave(self, _: Queue, client_id: str, **__: Any) -> None:
        if client_id in self._broker.members:
            self._broker.members.remove(client_id)

    def close(self) -> None:
        self.is_open = False
        self._broker.connected.discard(self.client_id)
        if self.client_id in self._broker.members:
            self._broker.members.remove(self.client_id)

    # --- queues

    def send_batch_later(self, queue: Queue, members: Sequence[BatchMember], **_: Any) -> "Future[Sent]":
        future: Future[Sent] = Future()
        self._broker.before_store(queue)
        if queue in self._broker.refusing:
            future.set_exception(self._broker.refusing[queue])
        elif queue in self._broker.slow:
            self._broker.waiting.append((Landing(queue, members), future))
        elif queue in self._broker.held_up:
            self._broker.landing.append(Landing(queue, members))
            future.set_exception(AnswerLost("no answer in time"))
        else:
            offset = self._broker.store(queue, members)
            future.set_result(Sent(0, SendMessageAnswer("", queue.queue_id, offset)))
        return future

    def send_batch(self, queue: Queue, members: Sequence[BatchMember]) -> Sent:
        return self.send_batch_later(queue, members).result()

    def max_offset(self, queue: Queue) -> int:
        return self._broker.shown[queue]

    def max_offset_later(self, queue: Queue) -> "Future[int]":
        future: Future[int] = Future()
        future.set_result(self.max_offset(queue))
        return future

    def min_offset(self, _: Queue) -> int:
        return 0

    def pull(self, queue: Queue, offset: int, *, wait_s: float = 0.0) -> Pulled:
        self._broker.show(queue, offset + 1 + len(self._broker.deleted))
        end = self._broker.shown[queue]
        kept = [at for at in range(offset, end) if (queue, at) not in self._broker.deleted]
        found = [_stored(queue, at, self._broker.queues[queue][at]) for at in kept]
        status = PullStatus.FOUND if found else PullStatus.NOTHING_YET
        return Pulled(status, offset + len(found), 0, end, found)


def _stored(queue: Queue, offset: int, member: BatchMember) -> StoredMessage:
    hosts = (0, b"", 0, 0, b"", 0, 0, 0, 0)
    properties = member.properties.encode()
    return StoredMessage(queue.topic, queue.queue_id, offset, 0, bytes(member.body), properties, 0, 0, *hosts)


class Worker:
    """A session with a broker, what it owns there, and its sink."""

    def __init__(self, name: str, broker: BrokerInMemory, at: str = "a") -> None:
        """`at` is the broker's name."""
        settings = SETTINGS
        self.clock = clock = ManualClock()
        self.rested_s: list[float] = []
        cluster, requests = Answering(), Requests(broker)
        pinned = SimpleNamespace(broker=requests, group=requests, close=requests.close)
        admin = SimpleNamespace(
            create_group=noted, runtime=lambda _: {"bootTimestamp": "1"}, configuration=lambda _: {}
        )
        client: Any = SimpleNamespace(admin=admin, pinned=lambda *_: Live(pinned, requests))
        reader: Any = Requests(broker)
        self.name, self._broker = name, broker
        self.shard = Shard(SHARD.topic, f"{at}:0")
        self._target, self._audit, self._journal = (one._replace(broker=at) for one in (TARGET, AUDIT, JOURNAL))
        self.session = Session(settings, client, at, name, noted)
        journals = Journals(cluster, reader)  # type: ignore[arg-type]
        self.ownership = Ownership(settings, cluster, journals, reader, self.rest, noted, clock)  # type: ignore[arg-type]
        self.patience_s: float | None = None
        self.rows: LaterRows
        self.sink = sink_of(self)
        self.hold: Callable[[], Holding] = self.take
        self.is_wanted: Callable[[Shard], bool] = lambda _: True
        self.cursor = Cursor(topic_id=bytes(16), owner_epoch=1, writer=name)

    def rest(self, seconds: float) -> None:
        """Meanwhile lands what was on its way."""
        self.rested_s.append(seconds)
        self._broker.land()

    def rounds(self, part: ShardBatch) -> list[list[QueueBatch]]:
        """One message for each body: deliveries, then rows."""
        deliveries = [[QueueBatch(self._target, _members([body for body, _ in part.deliveries]), decides=True)]]
        return (deliveries if part.deliveries else []) + (
            [[QueueBatch(self._audit, _members(part.audit), is_rows=True)]] if part.audit else []
        )

    def take(self) -> Holding:
        return self.ownership.take(self.shard, self._journal, self.session, self.is_wanted)

    def is_free(self) -> bool:
        return self.ownership.is_free(self._journal, self.session)

    def claim(self) -> None:
        """The shard, by its first commit."""
        last = self.take().last
        epoch = 1 if last is None else last.owner_epoch + 1
        self.cursor = Cursor(topic_id=bytes(16), owner_epoch=epoch, writer=self.name)
        self.sink.commit([ShardBatch(self.shard, self.cursor)])

    def part(self, name: bytes) -> ShardBatch:
        """A delivery and its row, both with this body."""
        return ShardBatch(self.shard, self.cursor, deliveries=[(name, None)], audit=[name])

    def commit(self, name: bytes) -> None:
        """Its part alone."""
        self.sink.commit([self.part(name)])


def sink_of(*workers: Worker) -> RocketmqSink:
    """Of one worker, which is each of these at another broker."""
    first = workers[0]
    at = {worker.shard: worker for worker in workers}
    batches: Any = SimpleNamespace(rounds=lambda part: at[part.shard].rounds(part))
    cluster: Any = Answering()
    sender = PartSender(first.clock, first.rest, lambda: first.patience_s)
    for worker in workers:
        worker.rows = LaterRows(SETTINGS, sender, first.clock)
    return RocketmqSink(
        first.name,
        cluster,
        batches,
        lambda shard: at[shard].hold(),
        first.clock,
        noted,
        lambda: first.patience_s,
        sender,
        first.rows,
    )


class Answering:
    """A cluster without troubles."""

    def __init__(self) -> None:
        self.stored = noted

    @contextmanager
    def translated_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except RocketmqError as error:
            raise trouble.queue_error(error, doing) from error


class Live:
    """A pinned connection, open as long as its requests are."""

    def __init__(self, pinned: Any, requests: Requests) -> None:
        self.broker, self.group, self.close, self._requests = requests, requests, pinned.close, requests

    @property
    def is_open(self) -> bool:
        return self._requests.is_open

    def gathering(self) -> AbstractContextManager[None]:
        return nullcontext()


def noted(*_: Any, **__: Any) -> None:
    """Nothing follows."""


def _members(bodies: Sequence[bytes]) -> list[BatchMember]:
    return [BatchMember(body) for body in bodies]
