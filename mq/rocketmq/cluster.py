"""Topics, queues and offsets of a RocketMQ cluster, by Delayline's names.

A topic's identity: RocketMQ has none. Of a topic that we make, 29 random bits of its `topicSysFlag` are it, which
brokers keep with the topic, forget with it, and hand out in its route; they read two other bits. Tools that change
a topic set them to 0, and then it counts as another one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from secrets import randbelow
from typing import NamedTuple, TypeVar

from delayline.clock import Clock
from delayline.records.message import Shard
from mq.contract import LogRecord, TopicInfo
from mq.errors import OffsetOutOfRange, PartitionUnknown, QueueClosed, QueueUnavailable, TopicUnknown
from mq.rocketmq import trouble
from mq.rocketmq.body import to_body
from mq.rocketmq.naming import Place, place_of
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.topology import TopicOnBroker, Topology
from rocketmq.client.broker import PullStatus
from rocketmq.client.client import Client
from rocketmq.errors import NotAllowed, RocketmqError
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue

_OURS_BITS = 29
_OURS_SHIFT = 2
PULL_RECORDS_MAX = 1000
FILE_RESERVED_H = 72
"""A broker's default (`MessageStoreConfig.fileReservedTime`)."""
REACH_S = 4.0
"""For the first answer of any broker."""
READABLE_S = 5.0
"""What was stored can be read within milliseconds, or has been lost with its broker."""
READABLE_PAUSE_S = 0.002

T = TypeVar("T")


class TopicOnBrokers(NamedTuple):
    """A topic: its name on the wire, and what each broker has of it."""

    name: str
    wire: str
    brokers: dict[str, TopicOnBroker]

    @property
    def places(self) -> list[Place]:
        """By broker, then by queue."""
        return [
            Place(broker, number) for broker, held in sorted(self.brokers.items()) for number in range(held.queues)
        ]

    @property
    def info(self) -> TopicInfo:
        names = tuple(place.name for place in self.places)
        down = frozenset(place.name for place in self.places if not self.brokers[place.broker].has_master)
        return TopicInfo(self.name, names, self.identity(min(self.brokers)), down)

    @property
    def shape(self) -> dict[str, int]:
        """How many queues each broker has that takes writes now."""
        return {broker: held.queues for broker, held in self.brokers.items() if held.has_master}

    def identity(self, broker: str) -> bytes:
        """As this broker has it."""
        mark = self.brokers[broker].sys_flag >> _OURS_SHIFT
        return blake2b(f"{self.wire} {mark}".encode(), digest_size=16).digest()


def new_sys_flag() -> int:
    """For a topic that is made now."""
    return (1 + randbelow((1 << _OURS_BITS) - 1)) << _OURS_SHIFT


class RocketmqCluster:
    """Any thread. Each method raises QueueUnavailable, TopicUnknown, PartitionUnknown, or what it names."""

    def __init__(self, settings: RocketmqSettings, client: Client, clock: Clock) -> None:
        self._names = settings.wire_names
        self._client = client
        self._clock = clock
        self._lows: dict[Queue, int] = {}  # by queue of a buffer; bounded by the shards
        self._ends: dict[Queue, tuple[int, float]] = {}  # what was stored for us, and when; bounded by the queues
        self._kept_s: dict[str, float] = {}  # by broker
        self._topology = Topology(client, clock)
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    @contextmanager
    def translated_errors(self, doing: str) -> Iterator[None]:
        """Errors of RocketMQ's client become those of the contract. `doing` begins their text. Raises QueueError."""
        if self._is_closed:
            raise QueueClosed("the queue is closed")
        try:
            yield
        except RocketmqError as error:
            if self._is_closed:
                raise QueueClosed("the queue is closed") from error
            raise trouble.queue_error(error, doing) from error

    # --- topics

    def describe(self, name: str) -> TopicOnBrokers:
        """As the name servers have it now. A buffer is there when its journal is, which is made last."""
        self._client.names.forget(self._names.out(name))
        return self.recall(name)

    def recall(self, name: str) -> TopicOnBrokers:
        """As it is, or was `discovery_interval_s` ago."""
        wire = self._names.out(name)
        held = self._held(name, wire)
        target = self._names.names.target(name)
        if target is not None:
            journal = self._held(name, self._names.journal(target))
            held = {
                broker: one._replace(queues=min(one.queues, journal[broker].queues))
                for broker, one in held.items()
                if broker in journal
            }
        if not held:
            raise TopicUnknown(f"no broker has topic {name!r}")
        return TopicOnBrokers(name, wire, held)

    def held(self, wire: str) -> dict[str, TopicOnBroker]:
        """What brokers have of a topic by its wire name; nothing where there is none."""
        self._client.names.forget(wire)
        return self.remembered(wire)

    def remembered(self, wire: str) -> dict[str, TopicOnBroker]:
        """The same, as it is or was `discovery_interval_s` ago."""
        try:
            return self._held(wire, wire)
        except TopicUnknown:
            return {}

    def _held(self, name: str, wire: str) -> dict[str, TopicOnBroker]:
        with self.translated_errors(f"looking up topic {name!r}"):
            found = self._topology.held(wire)
        if not found and not self.masters():
            raise QueueUnavailable("no broker is registered with the name servers")
        if not found:
            raise TopicUnknown(f"there is no topic {name!r}")
        return found

    def all_wire_names(self) -> list[str]:
        """Of topics that there are, and of some that there were."""
        with self.translated_errors("listing topics"):
            return sorted({*self._client.admin.topics(), *self._topology.seen})

    def buffers(self) -> dict[str, str]:
        """Names of all buffers, by target topic."""
        names = map(self._names.back, self.all_wire_names())
        return {target: name for name in names if (target := self._names.names.target(name)) is not None}

    def shards(
        self, buffers: Mapping[str, str], look: Callable[[str], Mapping[str, TopicOnBroker]]
    ) -> Iterator[tuple[Shard, Queue]]:
        """All of the `buffers`, with their journals. Where buffer or journal has lost a queue its shard is there
        still, and stalls with what waits in the other. `look` is `held`, or `remembered`."""
        for target, name in buffers.items():
            if self._names.out(target) not in self._topology.seen:
                self.remembered(self._names.out(target))  # to be known when one of its brokers is down
            journal, buffer = self._names.journal(target), look(self._names.out(name))
            for broker, held in sorted(look(journal).items()):
                for number in range(max(held.queues, buffer[broker].queues if broker in buffer else 0)):
                    place = Place(broker, number)
                    yield Shard(target, place.name), place.of(journal)

    def masters(self) -> list[str]:
        """Names of brokers that take writes, in order."""
        with self.translated_errors("listing brokers"):
            return sorted(self._topology.masters())

    def reach(self) -> None:
        """Name servers alone do not count. Raises QueueUnavailable where no broker is registered, or none answers."""
        with self.translated_errors("reaching brokers"):
            masters = self._client.admin.brokers()
            if not masters:
                raise QueueUnavailable("no broker is registered with the name servers")
            if not self._client.admin.any_answers(masters.values(), REACH_S):
                raise QueueUnavailable(f"no broker answers, of {', '.join(sorted(masters))}")

    def clusters(self) -> set[str]:
        """Names of RocketMQ's clusters; its topics of the same names are no users'."""
        with self.translated_errors("listing brokers"):
            return {one.cluster for one in self._client.names.cluster()}

    def read_right_missing(self, queue: Queue) -> str | None:
        """What its broker answers if this account may not read the queue. Raises QueueUnavailable."""
        with self.translated_errors(f"reading {queue.topic}"):
            try:
                self._client.broker.pull(queue, self._client.broker.max_offset(queue), messages_max=1)
            except NotAllowed as error:
                return str(error)
        return None

    def make(self, wire: str, queues: dict[str, int], sys_flag: int) -> None:
        """The topic with so many queues on each broker; one that is there is changed."""
        with self.translated_errors(f"making topic {wire!r}"):
            for broker, count in queues.items():
                self._client.admin.create_topic(wire, broker, count, sys_flag=sys_flag)

    def kept_s(self, broker: str) -> float:
        """For how long the broker keeps what it has stored."""
        if broker not in self._kept_s:
            found = self.configuration(broker).get("fileReservedTime", "")
            self._kept_s[broker] = 3600.0 * (int(found) if found.isdecimal() else FILE_RESERVED_H)
        return self._kept_s[broker]

    def configuration(self, broker: str) -> dict[str, str]:
        """The broker's settings."""
        with self.translated_errors(f"asking for settings of {broker}"):
            return self._client.admin.configuration(broker)

    # --- queues

    def buffer_queue(self, shard: Shard) -> Queue:
        """Of the shard's buffer."""
        return self.queue(self._names.names.buffer(shard.topic), shard.partition)

    def queue(self, topic: str, partition: str) -> Queue:
        """Where the partition is."""
        return self.queue_held(topic, partition)[0]

    def queue_held(self, topic: str, partition: str) -> tuple[Queue, TopicOnBroker]:
        """Where the partition is, and what its broker has of the topic."""
        place = place_of(partition, topic)
        found = self.recall(topic)
        held = found.brokers.get(place.broker)
        if held is None or place.queue_id >= held.queues:
            found = self.describe(topic)
            held = found.brokers.get(place.broker)
        if held is None and place.broker not in self.masters():
            raise QueueUnavailable(f"broker {place.broker!r} is not registered: {topic} may have {partition!r} there")
        if held is None or place.queue_id >= held.queues:
            raise PartitionUnknown(f"{topic} has no partition {partition!r}")
        return place.of(found.wire), held

    def range(self, queue: Queue) -> tuple[int, int]:
        """(first offset held, offset behind the last that can be read, or that we know to be stored). What was
        trimmed is not held."""
        with self.translated_errors(f"asking for offsets of {queue.topic}"):
            end = self._client.broker.max_offset(queue)
            start = self._client.broker.min_offset(queue)
        known, at_s = self._ends.get(queue, (0, 0.0))
        if self._clock.monotonic_s() - at_s < READABLE_S:
            end = max(end, known)
        return min(max(start, self._lows.get(queue, 0)), end), end

    def stored(self, queue: Queue, end: int) -> None:
        """A record before `end` was stored just now: it can be read in a moment."""
        self._ends[queue] = end, self._clock.monotonic_s()

    def wait_readable(self, broker: str, timeout_s: float, rest: Callable[[float], object]) -> bool:
        """Block until all that the broker has stored by now can be read; False where the time ran out. It shows what
        it has stored in that order, over all queues: a mark is stored, and waited for."""
        mark = Queue(self._names.marks, broker, 0)
        until_s = self._clock.monotonic_s() + timeout_s
        with self.translated_errors(f"marking {broker}"):
            end = self._client.broker.send_batch(mark, [BatchMember(b"mark")]).answer.queue_offset + 1
        while self.readable_end(mark) < end:
            if self._clock.monotonic_s() > until_s:
                return False
            rest(READABLE_PAUSE_S)
        return True

    def readable_end(self, queue: Queue) -> int:
        """Behind the last that can be read now."""
        with self.translated_errors(f"asking for offsets of {queue.topic}"):
            return self._client.broker.max_offset(queue)

    def low(self, queue: Queue) -> int:
        """Below it, records are not to be seen any more."""
        return self._lows.get(queue, 0)

    def trim(self, queue: Queue, low_offset: int) -> None:
        """RocketMQ cannot cut off a queue's beginning: this process alone forgets it. Raises OffsetOutOfRange."""
        if low_offset > self.range(queue)[1]:
            raise OffsetOutOfRange(f"{queue.topic}: trim to {low_offset}, behind the log's end")
        self._lows[queue] = max(low_offset, self._lows.get(queue, 0))

    def read(self, queue: Queue, offset: int, records_max: int, bytes_max: int) -> list[LogRecord]:
        """See `mq.contract.Client.read`. Raises OffsetOutOfRange as well."""
        start, end = self.range(queue)
        if not start <= offset <= end:
            raise OffsetOutOfRange(
                f"{queue.topic}, {queue.broker}:{queue.queue_id}: {offset} not within {start}..{end}"
            )
        found: list[LogRecord] = []
        room = bytes_max
        while offset < end and len(found) < records_max:
            records = self._pull(queue, offset, min(PULL_RECORDS_MAX, records_max - len(found)))
            if not records:
                break
            for record in records:
                room -= len(record.body)
                if found and room < 0:
                    return found
                found.append(record)
            offset = records[-1].offset + 1
        return found

    def _pull(self, queue: Queue, offset: int, records_max: int) -> list[LogRecord]:
        """Nothing where what is stored cannot be read yet. Raises OffsetOutOfRange."""
        with self.translated_errors(f"reading {queue.topic}"):
            pulled = self._client.broker.pull(queue, offset, messages_max=records_max)
        if pulled.status is PullStatus.OFFSET_MOVED and offset < pulled.min_offset:
            raise OffsetOutOfRange(f"{queue.topic}: {offset} is gone, the log starts at {pulled.min_offset}")
        return [LogRecord(one.queue_offset, one.stored_ms, to_body(one)) for one in pulled.messages]
