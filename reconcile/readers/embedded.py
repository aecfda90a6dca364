"""The ledger's reader of an embedded queue, beside the process that has it open.

Executors read the queue's folder, so they run on its machine; each looks at it anew, and finds at least what the
driver has planned, or that it has been trimmed.
"""

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from delayline.buffer.cursor import Cursor
from delayline.clock import Clock
from delayline.names import Names
from delayline.records import headers
from delayline.records.record import decode_body
from mq.contract import LogRecord
from mq.embedded.snapshot import Snapshot
from mq.local.storage import StoredTopic
from reconcile.errors import CannotJudge
from reconcile.frames.schemas import ACCEPTED, DELIVERED
from reconcile.logic.plan import Buffer, Cluster, Held, Range, Read
from reconcile.readers import audit, rows
from reconcile.readers.contract import Audit
from reconcile.readers.ranges import TopicRange, by_topic, check_held
from reconcile.readers.work import frame, translated_errors

if TYPE_CHECKING:
    from delayline.encryption.data_key import DataKey

LANES = 4
"""Tasks of a read: each opens the queue once, which may take a second and 256 MiB."""

POSITIONS = "reconcile.json"
POSITIONS_VERSION = 1


class EmbeddedReader:
    """`data_dir` is the installation's: the queue is in it, encrypted where there is a `data_key`. Called by one
    thread."""

    def __init__(self, data_dir: Path, namespace: str, clock: Clock, data_key: "DataKey | None" = None) -> None:
        self._data_dir = data_dir
        self._place = _Place(data_dir / "queue", namespace, data_key)
        self._names = Names(namespace)
        self._clock = clock

    def close(self) -> None:
        """Nothing is held between two calls."""

    def cluster(self) -> Cluster:
        with translated_errors(), self._place.look() as seen:
            return Cluster("embedded", seen.identity, self._names.namespace)

    def number_by(self, brokers: Sequence[str]) -> None:
        """Partitions have numbers."""

    def held(self) -> Held:
        at_ms = self._clock.now_ms()
        with translated_errors(), self._place.look() as seen:
            found = seen.topics[self._names.audit]
            targets = {self._names.target(name): topic for name, topic in seen.topics.items()}
            buffers = {
                target: Buffer(topic.topic_id.hex(), _ranges(topic))
                for target, topic in targets.items()
                if target is not None
            }
            return Held(at_ms, found.topic_id.hex(), _ranges(found), buffers)

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]:
        with translated_errors(), self._place.look() as seen:
            known = {shard: self._rules(seen, topic, shard) for shard in shards}
        return {shard: text for shard, text in known.items() if text is not None}

    def _rules(self, seen: Snapshot, topic: str, shard: int) -> str | None:
        """Those at the cursor's low offset, unless a rules record stands between the first record held and that."""
        buffer = self._names.buffer(topic)
        held = seen.topics[buffer].partitions[shard]
        start, encoded = held.start, held.cursor
        if start == 0 or encoded is None:
            return None
        cursor = Cursor.decode(encoded)
        chunks = seen.read(buffer, shard, start, cursor.low_offset)
        if any(_has_rules(record) for chunk in chunks for record in chunk):
            return None
        return cursor.rules.encoded.decode()

    # --- rows

    def audit(self, spark: SparkSession, ranges: Mapping[int, Range]) -> Audit:
        topic = self._names.audit
        with translated_errors():
            self._check({topic: ranges})
            tasks = [TopicRange(topic, partition, *planned) for partition, planned in ranges.items()]
            return audit.parse(frame(spark, _EmbeddedAudit(self._place, lanes(tasks))))

    def accepted(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        with translated_errors():
            self._check({self._names.buffer(topic): ranges for topic, ranges in by_topic(reads).items()})
            return frame(spark, _EmbeddedAccepted(self._place, lanes(reads)))

    def is_empty(self, topic: str | None, partition: int, part: Range) -> bool:
        name = self._names.audit if topic is None else self._names.buffer(topic)
        with translated_errors(), self._place.look() as seen:
            return not any(seen.read(name, partition, *part))

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None:
        name = self._names.buffer(topic)
        with translated_errors(), self._place.look() as seen:
            if name not in seen.topics:
                return None
            start = max(part.start, seen.topics[name].partitions[shard].start)
            return next((chunk[0].appended_at_ms for chunk in seen.read(name, shard, start, part.end)), None)

    def delivered(self, spark: SparkSession, topics: Sequence[str], since_ms: int) -> DataFrame:
        with translated_errors(), self._place.look() as seen:
            if unknown := [topic for topic in topics if topic not in seen.topics]:
                raise CannotJudge(f"there is no topic {unknown[0]!r}")
            tasks = [
                TopicRange(topic, partition, *held)
                for topic in topics
                for partition, held in _ranges(seen.topics[topic]).items()
            ]
            return frame(spark, _EmbeddedDelivered(self._place, lanes(tasks), since_ms))

    def kept_since_ms(self, topic: str) -> dict[int, int]:
        """When the oldest record was appended."""
        with translated_errors(), self._place.look() as seen:
            if topic not in seen.topics:
                raise CannotJudge(f"{topic} does not exist: what was delivered is gone with it")
            held = _ranges(seen.topics[topic])
            cut = {number: part for number, part in held.items() if part.start > 0}
            first = {number: next(seen.read(topic, number, *part), ()) for number, part in cut.items()}
            return {
                number: chunk[0].appended_at_ms if chunk else self._clock.now_ms() for number, chunk in first.items()
            }

    def hidden(self, topics: Set[str]) -> dict[str, Sequence[int]]:
        """What is in the queue can be read."""
        return {}

    def _check(self, asked: Mapping[str, Mapping[int, Range]]) -> None:
        """Raises CannotJudge where a planned range is not held."""
        with self._place.look() as seen:
            for topic, planned in asked.items():
                held = _ranges(seen.topics[topic]) if topic in seen.topics else {}
                for partition in (partition for partition, (start, end) in planned.items() if start < end):
                    what = f"{topic}, partition {partition}"
                    check_held(what, planned[partition], held.get(partition, Range(0, 0)))

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None:
        """Into a file beside the queue, all of it or nothing."""
        document = {"v": POSITIONS_VERSION, "at": at_ms, "positions": positions}
        unfinished = self._data_dir / f"{POSITIONS}.new"
        with unfinished.open("wb") as out:
            out.write(msgspec.json.encode(document) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        unfinished.rename(self._data_dir / POSITIONS)


def lanes(tasks: Sequence[Any]) -> list[Sequence[Any]]:
    """In as many parts as are read side by side."""
    return [part for lane in range(LANES) if (part := tasks[lane::LANES])]


def _ranges(topic: StoredTopic) -> dict[int, Range]:
    return {number: Range(held.start, held.end) for number, held in enumerate(topic.partitions)}


def _has_rules(record: LogRecord) -> bool:
    return dict(decode_body(record.body).headers).get(headers.RULES) is not None


# --- what executors do


@dataclass(frozen=True)
class _Place:
    folder: Path
    namespace: str
    data_key: "DataKey | None"

    def look(self) -> Snapshot:
        return Snapshot(self.folder, self.namespace, self.data_key)


@dataclass(frozen=True)
class _EmbeddedReading:
    """A work on the folder: it is pickled, and opens it only while a task runs."""

    place: _Place
    tasks: Sequence[Any]


class _EmbeddedAudit(_EmbeddedReading):
    schema = rows.RAW

    def run(self, task: Sequence[TopicRange]) -> Iterator[pa.RecordBatch]:
        with self.place.look() as seen:
            for part in task:
                chunks = ([rows.value_of(record) for record in chunk] for chunk in seen.read(*part))
                yield from rows.raw(part.partition, chunks)


class _EmbeddedAccepted(_EmbeddedReading):
    schema = ACCEPTED

    def run(self, task: Sequence[Read]) -> Iterator[pa.RecordBatch]:
        names = Names(self.place.namespace)
        with self.place.look() as seen:
            for part in task:
                buffer = names.buffer(part.topic)
                chunks = (seen.read(buffer, part.shard, *stretch) for stretch in rows.stretches(part))
                yield from rows.accepted(part, chain.from_iterable(chunks))


@dataclass(frozen=True)
class _EmbeddedDelivered(_EmbeddedReading):
    since_ms: int
    schema = DELIVERED

    def run(self, task: Sequence[TopicRange]) -> Iterator[pa.RecordBatch]:
        with self.place.look() as seen:
            for part in task:
                for chunk in seen.read(*part):
                    found = list(self._rows(part, chunk))
                    if found:
                        yield rows.batch(DELIVERED, list(zip(*found, strict=True)))

    def _rows(self, task: TopicRange, chunk: Sequence[LogRecord]) -> Iterator[tuple[Any, ...]]:
        for record in chunk:
            if record.appended_at_ms < self.since_ms:
                continue
            if (delivery := rows.delivery(record.body)) is not None:
                name, due_ms, digest = delivery
                yield task.topic, task.partition, record.offset, name, due_ms, record.appended_at_ms, digest
