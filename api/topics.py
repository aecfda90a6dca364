"""What the API knows about topics: which exist, how many partitions they have, and whether their buffer is made."""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import Counter

from api.http.problems import FORBIDDEN, INVALID_REQUEST, TOPIC_UNKNOWN, Refusal
from api.metrics import Metrics
from api.sending.partitioner import partition_given, partition_index, partition_named
from api.services import Services
from delayline.names import Names, is_topic_name
from delayline.records.message import Shard
from mq.contract import HEADER_ROOM_BYTES, TopicInfo
from mq.errors import PartitionUnknown, QueueUnavailable, TopicUnknown

T = TypeVar("T")


TOPICS_KNOWN_MAX = 10_000
FRESH_S = 30.0
"""How long partitions and limits are believed without asking again; a topic that has vanished is noticed at once."""

RENEWED_S = 1.0
"""A topic may have gained a partition that it did not have a moment ago: the queue is asked so often at most, however
many requests name one that is not there. Who reads believes what is known as long."""


@dataclass(slots=True)
class Target:
    """A topic that messages can be appended to."""

    info: TopicInfo
    buffer: str
    record_bytes_max: int
    has_buffer: bool
    fresh_until_s: float
    in_turn: Sequence[str]
    """Partitions for messages that may go to any: those that take some, if there are such."""
    turns: Iterator[int]
    accepted: Counter
    renewed_s: float = float("-inf")  # when a partition that it did not have was last looked for

    def partition_for(self, named: int | str | None, key: bytes | None) -> str:
        """The partition's name: the given one, else by key, else the next in turn. Hot: once per message. Raises
        Refusal."""
        partitions = self.info.partitions
        if named is None:
            if key is None:
                return self.in_turn[next(self.turns) % len(self.in_turn)]
            return partitions[partition_index(key, len(partitions))]
        return partition_given(self.info.name, partitions, named, "/partition")

    def record_bytes_for(self, *, delayed: bool) -> int:
        """Bytes that a record may have. A delayed one gets headers of ours on its way."""
        return self.record_bytes_max - HEADER_ROOM_BYTES if delayed else self.record_bytes_max


class TopicBook:
    """Remembers topics, and asks the queue's admin in a thread where it does not know."""

    def __init__(self, services: Services, threads: Executor, metrics: Metrics) -> None:
        self._services = services
        self._names = Names(services.settings.namespace)
        self._threads = threads
        self._metrics = metrics
        self._known: dict[str, Target] = {}  # bounded: TOPICS_KNOWN_MAX
        self._learning: dict[tuple[str, bool], asyncio.Future[Target]] = {}  # bounded by the requests in flight

    def check_writable(self, topic: str) -> None:
        """Raises Refusal for a name that no topic can have, or that clients may not send to."""
        if topic in self._known:
            return
        check_name(topic)
        if self._names.is_own(topic):
            raise Refusal(FORBIDDEN, f"names under {self._names.namespace!r} belong to Delayline itself")
        if topic.startswith("__"):
            raise Refusal(FORBIDDEN, "names that start with __ belong to the queue itself")

    def check_readable(self, topic: str) -> None:
        """Raises Refusal. Of our own topics, dead letters, audit and those of consumer groups can be read; the others
        are hidden."""
        check_name(topic)
        if self._names.is_hidden(topic) and topic not in (self._names.dead, self._names.audit):
            raise Refusal(TOPIC_UNKNOWN, f"there is no topic {topic!r}")

    def check_users(self, topic: str) -> None:
        """Raises Refusal for what can be no topic of users."""
        check_name(topic)
        if self._names.is_own(topic):
            raise Refusal(TOPIC_UNKNOWN, f"there is no topic {topic!r}")

    async def check_there(self, topic: str) -> None:
        """Raises Refusal for what can be no topic of users, TopicUnknown, QueueUnavailable."""
        self.check_users(topic)
        await self.info(topic)

    async def is_there(self, topic: str) -> bool:
        """Asking makes none. Raises QueueUnavailable."""
        if topic in self._known:
            return True
        try:
            await self.info(topic)
        except TopicUnknown:
            return False
        return True

    async def info(self, topic: str) -> TopicInfo:
        """Of a topic that exists: asking makes none. Raises TopicUnknown, QueueUnavailable."""
        known = self._known.get(topic)
        if known is not None and self._now_s() < known.fresh_until_s - FRESH_S + RENEWED_S:
            return known.info
        try:
            info = await self.ask(lambda: self._services.admin.topic(topic))
        except TopicUnknown:
            self.forget(topic)
            raise
        if known is not None and info != known.info:
            self.forget(topic)
        return info

    async def with_buffer(self, topics: Collection[str]) -> set[str]:
        """Those of the topics that a delayed message was ever sent to. Raises QueueUnavailable."""
        unknown = [topic for topic in topics if not (topic in self._known and self._known[topic].has_buffer)]
        found = await self.ask(lambda: {topic for topic in unknown if self._has_buffer(topic)}) if unknown else set()
        return found | (set(topics) - set(unknown))

    async def partitions_of_buffer(self, topic: str) -> Sequence[str]:
        """None of a topic that no delayed message was ever sent to. Raises QueueUnavailable."""
        return await self.ask(lambda: self._partitions_of_buffer(topic))

    def _partitions_of_buffer(self, topic: str) -> Sequence[str]:
        try:
            return self._services.admin.topic(self._names.buffer(topic)).partitions
        except TopicUnknown:
            return ()

    def _has_buffer(self, topic: str) -> bool:
        try:
            self._services.admin.topic(self._names.buffer(topic))
        except TopicUnknown:
            return False
        return True

    async def target(self, topic: str, *, delayed: bool, named: Collection[int | str] = ()) -> Target:
        """The topic, with its buffer where `delayed`; it should have the partitions that are `named`. Raises
        TopicUnknown, QueueUnavailable, Refusal."""
        known = self._known.get(topic)
        if known is None or (delayed and not known.has_buffer) or self._now_s() >= known.fresh_until_s:
            return await self._learn(topic, delayed)
        lacking = any(partition_named(known.info.partitions, one) is None for one in named)
        if lacking and self._now_s() >= known.renewed_s + RENEWED_S:
            known.renewed_s = self._now_s()
            return await self._learn(topic, delayed)
        return known

    def _now_s(self) -> float:
        return self._services.clock.monotonic_s()

    async def existing(self, topic: str, *, named: Collection[int | str] = ()) -> Target:
        """The topic as it is, see `target`: nothing is made. Raises TopicUnknown, QueueUnavailable, Refusal."""
        known = self._known.get(topic)
        if known is not None:
            return await self.target(topic, delayed=known.has_buffer, named=named)
        return await self.ask(lambda: self._target(self._services.admin.topic(topic), has_buffer=False))

    def forget(self, topic: str) -> None:
        """The queue has contradicted what is known of the topic."""
        self._known.pop(topic, None)

    def heed(self, target: Target, error: BaseException) -> None:
        """What the end of an append shows: the topic is another; or a partition takes nothing, and a second from now
        the topic is looked up again, for others that do."""
        if isinstance(error, TopicUnknown | PartitionUnknown):
            self.forget(target.info.name)
        elif isinstance(error, QueueUnavailable):
            target.fresh_until_s = min(target.fresh_until_s, self._now_s() + RENEWED_S)

    async def ask(self, question: Callable[[], T]) -> T:
        """Run a blocking question in a thread. Raises what it raises, or QueueUnavailable when it takes too long."""
        answer = asyncio.get_running_loop().run_in_executor(self._threads, question)
        try:
            async with asyncio.timeout(self._services.settings.append_timeout_s):
                return await answer
        except TimeoutError as error:
            raise QueueUnavailable("the queue did not answer in time") from error

    async def _learn(self, topic: str, delayed: bool) -> Target:
        """Requests that ask the same while the answer is under way share it."""
        under_way = self._learning.get((topic, delayed))
        if under_way is None:
            under_way = asyncio.ensure_future(self.ask(lambda: self._look_up(topic, delayed)))
            self._learning[topic, delayed] = under_way
            under_way.add_done_callback(lambda done: self._learned(topic, delayed, done))
        return await asyncio.shield(under_way)

    def _learned(self, topic: str, delayed: bool, done: "asyncio.Future[Target]") -> None:
        del self._learning[topic, delayed]
        if done.cancelled() or done.exception() is not None:
            return
        before = self._known.pop(topic, None)
        target = done.result()
        if before is not None and before.info == target.info:
            target.turns, target.has_buffer = before.turns, before.has_buffer or target.has_buffer
        if before is not None:
            target.renewed_s = before.renewed_s
        self._known[topic] = target
        if len(self._known) > TOPICS_KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _look_up(self, topic: str, delayed: bool) -> Target:
        settings, admin = self._services.settings, self._services.admin
        info = admin.ensure_topic(topic) if settings.topics_on_first_use else admin.topic(topic)
        if delayed:
            check_name(self._names.buffer(topic))
            admin.ensure_buffer(topic, settings.rules_for(topic))
        return self._target(info, has_buffer=delayed)

    def _target(self, info: TopicInfo, *, has_buffer: bool) -> Target:
        """Blocking."""
        return Target(
            info=info,
            buffer=self._names.buffer(info.name),
            record_bytes_max=self._services.client.record_bytes_max(info.name),
            has_buffer=has_buffer,
            fresh_until_s=self._now_s() + FRESH_S,
            in_turn=info.taking,
            turns=itertools.count(),
            accepted=self._metrics.accepted.labels(info.name, "http"),
        )

    def list(self) -> list[TopicInfo]:
        """Blocking: the topics of users, by name. One that vanishes meanwhile is left out."""
        found = []
        for name in sorted(self._services.admin.topics()):
            try:
                found.append(self._services.admin.topic(name))
            except TopicUnknown:
                continue
        return found


def shards_of(info: TopicInfo) -> list[Shard]:
    return [Shard(info.name, partition) for partition in info.partitions]


def named_partition(info: TopicInfo, named: int | str | None, key: bytes | None) -> str | None:
    """The partition that is named, else the key's; None where there is none of this name, or neither is given."""
    partitions = info.partitions
    if named is not None:
        return partition_named(partitions, named)
    return None if key is None else partitions[partition_index(key, len(partitions))]


def check_name(topic: str) -> None:
    """Raises Refusal for what can be no topic's name."""
    if not is_topic_name(topic):
        detail = "a topic's name has 1 to 249 of a-z A-Z 0-9 . _ -, and is not . or .."
        raise Refusal(INVALID_REQUEST, detail)
