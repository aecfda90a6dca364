"""A topic in which every message is delivered twelve milliseconds after it was due: rows made by Spark from nothing
but their numbers, so that reading them is the same work however many stand before them."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delayline.buffer.outcome import LOW_WATER, OUTCOMES
from reconcile.frames.local_frame import small
from reconcile.frames.schemas import ACCEPTED, AUDIT_RECORDS, DELIVERED, DONE
from reconcile.logic.plan import Buffer, Cluster, Held, Range, Read
from reconcile.readers.contract import Audit

TOPIC = "orders"
SHARDS = 4
STEP_MS = 100
_MARKS = SHARDS
"""Marks stand in an audit partition of their own, behind those of the shards' rows."""

_ROWS = {
    "topic": f"'{TOPIC}'",
    "kind": "'message'",
    "id": f"concat('{TOPIC}.', shard, '.', offset, '.', due_ms)",
    "accepted_ms": "due_ms - 60000",
    "appended_ms": "due_ms - 60000",
    "done_ms": "due_ms + 12",
    "outcome": "'delivered'",
    "epoch": "1",
    "audit_partition": "shard",
    "audit_offset": "offset",
}


class _Stop(NamedTuple):
    offset: int
    at_ms: int


def _mark(shard: int, audit_offset: int, stop: _Stop) -> tuple[Any, ...]:
    """By `schemas.AUDIT_RECORDS`."""
    numbers = (None, stop.offset, stop.at_ms, 0, None, None, None)
    return (_MARKS, audit_offset, LOW_WATER, TOPIC, shard, stop.at_ms, *numbers)


class Flow:
    """A reader (readers/contract.py). Message n is due at `base_ms` + n * STEP_MS, in shard n % SHARDS."""

    def __init__(self, base_ms: int) -> None:
        self._base_ms = base_ms
        self._stops = [_Stop(0, base_ms)]

    @property
    def at_ms(self) -> int:
        """When the last message there is has been delivered."""
        return self._stops[-1].at_ms

    def go_on(self, messages: int) -> None:
        """All shards report how far they are; everything is done."""
        offset = self._stops[-1].offset + messages // SHARDS
        self._stops.append(_Stop(offset, self._base_ms + offset * SHARDS * STEP_MS))

    def cluster(self) -> Cluster:
        return Cluster("bench", "flow", "delayline")

    def number_by(self, brokers: Sequence[str]) -> None:
        """Its partitions have numbers."""

    def held(self) -> Held:
        shards = {shard: Range(0, self._stops[-1].offset) for shard in range(SHARDS)}
        marks = {_MARKS: Range(0, (len(self._stops) - 1) * SHARDS)}
        return Held(self.at_ms, "1", shards | marks, {TOPIC: Buffer("1", shards)})

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]:
        return {}

    def audit(self, spark: SparkSession, ranges: Mapping[int, Range]) -> Audit:
        done = self._rows(spark, DONE, {part for partition, part in ranges.items() if partition != _MARKS})
        marks = [
            _mark(shard, i * SHARDS + shard, stop)
            for i, stop in enumerate(self._stops[1:])
            for shard in range(SHARDS)
        ]
        asked = ranges[_MARKS]
        planned = [mark for mark in marks if asked.start <= mark[1] < asked.end]
        outcomes = done.select("audit_partition", "audit_offset", "topic", "shard", F.col("done_ms").alias("at_ms"))
        named = outcomes.withColumns({"kind": F.lit(OUTCOMES), "rows": F.lit(1).cast("long")})
        known = small(spark, planned, AUDIT_RECORDS).unionByName(named, allowMissingColumns=True)
        return Audit(known, done)

    def accepted(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        return self._rows(spark, ACCEPTED, {Range(read.start, read.end) for read in reads})

    def _rows(self, spark: SparkSession, schema: StructType, parts: set[Range]) -> DataFrame:
        """All shards are always read alike."""
        (part,) = parts
        numbers = spark.range(part.start * SHARDS, part.end * SHARDS)
        placed = numbers.withColumns(
            {
                "shard": (F.col("id") % SHARDS).cast("int"),
                "offset": F.floor(F.col("id") / SHARDS),
                "due_ms": F.col("id") * STEP_MS + self._base_ms,
            }
        )
        known = placed.withColumns({name: F.expr(made) for name, made in _ROWS.items()})
        names = set(known.columns)
        return known.select(
            *(
                (F.col(field.name) if field.name in names else F.lit(None)).cast(field.dataType).alias(field.name)
                for field in schema
            )
        )

    def delivered(self, spark: SparkSession, topics: Sequence[str], since_ms: int) -> DataFrame:
        return small(spark, [], DELIVERED)

    def is_empty(self, topic: str | None, partition: int, part: Range) -> bool:
        return False

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None:
        """Every record has its outcome, and a mark behind it."""
        return None

    def hidden(self, topics: Set[str]) -> dict[str, Sequence[int]]:
        return {}

    def kept_since_ms(self, topic: str) -> dict[int, int]:
        return {}

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None:
        """Nothing is ever deleted."""

    def close(self) -> None:
        """Nothing is held."""
