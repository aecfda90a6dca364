"""Client and Admin of a local queue."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import Lock

from delayline.buffer.cursor import Cursor
from delayline.buffer.record import encode_rules
from delayline.clock import Clock
from delayline.names import is_topic_name
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.audited import Positions
from mq.contract import (
    HEADER_ROOM_BYTES,
    Append,
    AppendRequest,
    Audited,
    Claim,
    Handover,
    LogRecord,
    Owner,
    Position,
    TopicInfo,
)
from mq.errors import ClaimLost, OffsetOutOfRange, QueueError, RecordTooLarge, TopicUnknown
from mq.group_topic_limit import GROUP_TOPICS_MAX, GroupTopicLimit
from mq.local.ledger import Ledger
from mq.local.steps import AppendStep, Barrier, Committer, CreateStep, DeleteStep, TrimStep, complete
from mq.local.storage import Storage
from mq.local.topic import Partition, Topic
from mq.local.worker import LocalSink, LocalSource

RECORD_BYTES_MAX = (1 << 20) + HEADER_ROOM_BYTES
"""Kafka's default of 1 MiB for what a client sends, and room for what we add to it."""

TOPICS_MAX = 2048
"""All topics together; a buffer topic counts as one. Each partition costs about 300 bytes of memory and, when the
queue is opened, three seeks."""


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """Sizes of a local queue. `record_bytes_max` is a body's."""

    partitions: int = 4
    record_bytes_max: int = RECORD_BYTES_MAX
    topics_max: int = TOPICS_MAX
    group_topics_max: int = GROUP_TOPICS_MAX


class LocalQueue:
    """Client and Admin, and the maker of Sources and Sinks, over any back end. Any thread may call it."""

    def __init__(
        self, ledger: Ledger, storage: Storage, committer: Committer, clock: Clock, limits: LocalLimits
    ) -> None:
        """Takes over `storage` and `committer`, and makes this installation's own topics where they are missing.
        Raises QueueUnavailable."""
        self._ledger = ledger
        self._storage = storage
        self._committer = committer
        self._clock = clock
        self._limits = limits
        self._group_topic_limit = GroupTopicLimit(limits.group_topics_max, clock)
        self._owner: tuple[Owner, LocalSource] | None = None
        self._claims: dict[str, _LocalClaim] = {}
        self._claiming = Lock()
        self._names = ledger.names
        self.ensure_own()

    def open_worker(self, writer: str) -> tuple[LocalSource, LocalSink]:
        """A new worker, to which every shard goes; an earlier one loses them at once. `writer` is the name that its
        cursors carry. Raises QueueUnavailable."""
        self._ledger.check()
        source = LocalSource(self._ledger, self._storage, self._clock)
        self._ledger.hand_over(source)
        self._owner = Owner(writer), source
        bytes_max = self._limits.record_bytes_max
        return source, LocalSink(self._ledger, self._committer, source, bytes_max, self.group_topic)

    def close(self) -> None:
        """Finish what has been asked for and let go. Later calls raise QueueUnavailable."""
        self._committer.close()
        self._ledger.fail("the queue is closed")
        self._storage.close()

    # --- Client

    def append(self, records: Sequence[Append]) -> "Future[list[Position]]":
        future: Future[list[Position]] = Future()
        future.set_running_or_notify_cancel()
        self.append_each([AppendRequest(records, partial(complete, future))])
        return future

    def append_each(self, requests: Sequence[AppendRequest]) -> None:
        steps: list[AppendStep] = []
        for records, ended in requests:
            try:
                steps.append(AppendStep(records, self._by_partition(records), ended))
            except QueueError as error:
                ended(error)
        self._committer.submit_all(steps)

    def claim(self, name: str) -> Claim:
        with self._claiming:
            self._claims[name] = _LocalClaim(self, name)
            return self._claims[name]

    def append_under(self, claim: "_LocalClaim", records: Sequence[Append]) -> None:
        """The next claim of the name waits for it. Raises as `Claim.append` does."""
        with self._claiming:
            if self._claims.get(claim.name) is not claim:
                raise ClaimLost(f"{claim.name} has been claimed by another process since")
            self.append(records).result()

    def _by_partition(self, records: Sequence[Append]) -> dict[tuple[str, str], tuple[Partition, list[bytes]]]:
        """Hot: about 0.3 us per record."""
        largest = self._limits.record_bytes_max
        runs: dict[tuple[str, str], tuple[Partition, list[bytes]]] = {}
        for topic, name, body in records:
            if len(body) > largest:
                raise RecordTooLarge(f"a record of {len(body)} bytes for {topic}, the limit is {largest}")
            run = runs.get((topic, name))
            if run is None:
                run = runs[topic, name] = (self._ledger.topic(topic).partition(name), [])
            run[1].append(body)
        return runs

    def read(
        self, topic: str, partition: str, offset: int, records_max: int, bytes_max: int = 4 << 20
    ) -> list[LogRecord]:
        self._ledger.check()
        log = self._ledger.topic(topic).partition(partition)
        start, end = self._range(log)
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"{topic}, partition {partition}: {offset} is not within {start}..{end}")
        if offset == end or records_max <= 0:
            return []
        records = self._storage.read(log, offset, end, records_max, bytes_max)
        return records or self.read(topic, partition, offset, records_max, bytes_max)  # overtaken by a trim

    def offsets(self, topic: str, partition: str) -> tuple[int, int]:
        return self._range(self._ledger.topic(topic).partition(partition))

    def _range(self, partition: Partition) -> tuple[int, int]:
        with self._ledger.lock:
            return partition.start, partition.end

    def wait(self, topic: str, positions: Mapping[str, int], timeout_s: float) -> bool:
        found = self._ledger.topic(topic)
        waiting = [(found.partition(name), offset) for name, offset in positions.items()]

        def stirred() -> bool:
            return (
                self._ledger.failure is not None
                or found.deleted
                or any(part.end > offset for part, offset in waiting)
            )

        with found.grown:
            grown = found.grown.wait_for(stirred, timeout_s)
            self._ledger.check()
            self._ledger.topic(topic)
        return grown

    def is_stable(self, topic: str, partition: str, timeout_s: float) -> bool:
        """What has been appended can be read."""
        self._ledger.topic(topic).partition(partition)
        return True

    def record_bytes_max(self, topic: str) -> int:
        self._ledger.topic(topic)
        return self._limits.record_bytes_max

    # --- Admin

    def topics(self) -> Sequence[str]:
        with self._ledger.lock:
            return sorted(name for name in self._ledger.topics if not self._names.is_own(name))

    def topic(self, name: str) -> TopicInfo:
        return self._ledger.topic(name).info

    def ensure_topic(self, name: str) -> TopicInfo:
        self._check_users(name)
        return self._ensure(name, self._limits.partitions).info

    def create_topic(self, name: str, partitions: int | None = None) -> TopicInfo:
        self._check_users(name)
        wanted = self._limits.partitions if partitions is None else partitions
        step = CreateStep(name, wanted, self._limits.topics_max, new=True)
        return self._committer.submit(step).result().info

    def delete_topic(self, name: str) -> None:
        self._check_users(name)
        self._committer.submit(DeleteStep(name, self._names.buffer(name))).result()

    def _check_users(self, name: str) -> None:
        """Raises TopicUnknown for what can be no topic of users."""
        if self._names.is_own(name):
            raise TopicUnknown(f"{name!r} is a name of this installation's own topics")
        if not is_topic_name(name):
            raise TopicUnknown(f"{name!r} cannot be a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -")

    def group_topic(self, name: str, target: TopicInfo) -> Topic:
        """A consumer group's topic, made on first use. Raises TopicUnknown."""
        if not self._names.is_group(name):
            raise TopicUnknown(f"{name!r} is no topic of a consumer group")
        if not is_topic_name(name):
            raise TopicUnknown(f"{name!r} cannot be a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -")
        found = self._ledger.topics.get(name)
        if found is not None:
            return found
        self._group_topic_limit.check(name, target.name)
        made = self._ensure(name, len(target.partitions))
        self._group_topic_limit.made(target.name)
        return made

    def ensure_own(self) -> None:
        for name in (self._names.audit, self._names.dead, self._names.operators):
            self._ensure(name, self._limits.partitions)

    def ensure_buffer(self, name: str, rules: Rules) -> TopicInfo:
        target = self.ensure_topic(name)
        first_body = None if rules.same_as(DEFAULT_RULES) else encode_rules(rules)
        return self._ensure(self._names.buffer(name), len(target.partitions), first_body).info

    def _ensure(self, name: str, partitions: int, first_body: bytes | None = None) -> Topic:
        self._ledger.check()
        found = self._ledger.topics.get(name)
        if found is not None and not found.deleted:
            return found
        return self._committer.submit(CreateStep(name, partitions, self._limits.topics_max, first_body)).result()

    def takeover(self, shard: Shard) -> Handover:
        """Opening a worker has fenced the earlier ones; what they had under way is finished before the barrier."""
        topic, partition = self._buffer(shard)
        self._committer.submit(Barrier()).result()
        return Handover(self._cursor(partition), topic.topic_id)

    def log_range(self, shard: Shard) -> tuple[int, int]:
        return self._range(self._buffer(shard)[1])

    def trim(self, shard: Shard, low_offset: int) -> None:
        """Readers lose sight of it at once; the room comes back later. A crash between the two brings it back to
        sight, which does no harm: the next owner trims again."""
        partition = self._buffer(shard)[1]
        self._ledger.check()
        if low_offset > self._range(partition)[1]:
            raise OffsetOutOfRange(f"{'.'.join(shard)}: trim to {low_offset}, behind the log's end")
        if self._ledger.trim(partition, low_offset):
            self._committer.submit(TrimStep(partition, low_offset))

    def identity(self) -> str:
        self._ledger.check()
        return self._storage.identity()

    def read_cursor_unfenced(self, shard: Shard) -> Cursor | None:
        return self._cursor(self._buffer(shard)[1])

    def _cursor(self, partition: Partition) -> Cursor | None:
        with self._ledger.lock:
            data = self._ledger.cursors.get(partition)
        return None if data is None else Cursor.decode(data)

    def kept_s(self, shard: Shard) -> float | None:
        return None

    def audited(self, shard: Shard) -> Audited | None:
        self._buffer(shard)
        return self._positions().of(shard)

    def _positions(self) -> Positions:
        """How far the reconcile job has read. Raises QueueUnavailable, UnknownFormat."""
        return Positions()

    def buffer(self, shard: Shard) -> TopicInfo:
        return self._buffer(shard)[0].info

    def target_trouble(self, shard: Shard) -> str | None:
        """Topics here go with their shards, and refuse nothing but a record that is too large."""
        return None

    def reach(self) -> None:
        self._ledger.check()

    def trouble(self) -> str | None:
        """What is damaged or has failed, so that nothing more is taken in; None where nothing is."""
        return self._ledger.failure or self._storage.trouble()

    def owners(self) -> Mapping[Shard, Owner]:
        """The worker of this process: it has no address."""
        self._ledger.check()
        if self._owner is None:
            return {}
        owner, source = self._owner
        return dict.fromkeys(source.shards(), owner)

    def appended_at_ms(self, shard: Shard, offset: int) -> int | None:
        partition = self._buffer(shard)[1]
        start, end = self._range(partition)
        records = self._storage.read(partition, max(start, offset), end, 1, 1) if offset < end else ()
        return records[0].appended_at_ms if records else None

    def _buffer(self, shard: Shard) -> tuple[Topic, Partition]:
        topic = self._ledger.topic(self._names.buffer(shard.topic))
        return topic, topic.partition(shard.partition)


class _LocalClaim:
    """The process has the queue to itself (`QueueLocked`), so that memory is enough."""

    def __init__(self, queue: LocalQueue, name: str) -> None:
        self.name = name
        self._queue = queue

    def append(self, records: Sequence[Append]) -> None:
        self._queue.append_under(self, records)

    def close(self) -> None:
        """A claim costs nothing."""
