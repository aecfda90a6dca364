"""Queries and changes of the cluster. Every call blocks, at most `request_timeout_s`, and raises QueueError."""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from delayline.clock import Clock
from delayline.errors import ConfigError
from delayline.records.message import Shard
from mq.contract import TopicInfo
from mq.errors import PartitionUnknown, QueueError, QueueUnavailable, TopicUnknown
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.renewed import Renewed
from mq.kafka.settings import KafkaSettings

T = TypeVar("T")
PASSING_S = 0.02
"""Between two tries where a partition changes its leader, or has just been made."""

FRESH_S = 5.0
"""How long a topic is believed to exist without asking again."""


ASSIGNMENT_S = 3.0
"""How long the coordinator is waited for about who owns what: callers ask again."""

_SETTLED = frozenset({ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})


class Described(NamedTuple):
    """A topic; by partition, `leaders` are node ids, -1 where there is none right now, and `in_sync` is how many
    replicas are up to date. `writable`: we may write to it. `operations` are those that we may do with it (READ,
    WRITE, ...); None where the brokers do not report it."""

    info: TopicInfo
    leaders: tuple[int, ...]
    in_sync: tuple[int, ...]
    replicas: int
    writable: bool = True
    operations: frozenset[str] | None = None


class Cluster:
    """Any thread may call it."""

    def __init__(self, settings: KafkaSettings, clock: Clock, pause: Callable[[float], object]) -> None:
        self._settings = settings
        self._clock = clock
        self._pause = pause
        self._timeout_s = settings.request_timeout_s
        self._line = Renewed(lambda: admin_client(settings), _drop, settings.adrift_s, clock)
        self._seen: dict[str, tuple[float, Described]] = {}  # bounded by the cluster's topics

    @property
    def admin(self) -> AdminClient:
        return self._line.client

    def _wait(self, future: "Future[T]", what: str) -> T:
        with self._line.asking(what):
            return self._answer(future, what)

    def _answer(self, future: "Future[T]", what: str) -> T:
        try:
            return future.result(self._timeout_s + 1)
        except TimeoutError as error:
            raise QueueUnavailable(f"{what}: no answer") from error

    # --- topics

    def names(self) -> list[str]:
        with self._line.asking("listing topics"):
            return sorted(self.admin.list_topics(timeout=self._timeout_s).topics)

    def describe(self, name: str) -> Described:
        """Raises TopicUnknown."""
        answers = self.admin.describe_topics(
            TopicCollection([name]), request_timeout=self._timeout_s, include_authorized_operations=True
        )
        try:
            found: Any = self._wait(answers[name], f"topic {name!r}")
        except TopicUnknown:
            self._seen.pop(name, None)
            raise
        partitions = sorted(found.partitions, key=lambda partition: partition.id)
        names = tuple(str(partition.id) for partition in partitions)
        down = frozenset(str(partition.id) for partition in partitions if partition.leader is None)
        info = TopicInfo(name, names, _uuid(found.topic_id), down)
        leaders = tuple(-1 if partition.leader is None else partition.leader.id for partition in partitions)
        in_sync = tuple(len(partition.isr) for partition in partitions)
        replicas = max((len(part.replicas) for part in partitions), default=1)
        allowed = found.authorized_operations
        writable = allowed is None or AclOperation.WRITE in allowed
        operations = None if allowed is None else frozenset(operation.name for operation in allowed)
        described = Described(info, leaders, in_sync, replicas, writable, operations)
        self._seen[name] = (self._clock.monotonic_s() + FRESH_S, described)
        return described

    def known(self, name: str) -> Described | None:
        """The topic, as it was seen within the last seconds. Does not block."""
        fresh_until_s, described = self._seen.get(name, (0.0, None))
        return described if self._clock.monotonic_s() < fresh_until_s else None

    def recall(self, name: str) -> Described:
        """The topic, not older than a few seconds. Raises TopicUnknown."""
        return self.known(name) or self.describe(name)

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def leader(self, topic: str, partition: int) -> int:
        """The node that stamps the partition's records, as last seen; -1 where that is unknown. Does not block."""
        _, described = self._seen.get(topic, (0.0, None))
        leaders = described.leaders if described else ()
        return leaders[partition] if partition < len(leaders) else -1

    def create(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> bool:
        """Whether it was made; False where it exists already. `replicas` -1 is the cluster's default."""
        topic = NewTopic(name, partitions, replicas, config=dict(config))
        answers = self.admin.create_topics([topic], request_timeout=self._timeout_s)
        return self._unless(trouble.topic_exists, answers[name], f"making topic {name!r}")

    def grow(self, name: str, partitions: int) -> bool:
        """Whether partitions were added; False where there are as many already."""
        answers = self.admin.create_partitions([NewPartitions(name, partitions)], request_timeout=self._timeout_s)
        return self._unless(trouble.partitions_exist, answers[name], f"adding partitions to {name!r}")

    def _unless(self, harmless: Callable[[KafkaError], bool], future: "Future[Any]", what: str) -> bool:
        try:
            self._wait(future, what)
        except QueueError as error:
            if isinstance(error.__cause__, KafkaException) and harmless(trouble.cause(error.__cause__)):
                return False
            raise
        return True

    def config(self, name: str) -> dict[str, str]:
        """Every setting of the topic, defaults included. Raises TopicUnknown."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        answers = self.admin.describe_configs([resource], request_timeout=self._timeout_s)
        entries: Any = self._wait(answers[resource], f"settings of topic {name!r}")
        return {entry.name: entry.value or "" for entry in entries.values()}

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        answers = self.admin.incremental_alter_configs([resource], request_timeout=self._timeout_s)
        self._wait(answers[resource], f"changing settings of topic {name!r}")

    def target_trouble(self, topic: str, partition: str) -> str | None:
        """Why deliveries to the partition would be refused, as far as that shows; None where nothing does."""
        try:
            found = self.describe(topic)
            number = partition_number(partition, len(found.info.partitions), topic)
        except (TopicUnknown, PartitionUnknown) as error:
            return str(error)
        at = f"{topic}, partition {number}"
        if not found.writable:
            return f"{topic}: writing is not allowed"
        if found.leaders[number] == -1:
            return f"{at}: no leader"
        needed = min(int(self.config(topic)["min.insync.replicas"]), found.replicas)  # as from 4.0
        if found.in_sync[number] < needed:
            return f"{at}: {found.in_sync[number]} replicas are in sync, {needed} are needed"
        return None

    # --- logs

    def log_range(self, topic: str, partition: int, *, readable: bool = False) -> tuple[int, int]:
        """(first offset held, offset behind the last). `readable`: behind the last that a reader of what is committed
        gets to see; it stands before the first transaction that is open."""
        return self.log_ranges(topic, (partition,), readable=readable)[partition]

    def log_ranges(
        self, topic: str, partitions: Sequence[int], *, readable: bool = False
    ) -> dict[int, tuple[int, int]]:
        """The same of several partitions, in two requests to each broker."""
        start = self.log_starts(topic, partitions)
        end = self.log_ends(topic, partitions, readable=readable)
        return {partition: (start[partition], end[partition]) for partition in partitions}

    def log_starts(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The starts alone."""
        return self._offsets(topic, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)

    def log_ends(self, topic: str, partitions: Sequence[int], *, readable: bool = False) -> dict[int, int]:
        """The ends alone."""
        level = IsolationLevel.READ_COMMITTED if readable else IsolationLevel.READ_UNCOMMITTED
        return self._offsets(topic, partitions, OffsetSpec.latest(), level)

    def is_stable(self, topic: str, partition: int, timeout_s: float) -> bool:
        """Whether within `timeout_s` all that is in the log now could be read, or was aborted."""
        return not self.with_open_transactions(topic, self._clock.monotonic_s() + timeout_s, (partition,))

    def with_open_transactions(
        self, topic: str, give_up_s: float, partitions: Sequence[int] | None = None
    ) -> list[int]:
        """Those of these partitions, or of all, of which something that is in the log now can still not be read at
        that moment (monotonic), because its transaction is open. Raises TopicUnknown."""
        asked = range(len(self.describe(topic).info.partitions)) if partitions is None else partitions
        ends = self.log_ends(topic, asked)
        while waiting := self._open(topic, ends):
            if self._clock.monotonic_s() >= give_up_s:
                break
            ends = {partition: ends[partition] for partition in waiting}
            self._pause(PASSING_S)
        return waiting

    def _open(self, topic: str, ends: Mapping[int, int]) -> list[int]:
        readable = self.log_ends(topic, list(ends), readable=True)
        return [partition for partition, end in ends.items() if readable[partition] < end]

    def _offsets(
        self, topic: str, partitions: Sequence[int], spec: OffsetSpec, level: IsolationLevel
    ) -> dict[int, int]:
        at = {partition: TopicPartition(topic, partition) for partition in partitions}
        question = dict.fromkeys(at.values(), spec)
        what = "offsets of {0.topic}, partition {0.partition}"
        give_up_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            answers = self.admin.list_offsets(question, isolation_level=level, request_timeout=self._timeout_s)
            try:
                return {number: self._offset(answers[one], what.format(one)) for number, one in at.items()}
            except QueueError as error:
                if not _passes(error) or self._clock.monotonic_s() > give_up_s:
                    raise
            self._pause(PASSING_S)

    def _offset(self, answer: "Future[Any]", what: str) -> int:
        """Where a broker does not answer in time the library's answer has neither an error nor an offset (librdkafka
        2.16): a log would begin and end at -1001, and hold nothing."""
        with self._line.asking(what):
            offset: int = self._answer(answer, what).offset
            if offset == OFFSET_INVALID:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return offset

    def offsets_since(self, topic: str, partitions: Sequence[int], since_ms: int) -> dict[int, int]:
        """By partition, the first offset whose record has this time or a later one; -1 where none has."""
        return self._offsets(topic, partitions, OffsetSpec.for_timestamp(since_ms), IsolationLevel.READ_COMMITTED)

    def operations(self) -> frozenset[str] | None:
        """What we may do with the cluster itself (ALTER, ...); None where the brokers do not report it."""
        answer = self.admin.describe_cluster(include_authorized_operations=True, request_timeout=self._timeout_s)
        found: Any = self._wait(answer, "what we may do with the cluster")
        allowed = found.authorized_operations
        return None if allowed is None else frozenset(operation.name for operation in allowed)

    def cluster_id(self) -> str:
        """The cluster's own name for itself."""
        found: Any = self._wait(self.admin.describe_cluster(request_timeout=self._timeout_s), "the cluster's id")
        return str(found.cluster_id)

    def trim(self, topic: str, partition: int, offset: int) -> None:
        answers = self.admin.delete_records(
            [TopicPartition(topic, partition, offset)], request_timeout=self._timeout_s
        )
        for answer in answers.values():
            self._wait(answer, f"trimming {topic}, partition {partition}")

    # --- the worker group

    def members(self) -> Mapping[str, Sequence[Shard]]:
        """Client ids of the worker group's members, with the shards that each owns."""
        found = self._described_group(self._timeout_s)
        return _members(self._settings, found)

    def assignment(self) -> Mapping[str, Sequence[Shard]]:
        """The same, while it means something: in the middle of a rebalance the coordinator knows of no assignment,
        and members go on with what they have. Raises QueueUnavailable then, and after `ASSIGNMENT_S`."""
        found = self._described_group(min(self._timeout_s, ASSIGNMENT_S))
        if found is not None and found.state not in _SETTLED:
            raise QueueUnavailable(f"group {self._settings.group!r} is being rebalanced")
        return _members(self._settings, found)

    def _described_group(self, timeout_s: float) -> Any:
        """None where there is no such group.

        By a client of its own each time: one whose question for the coordinator ran out of time has none answered any
        more, and ends the process when the coordinator comes back (librdkafka 2.16, see `offsets.py`)."""
        group = self._settings.group
        admin = admin_client(self._settings)
        answers = admin.describe_consumer_groups([group], request_timeout=timeout_s)
        what = f"members of group {group!r}"
        try:
            with trouble.translated_errors(what):
                return self._answer(answers[group], what)
        except QueueError as error:
            if isinstance(error.__cause__, KafkaException) and trouble.no_group(trouble.cause(error.__cause__)):
                return None
            raise
        finally:
            del admin  # now, and not when whoever holds the error lets go of it: the coordinator may be back by then


def admin_client(settings: KafkaSettings) -> AdminClient:
    """Connects to nothing yet. Raises ConfigError for properties that the library does not take."""
    try:
        return AdminClient(settings.admin())
    except KafkaException as error:
        raise ConfigError(f"mq.properties: {trouble.cause(error).str()}") from None  # the chain would show secrets


def _drop(_: AdminClient) -> None:
    """It ends with the last reference to it."""


def _members(settings: KafkaSettings, found: Any) -> dict[str, list[Shard]]:
    members = found.members if found is not None else ()
    return {member.client_id: _shards(settings, member.assignment) for member in members}


def _shards(settings: KafkaSettings, assignment: Any) -> list[Shard]:
    partitions = assignment.topic_partitions if assignment else ()
    targets = ((settings.names.target(part.topic), part.partition) for part in partitions)
    return [Shard(target, str(partition)) for target, partition in targets if target is not None]


def _passes(error: QueueError) -> bool:
    return isinstance(error.__cause__, KafkaException) and trouble.moving(trouble.cause(error.__cause__))


def _uuid(found: Uuid) -> bytes:
    """The 16 bytes, which the library shows as unpadded base 64."""
    return urlsafe_b64decode(f"{found}==")


def partition_number(name: str, partitions: int, topic: str) -> int:
    """The partition called `name`. Raises PartitionUnknown."""
    if not name.isascii() or not name.isdigit() or str(int(name)) != name or int(name) >= partitions:
        raise PartitionUnknown(f"{topic} has no partition {name!r}")
    return int(name)
