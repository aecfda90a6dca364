"""Buffer topics and this installation's own topics: how they are made, and how they must be.

A buffer topic is the log of everything accepted: nothing may leave it but by a trim, so its retention is unlimited
and it is never compacted; the broker stamps its records, because accepted_at is the base of every relative delay;
small segments let a trim free disk. What is altered by hand is repaired within `tend_interval_s`, and logged.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from confluent_kafka import Producer

from delayline.buffer.record import encode_rules
from delayline.clock import Clock
from delayline.names import is_topic_name
from delayline.process import logs
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import HEADER_ROOM_BYTES, TopicInfo
from mq.errors import QueueError, QueueUnavailable, TopicUnknown
from mq.group_topic_limit import GroupTopicLimit
from mq.kafka.admin.cluster import Cluster, Described
from mq.kafka.librdkafka.producers import Outgoing, flush
from mq.kafka.settings import KafkaSettings

OWN_BYTES_MAX = 64 << 20
"""What Delayline writes about a record (dead letter, audit) may be larger than the record."""

LEADERS_S = 5.0
LEADERS_PAUSE_S = 0.02

BUFFER = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "segment.bytes": str(128 << 20),
    "segment.ms": "3600000",
}
"""max.message.bytes and min.insync.replicas follow the target topic."""

CURSOR = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",
    "segment.bytes": str(4 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}
"""Small segments, because only what stands before the last one is compacted: takeovers read all of it."""

AUDIT_RETENTION_MS = 30 * 86_400_000
"""For an audit once a day, a month of outage. Until the audit has been read, the outcome of a record is unknown;
a row takes 35 bytes on the brokers' disks."""

AUDIT = {
    "cleanup.policy": "delete",
    "retention.ms": str(AUDIT_RETENTION_MS),
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "compression.type": "zstd",
    "max.message.bytes": str(OWN_BYTES_MAX),
}
"""Retention follows the records' time: it must be the brokers', and no bound of bytes may come before it."""

UNLIMITED = "-1"
AT_LEAST = {"max.message.bytes", "retention.ms"}
"""More of it does no harm: larger records may be held already, or an operator wants to keep them for longer."""

DEAD = {"retention.ms": "-1", "max.message.bytes": str(OWN_BYTES_MAX)}
OPERATORS = {"retention.ms": str(365 * 86_400_000), "message.timestamp.type": "LogAppendTime"}
"""Who did what. Set another retention by hand: it is not repaired."""

DLQ = {"retention.ms": "-1"}
OWN_PARTITIONS = 4

log = logs.get(__name__)


class Change(NamedTuple):
    """The outcome of a topic of ours. `partitions_before` is 0 where it is still to be made, `replicas` -1 where the
    cluster's default counts; `settings` are those that change, each as (before, after)."""

    topic: str
    partitions_before: int
    partitions: int
    replicas: int
    settings: Mapping[str, tuple[str, str]]

    @property
    def is_needed(self) -> bool:
        return self.partitions_before != self.partitions or bool(self.settings)


class Buffers:
    """Any thread may call it. Raises QueueError."""

    def __init__(
        self, settings: KafkaSettings, cluster: Cluster, clock: Clock, pause: Callable[[float], object]
    ) -> None:
        self._settings = settings
        self._group_topic_limit = GroupTopicLimit(settings.group_topics_max, clock)
        self._names = settings.names
        self._cluster = cluster
        self._clock = clock
        self._pause = pause
        self._one_at_a_time = Lock()
        self._has_own = False
        self._begun: dict[str, TopicInfo] = {}  # whose partitions all hold something; bounded by the topics

    def ensure_own(self) -> None:
        """Audit, dead letters, acts, cursors: there before anything is delayed or delivered."""
        if self._has_own:
            return
        for name, config in self._own():
            try:
                self._cluster.describe(name)
            except TopicUnknown:
                self._make(name, OWN_PARTITIONS, -1, config)
        self._has_own = True

    def _own(self) -> Sequence[tuple[str, Mapping[str, str]]]:
        names = self._names
        return (names.audit, AUDIT), (names.dead, DEAD), (names.operators, OPERATORS), (names.cursor, CURSOR)

    def _tended(self) -> Sequence[tuple[str, Mapping[str, str]]]:
        """Those of them that are repaired. What is in the way of dead letters is their readers' matter."""
        return (self._names.audit, AUDIT), (self._names.cursor, CURSOR)

    # --- what is still to be done

    def plan(self, targets: Sequence[str]) -> list[Change]:
        """What `ensure` and `tend` would do for these topics of users, one change for each topic of our own; nothing
        is done. Raises TopicUnknown."""
        own = [self._change(name, OWN_PARTITIONS, -1, config) for name, config in self._own()]
        buffers = []
        for name in targets:
            target = self.target(name)
            partitions = len(target.info.partitions)
            buffers.append(self._change(self._names.buffer(name), partitions, target.replicas, self._config(target)))
        return [*own, *buffers]

    def _change(self, name: str, partitions: int, replicas: int, wanted: Mapping[str, str]) -> Change:
        try:
            found = len(self._cluster.describe(name).info.partitions)
        except TopicUnknown:
            return Change(name, 0, partitions, replicas, {key: ("", value) for key, value in wanted.items()})
        is_buffer = self._names.target(name) is not None
        before, drift = self._drift(name, wanted if is_buffer or name in dict(self._tended()) else {})
        grown = max(found, partitions) if is_buffer else found
        return Change(name, found, grown, replicas, {key: (before[key], value) for key, value in drift.items()})

    def target(self, name: str) -> Described:
        """A topic of users. Raises TopicUnknown."""
        if self._names.is_own(name):
            raise TopicUnknown(f"{name!r} is a name of this installation's own topics")
        if not is_topic_name(name):
            raise TopicUnknown(f"{name!r} cannot be a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -")
        return self._cluster.describe(name)

    def ensure(self, target: str, rules: Rules) -> TopicInfo:
        """The buffer topic, as it must be. An empty partition gets a rules record where the rules are not the default
        ones, by everybody who comes along: twice the same does no harm, and none of those that follow such rules
        appends before."""
        name = self._names.buffer(target)
        with self._one_at_a_time:
            self.ensure_own()
            described = self._adjusted(self.target(target), name)
            if not rules.same_as(DEFAULT_RULES) and self._begun.get(name) != described.info:
                self._begin_with(described, encode_rules(rules))
                self._begun[name] = described.info
        return described.info

    def ensure_group(self, name: str, target: str) -> Described:
        """A consumer group's topic; where it is missing, made with partitions and replicas like `target`, for the
        same records. Raises TopicUnknown."""
        if not self._names.is_group(name):
            raise TopicUnknown(f"{name!r} is no topic of a consumer group")
        if not is_topic_name(name):
            raise TopicUnknown(f"{name!r} cannot be a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -")
        try:
            return self._cluster.recall(name)
        except TopicUnknown:
            like = self.target(target)
            self._group_topic_limit.check(name, target)
            kept = DLQ if name.startswith(self._names.dlq("")) else {}
            made = self._make(name, len(like.info.partitions), like.replicas, {**self._sizes(like), **kept})
            self._group_topic_limit.made(target)
            return made

    def _adjusted(self, target: Described, name: str) -> Described:
        """The buffer topic with the target's partitions and the right configuration."""
        wanted = self._config(target)
        partitions = len(target.info.partitions)
        try:
            found = self._cluster.describe(name)
        except TopicUnknown:
            return self._make(name, partitions, target.replicas, wanted)
        self._repair(name, wanted)
        if len(found.info.partitions) >= partitions:
            return found
        if self._cluster.grow(name, partitions):
            log.info("partitions added to a buffer topic", topic=name, partitions=partitions)
        return self._led(name, partitions)

    def _config(self, target: Described) -> dict[str, str]:
        return {**BUFFER, **self._sizes(target)}

    def _sizes(self, target: Described) -> dict[str, str]:
        """For records of the target, with what is added to them on their way."""
        own = self._cluster.config(target.info.name)
        bytes_max = int(own["max.message.bytes"]) + HEADER_ROOM_BYTES
        return {"max.message.bytes": str(bytes_max), "min.insync.replicas": own["min.insync.replicas"]}

    def _make(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> Described:
        if not self._settings.topics_create:
            raise TopicUnknown(f"topic {name!r} is missing, and mq.topics_create is off")
        if self._cluster.create(name, partitions, replicas, config):
            log.info("topic made", topic=name, partitions=partitions)
        return self._led(name, partitions)

    def _led(self, name: str, partitions: int) -> Described:
        """The topic, once every partition has a leader: brokers hear of a new one a moment later."""
        for _ in range(int(LEADERS_S / LEADERS_PAUSE_S)):
            try:
                found = self._cluster.describe(name)
                if len(found.leaders) >= partitions and -1 not in found.leaders:
                    return found
            except TopicUnknown:
                pass  # not every broker knows it yet
            self._pause(LEADERS_PAUSE_S)
        raise QueueUnavailable(f"topic {name!r} has partitions without a leader")

    def _repair(self, name: str, wanted: Mapping[str, str]) -> None:
        before, drift = self._drift(name, wanted)
        if drift:
            log.warning("settings of a topic repaired", topic=name, before=before, now=drift)
            self._cluster.configure(name, drift)

    def _drift(self, name: str, wanted: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Settings that are not as they must be: as they are, and as they must be."""
        found = self._cluster.config(name)
        drift = {key: value for key, value in wanted.items() if found.get(key) != value}
        for key in AT_LEAST & drift.keys():
            if drift[key] != UNLIMITED and (found[key] == UNLIMITED or int(found[key]) > int(drift[key])):
                del drift[key]
        return {key: found.get(key, "") for key in drift}, drift

    def _begin_with(self, buffer: Described, body: bytes) -> None:
        name = buffer.info.name
        empty = [
            number for number in range(len(buffer.info.partitions)) if self._cluster.log_range(name, number)[1] == 0
        ]
        if not empty:
            return
        producer = Producer(self._settings.producer())
        outgoing = Outgoing()
        for number in empty:
            outgoing.send(producer, name, number, body)
        left = flush(producer, self._settings.request_timeout_s, self._clock)
        if left or outgoing.failures:
            raise QueueUnavailable(f"the rules could not be written to {name!r}")

    def tend_own(self) -> None:
        """This installation's own topics, made and repaired."""
        self.ensure_own()
        for name, config in self._tended():
            self._repair(name, config)

    def tend(self) -> None:
        """Look after cursors and audit, and every buffer topic there is: partitions added to its target, settings
        altered by hand."""
        for name, config in self._tended():
            try:
                self._repair(name, config)
            except QueueError as error:
                log.warning("topic not looked after", topic=name, detail=str(error))
        for name in self._cluster.names():
            target = self._names.target(name)
            if target is None:
                continue
            try:
                self._adjusted(self.target(target), name)
            except QueueError as error:
                log.warning("buffer topic not looked after", topic=name, detail=str(error))
