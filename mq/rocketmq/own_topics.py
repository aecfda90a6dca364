"""Topics that we make: buffers with their journals, this installation's own, those of consumer groups.

A buffer and its journal have the queues of their target, on the same brokers and with the same numbers, so that a
shard depends on one broker alone. The journal is made last: a buffer without one does not exist for us, and its rules
are written before. One process makes topics at a time. The others wait for a lock of RocketMQ's (LOCK_BATCH_MQ),
which expires after a minute.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock

from delayline.buffer.record import encode_rules
from delayline.clock import Clock
from delayline.process import logs
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import TopicInfo
from mq.errors import QueueError, QueueUnavailable, TopicUnknown
from mq.rocketmq.body import to_member
from mq.rocketmq.cluster import RocketmqCluster, TopicOnBrokers, new_sys_flag
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.topology import TopicOnBroker
from rocketmq.client.client import Client
from rocketmq.wire.bodies import Queue

OWN_QUEUES = 4
"""Of audit, dead letters and acts, on each broker."""
MAKING_S = 30.0
MAKING_PAUSE_S = 0.05
SEEN_S = 10.0
SEEN_PAUSE_S = 0.05

log = logs.get(__name__)


class OwnTopics:
    """Any thread; one makes at a time."""

    def __init__(
        self,
        settings: RocketmqSettings,
        cluster: RocketmqCluster,
        client: Client,
        clock: Clock,
        rest: Callable[[float], object],
    ) -> None:
        self._settings = settings
        self._names = settings.names
        self._wire_names = settings.wire_names
        self._cluster = cluster
        self._client = client
        self._clock = clock
        self._rest = rest
        self._making = Lock()

    def target(self, name: str) -> TopicOnBrokers:
        """A topic of users. Raises TopicUnknown."""
        if self._names.is_own(name):
            raise TopicUnknown(f"{name!r} is a name of this installation's own topics")
        return self._cluster.describe(name)

    def ensure(self, name: str, rules: Rules) -> TopicInfo:
        """The buffer of topic `name`. Raises TopicUnknown, QueueUnavailable."""
        wanted = self.target(name).shape
        buffer = self._names.buffer(name)
        if (found := self._made(buffer, wanted)) is not None:
            return found.info
        with self._alone():
            if (found := self._made(buffer, wanted)) is not None:
                return found.info
            self._may_make(buffer)
            self._make_buffer(name, buffer, wanted, rules)
            return self._seen(buffer, wanted).info

    def _make_buffer(self, name: str, buffer: str, wanted: Mapping[str, int], rules: Rules) -> None:
        wire, journal = self._wire_names.out(buffer), self._wire_names.journal(name)
        flag = self._grow(wire, self._cluster.held(wire), wanted)
        if not rules.same_as(DEFAULT_RULES):
            self._write_rules(wire, wanted, rules)
        self._grow_journal(wire, flag, journal, wanted)
        log.info("a buffer topic is made", topic=name, buffer=wire, queues=dict(wanted))

    def _grow(self, wire: str, held: Mapping[str, TopicOnBroker], wanted: Mapping[str, int]) -> int:
        """Make the topic, or more queues of it, under the identity that it has; its flag. Brokers that have enough
        are not asked: they may be down."""
        flag = held[min(held)].sys_flag if held else new_sys_flag()
        self._cluster.make(wire, _too_few(held, wanted), flag)
        return flag

    def _grow_journal(self, buffer: str, flag: int, journal: str, wanted: Mapping[str, int]) -> None:
        """It has the buffer's flag, unless it is made where the buffer holds messages already: then an earlier one is
        gone, with the cursors in it, and its shards stall (`Handover.may_be_lost`)."""
        held = self._cluster.held(journal)
        for broker, count in _too_few(held, wanted).items():
            if broker in held:
                flag_there = held[broker].sys_flag
            else:
                flag_there = flag if self._is_unused(buffer, broker, count) else new_sys_flag()
            self._cluster.make(journal, {broker: count}, flag_there)

    def _is_unused(self, buffer: str, broker: str, queues: int) -> bool:
        """Whether it holds nothing but rules, which are written before there is a journal."""
        return all(self._cluster.range(Queue(buffer, broker, number))[1] <= 1 for number in range(queues))

    def _write_rules(self, wire: str, wanted: Mapping[str, int], rules: Rules) -> None:
        """As the first record of each queue, unless a process that died while it made the topic has written them."""
        record = to_member(encode_rules(rules))
        for broker, count in wanted.items():
            for number in range(count):
                queue = Queue(wire, broker, number)
                if self._cluster.range(queue)[1] == 0:
                    with self._cluster.translated_errors(f"writing rules into {wire}"):
                        self._client.broker.send_batch(queue, [record])

    def tend(self, name: str) -> None:
        """Queues that the target has and its buffer lacks, because it got them later, or because their broker was
        down when the buffer was made. Raises TopicUnknown, QueueUnavailable."""
        if self._settings.topics_create:
            self.ensure(name, DEFAULT_RULES)

    def ensure_own(self) -> None:
        """Audit, dead letters, acts and marks, on every broker; again where they were deleted."""
        masters = self._cluster.masters()
        for name, queues in (
            (self._names.audit, OWN_QUEUES),
            (self._names.dead, OWN_QUEUES),
            (self._names.operators, OWN_QUEUES),
            (self._names.cursor, 1),
        ):
            self._ensure(name, dict.fromkeys(masters, queues))

    def ensure_claim(self, name: str) -> list[str]:
        """The journals of the claims of a name, one on every broker; the brokers."""
        masters = self._cluster.masters()
        self._ensure(self._wire_names.back(self._wire_names.claim(name)), dict.fromkeys(masters, 1))
        return masters

    def _ensure(self, name: str, wanted: Mapping[str, int]) -> None:
        if self._found(name, wanted, self._cluster.recall) is None:
            with self._alone():
                if self._made(name, wanted) is None:
                    self._may_make(name)
                    wire = self._wire_names.out(name)
                    self._grow(wire, self._cluster.held(wire), wanted)
                    self._seen(name, wanted)

    def make_like(self, name: str, target: str) -> TopicOnBrokers:
        """A consumer group's topic, like that of users."""
        wanted = self._cluster.recall(target).shape
        with self._alone():
            if (found := self._made(name, wanted)) is not None:
                return found
            wire = self._wire_names.out(name)
            self._grow(wire, self._cluster.held(wire), wanted)
            return self._seen(name, wanted)

    def _may_make(self, name: str) -> None:
        if not self._settings.topics_create:
            raise TopicUnknown(f"topic {name!r} is missing, or has too few queues, and mq.topics_create is off")

    def _made(self, name: str, wanted: Mapping[str, int]) -> TopicOnBrokers | None:
        """The topic, where it has all queues that are wanted."""
        return self._found(name, wanted, self._cluster.describe)

    def _found(
        self, name: str, wanted: Mapping[str, int], look: Callable[[str], TopicOnBrokers]
    ) -> TopicOnBrokers | None:
        try:
            found = look(name)
        except TopicUnknown:
            return None
        shape = found.shape
        return found if all(shape.get(broker, 0) >= count for broker, count in wanted.items()) else None

    def _seen(self, name: str, wanted: Mapping[str, int]) -> TopicOnBrokers:
        """The topic, once name servers know it: they do a moment later than its brokers."""
        until_s = self._clock.monotonic_s() + SEEN_S
        while (found := self._made(name, wanted)) is None:
            if self._clock.monotonic_s() > until_s:
                raise QueueUnavailable(f"topic {name!r} was made, and the name servers do not know it")
            self._rest(SEEN_PAUSE_S)
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread and no other process makes topics of ours."""
        with self._making:
            masters = self._cluster.masters()
            if not masters:
                raise QueueUnavailable("no broker is registered with the name servers")
            name_of_all = f"{self._settings.group}-making"
            client_id = f"{new_sys_flag():x}{new_sys_flag():x}"
            self._lock(masters[0], name_of_all, client_id)
            try:
                yield
            finally:
                with suppress(QueueError), self._cluster.translated_errors("giving a lock back"):
                    self._client.admin.unlock(masters[0], name_of_all, client_id)

    def _lock(self, broker: str, name: str, client_id: str) -> None:
        """Raises QueueUnavailable."""
        until_s = self._clock.monotonic_s() + MAKING_S
        with self._cluster.translated_errors("waiting for others that make topics"):
            while not self._client.admin.lock(broker, name, client_id):
                if self._clock.monotonic_s() > until_s:
                    raise QueueUnavailable(f"others have been making topics for {MAKING_S:.0f} s")
                self._rest(MAKING_PAUSE_S)


def _too_few(held: Mapping[str, TopicOnBroker], wanted: Mapping[str, int]) -> dict[str, int]:
    """Brokers that lack queues, and how many each is to have."""
    return {broker: count for broker, count in wanted.items() if broker not in held or held[broker].queues < count}
