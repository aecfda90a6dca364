"""Which shards a worker has: what buffers there are, and the worker as a member at each of their brokers.

Brokers are apart: each has a thread of its own (`broker_member`), so that one that is gone, frozen or slow holds up
its own shards alone. A broker that the name servers do not know any more has the shards that it had: what waits there
is not lost, and stalls until it is back.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Condition
from threading import Event as Flag

from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs, threads
from delayline.records.message import Shard
from mq.contract import Event
from mq.errors import PartitionUnknown, QueueError
from mq.rocketmq.broker_member import LEAVE_S, BrokerMember
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.naming import place_of
from mq.rocketmq.own_topics import OwnTopics
from mq.rocketmq.ownership import Holding, Ownership
from mq.rocketmq.retention import RetentionWatch
from mq.rocketmq.session import Session
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.stamps import Stamps
from rocketmq.client.client import Client
from rocketmq.wire.bodies import Queue

PATIENCE_S = 2.0

log = logs.get(__name__)


class SessionMembership:
    """`notify` gets assignments in threads of its own; it must not block."""

    def __init__(
        self,
        settings: RocketmqSettings,
        client: Client,
        cluster: RocketmqCluster,
        own_topics: OwnTopics,
        ownership: Ownership,
        stamps: Stamps,
        writer: str,
        clock: Clock,
        notify: Callable[[Event], None],
    ) -> None:
        self._settings = settings
        self._client = client
        self._cluster = cluster
        self._own_topics = own_topics
        self._ownership = ownership
        self._stamps = stamps
        self._writer = writer
        self._clock = clock
        self._notify = notify
        self._changed = Condition()
        self._look = True
        self._closing = Flag()
        self._members: dict[str, BrokerMember] = {}  # by broker; bounded by those there ever were
        self._alive_s = self._tended_s = clock.monotonic_s()
        self._thread = threads.lasting("rocketmq-find", self._run, self._closing)
        self._thread.start()

    # --- from the worker's threads

    def alive(self) -> None:
        """The worker is at work. Without this call for `poll_interval_max_s` its shards go to others."""
        self._alive_s = self._clock.monotonic_s()

    @property
    def is_open(self) -> bool:
        """Whether the worker has not left."""
        return not self._closing.is_set()

    @property
    def sessions(self) -> Mapping[str, Session]:
        """By broker."""
        found = {broker: member.session for broker, member in list(self._members.items())}
        return {broker: session for broker, session in found.items() if session is not None}

    @property
    def patience_s(self) -> float | None:
        """For an answer of one broker, while shards of others could go on; None where there are none."""
        return PATIENCE_S if len(self.sessions) > 1 else None

    def is_assigned(self, shard: Shard) -> bool:
        member = self._member_of(shard)
        return member is not None and member.is_assigned(shard)

    def hold(self, shard: Shard) -> Holding | None:
        """The shard, taken where it has not been; None where it is not assigned. Raises QueueUnavailable,
        UnknownFormat."""
        member = self._member_of(shard)
        return None if member is None else member.hold(shard)

    def _member_of(self, shard: Shard) -> BrokerMember | None:
        return self._members.get(place_of(shard.partition, shard.topic).broker)

    def release(self, shards: Sequence[Shard]) -> None:
        """The worker has let go of them."""
        for shard in shards:
            if (member := self._member_of(shard)) is not None:
                member.release(shard)

    def look_for_buffers(self) -> None:
        """There is a new buffer topic."""
        with self._changed:
            self._look = True
            self._changed.notify_all()

    def close(self) -> None:
        """Let go of everything, in order, and leave."""
        if self._closing.is_set():
            return
        self._closing.set()
        self.look_for_buffers()
        self._thread.join(LEAVE_S)
        for member in self._members.values():
            member.close()

    # --- the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            with _noting("this installation's own topics cannot be seen to"):
                self._own_topics.ensure_own()
            with _noting("buffers cannot be looked for"):
                self._find()
            self._tend()
            with self._changed:
                self._changed.wait_for(lambda: self._look, self._settings.discovery_interval_s)
                self._look = False

    def _find(self) -> None:
        """What shards there are. Where a buffer has lost its journal it gets another, and its shards stall."""
        found: dict[str, dict[Shard, Queue]] = defaultdict(dict, {broker: {} for broker in self._members})
        buffers = self._cluster.buffers()
        for shard, journal in self._cluster.shards(buffers, self._cluster.held):
            found[journal.broker][shard] = journal
        for broker, shards in found.items():
            if broker not in self._members:
                self._members[broker] = self._member(broker)
            self._members[broker].know(shards)
        with_journal = {shard.topic for shards in found.values() for shard in shards}
        for topic in sorted(buffers.keys() - with_journal):
            with _noting("a buffer has lost its journal", topic=topic):
                self._own_topics.tend(topic)

    def _member(self, broker: str) -> BrokerMember:
        return BrokerMember(
            broker,
            self._settings,
            self._client,
            self._ownership,
            self._stamps,
            RetentionWatch(self._cluster, self._clock),
            self._writer,
            self._clock,
            self._is_at_work,
            self._others,
            self._notify,
        )

    def _is_at_work(self) -> bool:
        return self._clock.monotonic_s() - self._alive_s <= self._settings.poll_interval_max_s

    def _others(self, broker: str) -> set[str]:
        return {
            writer for member in list(self._members.values()) if member.broker != broker for writer in member.writers
        }

    def _tend(self) -> None:
        """Targets may have got more queues, or be on more brokers, than when their buffers were made."""
        if self._clock.monotonic_s() - self._tended_s < self._settings.tend_interval_s:
            return
        self._tended_s = self._clock.monotonic_s()
        shards = {shard.topic for member in list(self._members.values()) for shard in member.shards}
        for topic in sorted(shards):
            with _noting("a buffer cannot be seen to", topic=topic):
                self._own_topics.tend(topic)


@contextmanager
def _noting(what: str, **fields: str) -> Iterator[None]:
    try:
        yield
    except (QueueError, UnknownFormat, PartitionUnknown) as error:
        log.debug(what, detail=str(error), **fields)
