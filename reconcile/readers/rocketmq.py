"""The ledger's reader of a RocketMQ cluster: a Python data source on our own client, which needs no jars.

The driver looks at what is held and checks every planned range against it; executors read exactly the planned offsets
(`mq.rocketmq.planned`): one task for a queue of a buffer, because rules records change what stands behind them, and
several for a long stretch of the audit or of a target. A record's time is that at which its broker stored it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from delayline.buffer.cursor import Cursor
from delayline.clock import Clock, SystemClock
from delayline.errors import UnknownFormat
from delayline.records.headers import RULES
from delayline.records.message import Shard
from delayline.records.record import decode_body
from mq.contract import LogRecord
from mq.errors import PartitionUnknown, QueueUnavailable, TopicUnknown
from mq.rocketmq.cluster import TopicOnBrokers
from mq.rocketmq.planned import PlannedReads
from mq.rocketmq.settings import RocketmqSettings
from reconcile.errors import CannotJudge
from reconcile.frames.schemas import ACCEPTED, DELIVERED
from reconcile.logic.partitions import QUEUES_MAX, Partitions
from reconcile.logic.plan import Buffer, Cluster, Held, Range, Read
from reconcile.readers import audit, rows
from reconcile.readers.contract import Audit
from reconcile.readers.ranges import TopicRange, audit_tasks, by_topic, check_held, delivered_tasks
from reconcile.readers.work import frame, translated_errors


class RocketmqReader:
    """Called by one thread. `close` it."""

    def __init__(self, settings: RocketmqSettings, clock: Clock, reads: PlannedReads | None = None) -> None:
        """Sends no request yet. `reads` are the driver's, which it closes."""
        self._settings, self._clock, self._names = settings, clock, settings.names
        self._reads = reads or PlannedReads(settings, clock)
        self._cluster = self._reads.cluster
        self._partitions = Partitions()

    def close(self) -> None:
        self._reads.close()

    def cluster(self) -> Cluster:
        """By the identity of the audit topic, which is made once, with the installation."""
        with translated_errors():
            found = self._cluster.describe(self._names.audit)
        return Cluster("rocketmq", found.info.topic_id.hex(), self._settings.namespace)

    def number_by(self, brokers: Sequence[str]) -> None:
        self._partitions = Partitions(tuple(brokers))

    # --- what is held

    def held(self) -> Held:
        with translated_errors():
            at_ms = self._clock.now_ms()
            self._check_all_there()
            found, buffers = self._cluster.describe(self._names.audit), self._reads.buffers()
            self._count_brokers([found, *buffers.values()])
            ranges = self._ranges(found)
            held = {name: Buffer(topic.info.topic_id.hex(), self._ranges(topic)) for name, topic in buffers.items()}
            brokers = list(self._partitions.brokers)
            return Held(at_ms, found.info.topic_id.hex(), ranges, held, brokers)

    def _check_all_there(self) -> None:
        """Without one of its brokers a topic would look as if it had lost queues. Raises QueueUnavailable."""
        if missing := sorted(set(self._partitions.brokers) - set(self._cluster.masters())):
            raise QueueUnavailable(
                f"{missing[0]}, from which earlier runs have read, is not registered with the name servers: wait for "
                "it, or start another directory if it is gone for good"
            )

    def _count_brokers(self, topics: Iterable[TopicOnBrokers]) -> None:
        self._partitions = self._partitions.with_brokers(broker for topic in topics for broker in topic.brokers)

    def _ranges(self, topic: TopicOnBrokers) -> dict[int, Range]:
        """What can be read of its queues, by number."""
        found = {}
        for place in topic.places:
            if place.queue_id >= QUEUES_MAX:
                raise CannotJudge(f"{topic.name} has more than {QUEUES_MAX} queues on {place.broker}")
            number = self._partitions.number(place.name)
            assert number is not None, "its broker has been counted"
            found[number] = Range(*self._cluster.range(place.of(topic.wire)))
        return found

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]:
        """A cursor knows those at its low offset. They hold from the first record held on, unless a rules record
        stands between: then they are unknown."""
        with translated_errors():
            known = {shard: self._rules(Shard(topic, self._partitions.name(shard))) for shard in shards}
        return {shard: text for shard, text in known.items() if text is not None}

    def _rules(self, shard: Shard) -> str | None:
        buffer = self._names.buffer(shard.topic)
        start, _ = self._reads.range(buffer, shard.partition)
        cursor = self._cursor(shard) if start > 0 else None
        if cursor is None:
            return None
        chunks = self._reads.read(buffer, shard.partition, start, cursor.low_offset)
        if any(map(_has_rules, chain.from_iterable(chunks))):
            return None
        return cursor.rules.encoded.decode()

    def _cursor(self, shard: Shard) -> Cursor | None:
        try:
            return self._reads.cursor(shard)
        except UnknownFormat as error:
            raise CannotJudge(f"{'.'.join(shard)}: {error}") from error

    # --- rows

    def audit(self, spark: SparkSession, ranges: Mapping[int, Range]) -> Audit:
        with translated_errors():
            self._check(self._names.audit, ranges)
            work = _Audit(self._settings, self._partitions, audit_tasks(self._names.audit, ranges))
            return audit.parse(frame(spark, work), self._partitions)

    def accepted(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        with translated_errors():
            for topic, ranges in by_topic(reads).items():
                self._check(self._names.buffer(topic), ranges)
            wanted = [read for read in reads if read.start < read.end]
            return frame(spark, _Accepted(self._settings, self._partitions, wanted))

    def is_empty(self, topic: str | None, partition: int, part: Range) -> bool:
        """A queue has no holes: what cannot be read is an error."""
        name = self._names.audit if topic is None else self._names.buffer(topic)
        with translated_errors():
            return not any(self._read(name, partition, part))

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None:
        name = self._names.buffer(topic)
        with translated_errors():
            try:
                start, end = self._held(name, shard)
            except (TopicUnknown, PartitionUnknown):
                return None
            return self._first_ms(name, shard, Range(max(start, part.start), min(end, part.end)))

    def _first_ms(self, topic: str, partition: int, part: Range) -> int | None:
        first = Range(part.start, min(part.start + 1, part.end))
        return next((chunk[0].appended_at_ms for chunk in self._read(topic, partition, first)), None)

    def delivered(self, spark: SparkSession, topics: Sequence[str], since_ms: int) -> DataFrame:
        with translated_errors():
            tasks = [task for topic in topics for task in self._since(topic, since_ms)]
            return frame(spark, _Delivered(self._settings, self._partitions, tasks))

    def _since(self, topic: str, since_ms: int) -> list[TopicRange]:
        ranges = {}
        for partition, (first, end) in self._ranges(self._target(topic)).items():
            start = max(first, self._reads.since(topic, self._partitions.name(partition), since_ms))
            ranges[partition] = Range(min(start, end), end)
        return delivered_tasks(topic, ranges)

    def kept_since_ms(self, topic: str) -> dict[int, int]:
        """Brokers delete from the beginning, as the first record left in each queue shows."""
        with translated_errors():
            found = self._target(topic)
            if self._reads.is_compacted(found):
                raise CannotJudge(f"{topic} is compacted: what was delivered may be gone from it")
            cut = {number: part for number, part in self._ranges(found).items() if part.start > 0}
            firsts = {number: self._first_ms(topic, number, part) for number, part in cut.items()}
            return {number: self._clock.now_ms() if at_ms is None else at_ms for number, at_ms in firsts.items()}

    def hidden(self, topics: Set[str]) -> dict[str, Sequence[int]]:
        """A broker shows what it has stored in that order: the deliveries of closed windows came before the marks."""
        return {}

    def _target(self, topic: str) -> TopicOnBrokers:
        try:
            found = self._cluster.describe(topic)
        except TopicUnknown as error:
            raise CannotJudge(f"{topic} does not exist: what was delivered is gone with it") from error
        self._count_brokers([found])
        return found

    def _read(self, topic: str, partition: int, part: Range) -> Iterator[Sequence[LogRecord]]:
        return self._reads.read(topic, self._partitions.name(partition), *part)

    def _held(self, topic: str, partition: int) -> Range:
        """Raises TopicUnknown, PartitionUnknown."""
        return Range(*self._reads.range(topic, self._partitions.name(partition)))

    def _check(self, topic: str, ranges: Mapping[int, Range]) -> None:
        """Raises CannotJudge where a planned range is not held: before executors find out one by one."""
        for partition, planned in ranges.items():
            if planned.start < planned.end:
                try:
                    held = self._held(topic, partition)
                except (TopicUnknown, PartitionUnknown) as error:
                    raise CannotJudge(str(error)) from error
                check_held(f"{topic}, partition {self._partitions.name(partition)}", planned, held)

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None:
        """Brokers delete by age alone, whatever has been read."""


def _has_rules(record: LogRecord) -> bool:
    return RULES in record.body and dict(decode_body(record.body).headers).get(RULES) is not None


# --- what executors do


@dataclass(frozen=True)
class _Reading:
    """A work on a cluster: it is pickled, and has connections only while a task runs."""

    settings: RocketmqSettings
    partitions: Partitions
    tasks: Sequence[Any]

    def reading(self, topic: str, partition: int, ranges: Sequence[Range]) -> Iterator[Sequence[LogRecord]]:
        with closing(PlannedReads(self.settings, SystemClock())) as reads:
            name = self.partitions.name(partition)
            yield from chain.from_iterable(reads.read(topic, name, *part) for part in ranges)

    def records(self, task: TopicRange) -> Iterator[Sequence[LogRecord]]:
        return self.reading(task.topic, task.partition, [Range(task.start, task.end)])


class _Audit(_Reading):
    schema = rows.RAW

    def run(self, task: TopicRange) -> Iterator[pa.RecordBatch]:
        return rows.raw(task.partition, (list(map(rows.value_of, chunk)) for chunk in self.records(task)))


class _Accepted(_Reading):
    schema = ACCEPTED

    def run(self, task: Read) -> Iterator[pa.RecordBatch]:
        topic = self.settings.names.buffer(task.topic)
        chunks = self.reading(topic, task.shard, list(rows.stretches(task)))
        return rows.accepted(task, chunks, self.partitions.name(task.shard))


class _Delivered(_Reading):
    schema = DELIVERED

    def run(self, task: TopicRange) -> Iterator[pa.RecordBatch]:
        for chunk in self.records(task):
            if found := [row for record in chunk if (row := _delivered(task, record)) is not None]:
                yield rows.batch(DELIVERED, list(zip(*found, strict=True)))


def _delivered(task: TopicRange, record: LogRecord) -> tuple[Any, ...] | None:
    """None for what did not come from here."""
    if (delivery := rows.delivery(record.body)) is None:
        return None
    name, due_ms, digest = delivery
    return task.topic, task.partition, record.offset, name, due_ms, record.appended_at_ms, digest
