"""An archive: Parquet files in the ledger's own schemas, of which nothing has to be known but where they are.

accepted/  done/  marks/  skips/  malformed/  delivered/    by schemas.py; one that is missing has no rows
archive.json                                        whose it is and what it holds; made up from the rows where
it is missing
"""

from collections.abc import Mapping, Sequence, Set
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from delayline.buffer.outcome import LOW_WATER, OUTCOMES, SKIPPED
from delayline.errors import ConfigError
from reconcile.errors import CannotJudge
from reconcile.frames.local_frame import small
from reconcile.frames.paths import literal
from reconcile.frames.schemas import ACCEPTED, AUDIT_RECORDS, DELIVERED, DONE, MALFORMED
from reconcile.logic import documents
from reconcile.logic.plan import Buffer, Cluster, Held, Range, Read
from reconcile.readers import audit, rows
from reconcile.readers.contract import Audit

ARCHIVE = "archive.json"
ARCHIVE_VERSION = 1

_PLACE = [StructField("audit_partition", IntegerType(), False), StructField("audit_offset", LongType(), False)]
_OF_SHARD = [StructField("topic", StringType(), False), StructField("shard", IntegerType(), False), *_PLACE]

_MARK = ("at_ms", "next", "low_ms", "pending")
MARKS = StructType([*_OF_SHARD, *(StructField(name, LongType(), True) for name in _MARK)])
"""Low-water marks, by `schemas.AUDIT_RECORDS`."""

SKIPS = StructType([*_OF_SHARD, *(StructField(name, LongType(), True) for name in ("first", "end", "at_ms"))])
"""Offsets `[first, end)` that an operator has had passed over; `first` is null for what was given up at a
takeover."""


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """`rules` by topic and shard: those in force where what is held begins, JSON."""

    v: int = ARCHIVE_VERSION
    cluster: Cluster | None = None
    held: Held | None = None
    rules: dict[str, dict[int, str]] = {}


class ParquetReader:
    """A folder of this machine."""

    def __init__(self, spark: SparkSession, folder: Path, namespace: str) -> None:
        self._spark, self._folder, self._namespace = spark, folder.resolve(), namespace
        if not folder.is_dir():
            raise ConfigError(f"--input: {folder} is no folder, and an archive is one.")

    def close(self) -> None:
        """Nothing is held between two calls."""

    def cluster(self) -> Cluster:
        return self._archive().cluster or Cluster("parquet", self._folder.as_uri(), self._namespace)

    def number_by(self, brokers: Sequence[str]) -> None:
        """Rows have numbers; the archive has the brokers (`Held`)."""

    def held(self) -> Held:
        return self._archive().held or self._made_up()

    def _archive(self) -> Archive:
        path = self._folder / ARCHIVE
        if not path.exists():
            return Archive()
        return documents.decode(path.read_bytes(), Archive, str(path), ARCHIVE_VERSION)

    def _made_up(self) -> Held:
        """From the first offset that there is to the last one; what is missing in between is no offset of a
        record."""
        places = [self._rows(schema, name).select("audit_partition", "audit_offset") for schema, name in _AUDIT]
        audit = _bounds(places[0].union(places[1]), "audit_partition", "audit_offset")
        buffers: dict[str, dict[int, Range]] = {}
        for (topic, shard), held in _bounds(self._rows(ACCEPTED, "accepted"), "topic", "shard", "offset").items():
            buffers.setdefault(topic, {})[shard] = held
        at_ms = self._rows(MARKS, "marks").agg(F.max("at_ms")).collect()[0][0] or 0
        ranges = {partition: held for (partition,), held in audit.items()}
        return Held(at_ms, "archive", ranges, {topic: Buffer("archive", shards) for topic, shards in buffers.items()})

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]:
        known = self._archive().rules.get(topic, {})
        return {shard: known[shard] for shard in shards if shard in known}

    def audit(self, spark: SparkSession, ranges: Mapping[int, Range]) -> Audit:
        self._check(self.held().audit, ranges, "the audit")
        parts = [(partition, *part) for partition, part in ranges.items()]
        table = small(spark, parts, "part int, from_offset long, to_offset long")
        offset, here = F.col("audit_offset"), F.col("audit_partition") == F.col("part")
        within = here & (offset >= F.col("from_offset")) & (offset < F.col("to_offset"))

        def of(schema: StructType, name: str) -> DataFrame:
            return self._rows(schema, name).join(F.broadcast(table), within, "left_semi")

        records = (_record(kind, of(schema, name)) for kind, (schema, name) in _KINDS.items())
        return Audit(reduce(DataFrame.unionByName, records), of(DONE, "done"))

    def accepted(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        held = self.held().buffers
        for read in reads:
            self._check(held[read.topic].shards, {read.shard: Range(read.start, read.end)}, f"topic {read.topic}")
        parts = [(read.topic, read.shard, read.start, read.end) for read in reads]
        table = small(spark, parts, "of_topic string, of_shard int, first long, end long")
        offset, shard = F.col("offset"), F.col("shard")
        same = (F.col("topic") == F.col("of_topic")) & (shard == F.col("of_shard"))
        within = same & (offset >= F.col("first")) & (offset < F.col("end"))
        found = self._rows(ACCEPTED, "accepted").join(F.broadcast(table), within, "left_semi")
        for read in reads:
            for skip in (skip for skip in read.skips if skip.is_place):
                here = (F.col("topic") == read.topic) & (shard == read.shard)
                found = found.where(~(here & (offset >= skip.first) & (offset < skip.end)))
        return found.unionByName(small(spark, [row for read in reads for row in rows.skipped(read)], ACCEPTED))

    def is_empty(self, topic: str | None, partition: int, part: Range) -> bool:
        if topic is None:
            return not any(
                _stands(self._folder / name, "audit_offset", part, audit_partition=partition) for name in _FOLDERS
            )
        return not _stands(self._folder / "accepted", "offset", part, topic=topic, shard=partition)

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None:
        folder = self._folder / "accepted"
        if not folder.is_dir():
            return None
        wanted = _within("offset", part, topic=topic, shard=shard)
        times = ds.dataset(folder, format="parquet").to_table(columns=["appended_ms"], filter=wanted)["appended_ms"]
        first_ms: int | None = pc.min(times).as_py()
        return first_ms

    @staticmethod
    def _check(held: Mapping[int, Range], wanted: Mapping[int, Range], what: str) -> None:
        """An archive from which something has been removed would look like one that never had it."""
        for number, part in wanted.items():
            kept = held.get(number, Range(0, 0))
            if part.start < part.end and (part.start < kept.start or part.end > kept.end):
                raise CannotJudge(f"of partition {number} of {what} the archive holds {kept}, and not all of {part}")

    def delivered(self, spark: SparkSession, topics: Sequence[str], since_ms: int) -> DataFrame:
        found = self._rows(DELIVERED, "delivered")
        return found.where(F.col("topic").isin(*topics) & (F.col("delivered_ms") >= since_ms))

    def kept_since_ms(self, topic: str) -> dict[int, int]:
        """An archive deletes nothing by itself."""
        return {}

    def hidden(self, topics: Set[str]) -> dict[str, Sequence[int]]:
        """An archive holds what was committed."""
        return {}

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None:
        """An archive deletes nothing by itself."""

    def _rows(self, schema: StructType, name: str) -> DataFrame:
        if not (self._folder / name).is_dir():
            return small(self._spark, [], schema)
        return self._spark.read.schema(schema).parquet(literal(f"file://{self._folder / name}"))


_KINDS = {
    OUTCOMES: (DONE, "done"),
    LOW_WATER: (MARKS, "marks"),
    SKIPPED: (SKIPS, "skips"),
    audit.MALFORMED: (MALFORMED, "malformed"),
}
"""Of audit records: where the archive has them. Its outcome rows are there one by one."""

_FOLDERS = tuple(name for _, name in _KINDS.values())


def _record(kind: str, rows: DataFrame) -> DataFrame:
    """By `schemas.AUDIT_RECORDS`; outcome rows as if all of a shard stood in one record. Of malformed records an
    archive has no more than that: a mark that lacks its numbers is none of them."""
    known = {"kind": F.lit(kind)}
    if kind == OUTCOMES:
        count, at_ms = F.count("*").alias("rows"), F.min("done_ms").alias("at_ms")
        rows = rows.groupBy("topic", "shard", "audit_partition").agg(
            count, at_ms, F.min("audit_offset").alias("first_")
        )
        known["audit_offset"] = F.col("first_")
    if kind == SKIPPED:
        known["next"] = F.col("end")
    named = rows.withColumns(known)
    return named.select(
        *(
            (F.col(field.name) if field.name in named.columns else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in AUDIT_RECORDS
        )
    )


def _stands(folder: Path, column: str, part: Range, **where: object) -> bool:
    """Whether the folder's files have a row there."""
    wanted = _within(column, part, **where)
    return folder.is_dir() and ds.dataset(folder, format="parquet").count_rows(filter=wanted) > 0


def _within(column: str, part: Range, **where: object) -> pc.Expression:
    wanted = (pc.field(column) >= part.start) & (pc.field(column) < part.end)
    for name, value in where.items():
        wanted &= pc.field(name) == value
    return wanted


_AUDIT = ((DONE, "done"), (MARKS, "marks"))


def _bounds(rows: DataFrame, *columns: str) -> dict[tuple[Any, ...], Range]:
    """The offsets, which the last column has, by the others."""
    *keys, offset = columns
    found = rows.groupBy(*keys).agg(F.min(offset), F.max(offset)).collect()
    return {tuple(row[:-2]): Range(row[-2], row[-1] + 1) for row in found}
