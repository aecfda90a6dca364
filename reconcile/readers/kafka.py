"""The ledger's reader of a Kafka: a Python data source on librdkafka, which needs no jars.

The driver looks at what is held and checks every planned range against it; executors read exactly the planned
offsets (`mq.kafka.planned.ranges`), one task for a partition of a buffer, because rules records change what stands
behind them, and several for a long stretch of the audit.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from threading import Event
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from delayline.buffer.cursor import Cursor
from delayline.clock import Clock, SystemClock
from delayline.records import headers
from delayline.records.message import Shard
from mq.errors import TopicUnknown
from mq.kafka.admin.cluster import Cluster as KafkaCluster
from mq.kafka.admin.readers import Readers
from mq.kafka.data_path.finishing import Nobody
from mq.kafka.data_path.spoken import direct
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.bodies import body_of
from mq.kafka.planned.buffer_ranges import read_buffer
from mq.kafka.planned.ranges import read_range
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker.cursors import Cursors
from reconcile.errors import CannotJudge
from reconcile.frames.schemas import ACCEPTED, DELIVERED
from reconcile.logic.plan import Buffer, Cluster, Held, Range, Read
from reconcile.readers import audit, rows
from reconcile.readers.contract import Audit
from reconcile.readers.ranges import TopicRange, audit_tasks, by_topic, check_held, delivered_tasks
from reconcile.readers.work import frame, translated_errors

SETTLED_S = 30.0
"""How long a comparison waits for transactions that are open in the target topics: longer than those of workers."""

COMMIT_VERSION = 1


class KafkaReader:
    """Called by one thread. `close` it."""

    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        """Sends no request yet. Raises ConfigError for properties that the library does not take, or that reading
        buffers does not speak."""
        direct(settings, settings.namespace, clock)  # at the start, not in a task
        self._settings = settings
        self._clock = clock
        self._names = settings.names
        self._cluster = KafkaCluster(settings, clock, Event().wait)
        self._readers = Readers(settings, self._cluster, clock)
        self._cursors = Cursors(settings, self._cluster, self._readers, clock, Nobody())

    def close(self) -> None:
        self._cursors.close()
        self._readers.close()

    def cluster(self) -> Cluster:
        with translated_errors():
            return Cluster("kafka", self._cluster.cluster_id(), self._settings.namespace)

    def number_by(self, brokers: Sequence[str]) -> None:
        """Partitions have numbers."""

    # --- what is held

    def held(self) -> Held:
        with translated_errors():
            at_ms = self._clock.now_ms()
            audit_id, audit_ranges = self._held(self._names.audit)
            targets = {self._names.target(name): name for name in self._cluster.names()}
            buffers = {target: Buffer(*self._held(name)) for target, name in targets.items() if target is not None}
            return Held(at_ms, audit_id, audit_ranges, buffers)

    def _held(self, topic: str) -> tuple[str, dict[int, Range]]:
        """Its id, and what can be read of its partitions."""
        info = self._cluster.describe(topic).info
        numbers = [int(name) for name in info.partitions]
        ranges = self._cluster.log_ranges(topic, numbers, readable=True)
        return info.topic_id.hex(), {number: Range(*ends) for number, ends in ranges.items()}

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]:
        """A cursor knows those at its low offset. They hold from the first record held on, unless a rules record
        stands between: then they are unknown."""
        with translated_errors():
            starts = self._cluster.log_ranges(self._names.buffer(topic), shards, readable=True)
            known = {shard: self._rules(Shard(topic, str(shard)), starts[shard][0]) for shard in shards}
        return {shard: text for shard, text in known.items() if text is not None}

    def _rules(self, shard: Shard, start: int) -> str | None:
        cursor = self._cursor(shard) if start > 0 else None
        if cursor is None or self._changes(shard, start, cursor.low_offset):
            return None
        return cursor.rules.encoded.decode()

    def _cursor(self, shard: Shard) -> Cursor | None:
        """None also where there is no topic of cursors: a gap must be judged before workers have made it anew."""
        try:
            return self._cursors.read_cursor_unfenced(shard)
        except TopicUnknown:
            return None

    def _changes(self, shard: Shard, start: int, end: int) -> bool:
        """Whether a rules record is there. What is kept behind a low offset is kept for `audit.hold_max` only."""
        chunks = read_range(
            self._settings, self._clock, self._names.buffer(shard.topic), int(shard.partition), start, end
        )
        return any(_header(message, headers.RULES) is not None for chunk in chunks for message in chunk)

    # --- rows

    def audit(self, spark: SparkSession, ranges: Mapping[int, Range]) -> Audit:
        with translated_errors():
            self._check(self._names.audit, ranges)
            return audit.parse(self.audit_records(spark, ranges))

    def accepted(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        with translated_errors():
            for topic, ranges in by_topic(reads).items():
                self._check(self._names.buffer(topic), ranges)
            return self.buffer_rows(spark, [read for read in reads if read.start < read.end])

    def is_empty(self, topic: str | None, partition: int, part: Range) -> bool:
        name = self._names.audit if topic is None else self._names.buffer(topic)
        with translated_errors():
            return not any(read_range(self._settings, self._clock, name, partition, *part))

    def audit_records(self, spark: SparkSession, ranges: Mapping[int, Range]) -> DataFrame:
        """Rows by `rows.RAW` of ranges that are held."""
        return frame(spark, _KafkaAudit(self._settings, audit_tasks(self._names.audit, ranges)))

    def buffer_rows(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        """`accepted` of ranges that are held and not empty."""
        return frame(spark, _KafkaAccepted(self._settings, reads))

    def delivered(self, spark: SparkSession, topics: Sequence[str], since_ms: int) -> DataFrame:
        with translated_errors():
            tasks = [task for topic in topics for task in self._since(topic, since_ms)]
            return frame(spark, _KafkaDelivered(self._settings, tasks))

    def _since(self, topic: str, since_ms: int) -> list[TopicRange]:
        _, held = self._held(topic)
        starts = self._cluster.offsets_since(topic, list(held), since_ms)
        ends = {partition: end for partition, (_, end) in held.items()}
        ranges = {number: Range(end if starts[number] < 0 else starts[number], end) for number, end in ends.items()}
        return delivered_tasks(topic, ranges)

    def kept_since_ms(self, topic: str) -> dict[int, int]:
        """Retention deletes from the beginning, as the first record left in each partition shows."""
        with translated_errors():
            try:
                policy, (_, held) = self._cluster.config(topic)["cleanup.policy"], self._held(topic)
            except TopicUnknown as error:
                raise CannotJudge(f"{topic} does not exist: what was delivered is gone with it") from error
            if "compact" in policy:
                raise CannotJudge(f"{topic} is compacted: what was delivered may be gone from it")
            cut = {number: part for number, part in held.items() if part.start > 0}
            firsts = {number: self._first_ms(topic, number, part) for number, part in cut.items()}
            return {number: self._clock.now_ms() if at_ms is None else at_ms for number, at_ms in firsts.items()}

    def hidden(self, topics: Set[str]) -> dict[str, Sequence[int]]:
        """Behind a transaction that stays open, of whatever producer."""
        give_up_s = self._clock.monotonic_s() + SETTLED_S
        with translated_errors():
            hidden = {topic: self._cluster.with_open_transactions(topic, give_up_s) for topic in sorted(topics)}
        return {topic: partitions for topic, partitions in hidden.items() if partitions}

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None:
        name = self._names.buffer(topic)
        with translated_errors():
            try:
                start, end = self._held(name)[1][shard]
            except TopicUnknown:
                return None
            return self._first_ms(name, shard, Range(max(start, part.start), min(end, part.end)))

    def _first_ms(self, topic: str, partition: int, part: Range) -> int | None:
        chunks = read_range(self._settings, self._clock, topic, partition, *part)
        return next((chunk[0].timestamp()[1] for chunk in chunks if chunk), None)

    def _check(self, topic: str, ranges: Mapping[int, Range]) -> None:
        """Raises CannotJudge where a planned range is not held: before executors find out one by one."""
        asked = [partition for partition, (start, end) in ranges.items() if start < end]
        if not asked:
            return
        try:
            held = self._cluster.log_ranges(topic, asked, readable=True)
        except TopicUnknown as error:
            raise CannotJudge(str(error)) from error
        for partition in asked:
            check_held(f"{topic}, partition {partition}", ranges[partition], Range(*held[partition]))

    # --- how far it has been read

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None:
        """As the offsets of a group without members. Not by the admin client: see `mq.kafka.admin.offsets`."""
        named = {self._names.buffer(topic): shards for topic, shards in positions.items()}
        metadata = _metadata(at_ms)
        offsets = [
            TopicPartition(topic, partition, offset, metadata=metadata)
            for topic, some in {**named, self._names.audit: audit}.items()
            for partition, offset in some.items()
        ]
        with translated_errors(), trouble.translated_errors("committing how far has been read"):
            consumer = Consumer({**self._settings.reader(), "group.id": self._settings.reconcile_group})
            try:
                for done in consumer.commit(offsets=offsets, asynchronous=False) or ():
                    if done.error is not None:
                        raise trouble.queue_error(done.error, f"committing {done.topic}, partition {done.partition}")
            finally:
                consumer.close()


def _metadata(at_ms: int) -> str:
    """Beside a committed offset: when that was."""
    return msgspec.json.encode({"v": COMMIT_VERSION, "at": at_ms}).decode()


def _header(message: Message, name: bytes) -> bytes | None:
    """The first one of this name, where it has a value."""
    found: Any = message.headers() or ()
    return next((value for key, value in found if key == name.decode()), None)


# --- what executors do


@dataclass(frozen=True)
class _KafkaReading:
    """A work on a Kafka: it is pickled, and has connections only while a task runs."""

    settings: KafkaSettings
    tasks: Sequence[Any]

    def messages(self, task: TopicRange) -> Iterator[Sequence[Message]]:
        return read_range(self.settings, SystemClock(), *task)


class _KafkaAudit(_KafkaReading):
    schema = rows.RAW

    def run(self, task: TopicRange) -> Iterator[pa.RecordBatch]:
        chunks = self.messages(task)
        return rows.raw(task.partition, ([(_offset(one), one.value()) for one in chunk] for chunk in chunks))


class _KafkaAccepted(_KafkaReading):
    schema = ACCEPTED

    def run(self, task: Read) -> Iterator[pa.RecordBatch]:
        topic = self.settings.names.buffer(task.topic)
        parts = (read_buffer(self.settings, SystemClock(), topic, task.shard, *part) for part in rows.stretches(task))
        return rows.accepted(task, chain.from_iterable(parts))


class _KafkaDelivered(_KafkaReading):
    schema = DELIVERED

    def run(self, task: TopicRange) -> Iterator[pa.RecordBatch]:
        for chunk in self.messages(task):
            found = list(self._rows(task, chunk))
            if found:
                yield rows.batch(DELIVERED, list(zip(*found, strict=True)))

    @staticmethod
    def _rows(task: TopicRange, chunk: Sequence[Message]) -> Iterator[tuple[Any, ...]]:
        for message in chunk:
            if (delivery := rows.delivery(body_of(message))) is not None:
                name, due_ms, digest = delivery
                moment_ms = message.timestamp()[1]
                yield task.topic, task.partition, _offset(message), name, due_ms, moment_ms, digest


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a message that was read has one"
    return offset
