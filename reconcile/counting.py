"""The rows of a run, staged hour by hour, and the cells that they add up to.

stage/run=<run>/done/lot=<lot>/hour=<hour>   outcome rows, in one pass over the audit, by what becomes of them
stage/run=<run>/accepted/hour=<hour>         records of the buffers
stage/run=<run>/links/hour=<hour>            re-appends, by the hour of the record that they carry on
cells/run=<run>/hour=<hour>
malformed/run=<run>                          audit records that cannot be read
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from reconcile import cells as ledger_cells
from reconcile.advance import Counted
from reconcile.cells import CELLS, LINKS
from reconcile.errors import CannotJudge
from reconcile.ledger import INSTRUCTIONS, OUTCOMES
from reconcile.manifest import Manifest, Plan, Reads, Shard, Totals
from reconcile.pairing import Pairing
from reconcile.plan import Mark, Range, Skip
from reconcile.planning import MarksRead, shards_after
from reconcile.readers.contract import Audit, Reader
from reconcile.rooms import HOUR, Rooms
from reconcile.runs import Said
from reconcile.schemas import ACCEPTED, DONE, MALFORMED
from reconcile.small import small

COUNTED, AHEAD, BEFORE, LOST, STRAY = "counted", "ahead", "before", "lost", "stray"
"""Lots: what is counted now, what waits for the next run, what speaks of records from before the first one, of
records that were gone before they were read, and in the first run of places that no buffer has: of a topic that was
deleted or made again, perhaps. Later runs count those, so that they are judged as what nobody accepted."""

_BOUNDS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("shard", IntegerType(), False),
        StructField("first", LongType(), False),
        StructField("end", LongType(), False),
        StructField("held", LongType(), False),
    ]
)
"""Offsets `[first, end)` that were read of a shard, and the end of its log."""


class Counting:
    """One run's rows."""

    def __init__(self, rooms: Rooms, reader: Reader, late_after_ms: int) -> None:
        self._rooms, self._reader = rooms, reader
        self._late_after_ms = late_after_ms
        self._pairing = Pairing(rooms, (COUNTED, AHEAD), (BEFORE, LOST))

    def marks(self, plan: Plan) -> Said:
        audit = self._reader.audit(self._rooms.spark, plan.audit)
        said = Said(_last_two(audit.marks, plan), _first_ms(audit, list(plan.lost)), _skips(audit))
        if not (said.marks or said.skips or audit.done.take(1) or audit.malformed.take(1)):
            self._check_empty([(None, partition, part) for partition, part in plan.audit.items()])
        return said

    def _check_empty(self, unseen: Iterable[tuple[str | None, int, Range]]) -> None:
        """Of these parts Spark has given no row. That is so where transactions have ended, and else it would be a
        loss that the next run could not see any more: it goes on behind them. Raises CannotJudge."""
        for topic, number, part in unseen:
            if part.start < part.end and not self._reader.is_empty(topic, number, part):
                what = "the audit" if topic is None else f"the buffer of {topic}"
                raise CannotJudge(
                    f"of {what}, partition {number}, offsets {part.start} to {part.end} were to be read; records "
                    "stand there, and Spark has given none of them. Nothing was counted: run again"
                )

    def count(self, plan: Plan, reads: Reads, previous: Manifest | None) -> Counted:
        shards = shards_after(plan, reads, previous, {})
        self._stage_done(plan, reads, shards, previous)
        accepted = self._stage_accepted(plan, reads)
        self._stage_links(plan, accepted, shards)
        cells = self._cells(plan.run)
        unreadable = self._unreadable(plan.run)
        self._pairing.stage_operations(plan.run, accepted)
        unpaired = self._pairing.pair(plan, reads, previous, shards, unreadable)
        sums = cells.groupBy("topic").agg(*ledger_cells.counts()).collect()
        hours = {*self._rooms.hours(f"cells/run={plan.run}"), *self._pairing.hours(plan.run)}
        places = cells.select("topic", "window_ms").unionByName(unpaired.select("topic", "window_ms"))
        return Counted(
            rules=_rules(accepted),
            hours=sorted(hours),
            touched=_touched(places, previous),
            totals=self._totals(plan.run, sums),
            rows={name: sum(row[name] for row in sums) for name in ("accepted", "done")},
            first_appended_ms=_first_appended_ms(accepted) if plan.lost and previous is None else None,
            unreadable=unreadable,
            strays=self._by_topic(plan.run, STRAY),
        )

    def _stage_done(
        self, plan: Plan, reads: Reads, shards: Mapping[str, Mapping[int, Shard]], previous: Manifest | None
    ) -> None:
        audit = self._reader.audit(self._rooms.spark, plan.audit)
        left = self._rooms.read(DONE, [f"stage/run={plan.run - 1}/done/lot={AHEAD}"])
        table = F.broadcast(small(self._rooms.spark, _bounds(plan, reads, shards), _BOUNDS))
        rows = (
            audit.done.select(*DONE.fieldNames())
            .unionByName(left)
            .where(~F.col("topic").isin(_unread(plan, reads, previous)))
        )
        known = rows.join(table, ["topic", "shard"], "left")
        lot = F.when(_is_stray(), COUNTED if previous else STRAY).otherwise(_lot(shards))
        lots = known.withColumns({"lot": lot, HOUR: ledger_cells.hour(ledger_cells.moment_ms())})
        self._rooms.write(lots.select(*DONE.fieldNames(), "lot", HOUR), f"stage/run={plan.run}/done", "lot", HOUR)
        self._rooms.write(audit.malformed, f"malformed/run={plan.run}")

    def _unreadable(self, run: int) -> list[int]:
        rows = self._rooms.read(MALFORMED, [f"malformed/run={run}"])
        return sorted(row["audit_partition"] for row in rows.select("audit_partition").distinct().collect())

    def _stage_accepted(self, plan: Plan, reads: Reads) -> DataFrame:
        wanted = [read for read in reads.reads if read.start < read.end]
        spark, name = self._rooms.spark, f"stage/run={plan.run}/accepted"
        rows = self._reader.accepted(spark, wanted) if wanted else small(spark, [], ACCEPTED)
        placed = rows.withColumn(HOUR, ledger_cells.hour(ledger_cells.moment_ms()))
        self._rooms.write(placed.select(*ACCEPTED.fieldNames(), HOUR), name, HOUR)
        accepted = self._rooms.read(ACCEPTED, [name])
        seen = {(row["topic"], row["shard"]) for row in accepted.select("topic", "shard").distinct().collect()}
        unseen = [read for read in wanted if (read.topic, read.shard) not in seen]
        self._check_empty((read.topic, read.shard, Range(read.start, read.end)) for read in unseen)
        return accepted

    def _stage_links(self, plan: Plan, accepted: DataFrame, shards: Mapping[str, Mapping[int, Shard]]) -> None:
        """Those to records that no run has read say nothing that could be checked."""
        bounds = [
            (topic, shard, known.start, 0, 0) for topic, some in shards.items() for shard, known in some.items()
        ]
        table = F.broadcast(small(self._rooms.spark, bounds, _BOUNDS))
        known = ledger_cells.links(accepted).join(table, ["topic", "shard"])
        kept = known.where((F.col("offset") >= F.col("first")) & ~_is_lost(shards))
        placed = kept.select(*LINKS.fieldNames(), ledger_cells.hour(F.col("due_ms")).alias(HOUR))
        self._rooms.write(placed, f"stage/run={plan.run}/links", HOUR)

    def _cells(self, run: int) -> DataFrame:
        stage, read = f"stage/run={run}", self._rooms.read
        accepted, links = read(ACCEPTED, [f"{stage}/accepted"]), read(LINKS, [f"{stage}/links"])
        done = read(DONE, [f"{stage}/done/lot={COUNTED}"])
        counted = ledger_cells.cells(accepted, links, done, self._late_after_ms)
        self._rooms.write(counted.withColumn(HOUR, ledger_cells.hour(F.col("window_ms"))), f"cells/run={run}", HOUR)
        return read(CELLS, [f"cells/run={run}"])

    def _totals(self, run: int, sums: Sequence[Row]) -> dict[str, Totals]:
        totals = {row["topic"]: _total(row.asDict()) for row in sums}
        for lot, name in ((BEFORE, "before_start"), (STRAY, "before_start"), (LOST, "in_gaps")):
            for topic, count in self._by_topic(run, lot).items():
                totals[topic] = totals.get(topic, Totals()) + replace(Totals(), **{name: count})
        return totals

    def _by_topic(self, run: int, lot: str) -> dict[str, int]:
        if not self._rooms.exists(folder := f"stage/run={run}/done/lot={lot}"):
            return {}
        return dict(self._rooms.read(DONE, [folder]).groupBy("topic").count().collect())


def _bounds(
    plan: Plan, reads: Reads, shards: Mapping[str, Mapping[int, Shard]]
) -> list[tuple[str, int, int, int, int]]:
    held = plan.held.buffers
    return [
        (topic, number, shards[topic][number].start, end, held[topic].shards[number].end)
        for topic, number, end in ((read.topic, read.shard, read.end) for read in reads.reads)
    ]


def _unread(plan: Plan, reads: Reads, previous: Manifest | None) -> list[str]:
    """Topics that are not read any more: set aside, or deleted with nothing pending."""
    known = previous.topics if previous else {}
    gone = (name for name, topic in known.items() if topic.topic_id and name not in plan.held.buffers)
    return sorted({*plan.aside, *reads.aside, *gone})


def _is_stray() -> Column:
    """Whether a row speaks of a place that no buffer has. The audit was looked at before the buffers: what it speaks
    of was there then."""
    offset = F.col("offset")
    return F.col("held").isNull() | (offset < 0) | (offset >= F.col("held"))


def _lot(shards: Mapping[str, Mapping[int, Shard]]) -> Column:
    offset = F.col("offset")
    before, lost = F.when(offset < F.col("first"), BEFORE), _is_lost(shards)
    return before.when(offset >= F.col("end"), AHEAD).when(lost, LOST).otherwise(COUNTED)


def _is_lost(shards: Mapping[str, Mapping[int, Shard]]) -> Column:
    """Whether the record of a row was gone before it was read. Losses are incidents: there are few."""
    conditions = (
        (F.col("topic") == topic)
        & (F.col("shard") == number)
        & (F.col("offset") >= lost.start)
        & (F.col("offset") < lost.end)
        for topic, some in shards.items()
        for number, shard in some.items()
        for lost in shard.lost
    )
    return reduce(or_, conditions, F.lit(False))


def _total(row: Mapping[str, int]) -> Totals:
    outcomes = {name: row[name] for name in OUTCOMES if row[name] and name not in INSTRUCTIONS}
    return Totals(accepted=row["accepted"] - row["others"], others=row["others"], outcomes=outcomes)


def _last_two(marks: DataFrame, plan: Plan) -> MarksRead:
    """The two of each shard that say most, and two of those that cannot be true: as many rows as there are shards,
    whatever was read."""
    ends = [(name, number, held.end) for name, of in plan.held.buffers.items() for number, held in of.shards.items()]
    table = F.broadcast(small(marks.sparkSession, ends, "topic string, shard int, held long"))
    marks = marks.join(table, ["topic", "shard"]).withColumn("possible", F.col("next").between(0, F.col("held")))
    most = (F.col(name).desc() for name in ("next", "low_ms", "audit_offset"))
    ranks = F.row_number().over(Window.partitionBy("topic", "shard", "possible").orderBy(*most))
    best = marks.withColumn("nth", ranks).where("nth <= 2")
    found: dict[str, dict[int, list[Mark]]] = {}
    for row in best.select("topic", "shard", *Mark.__struct_fields__).collect():
        topic, shard, *mark = row
        found.setdefault(topic, {}).setdefault(shard, []).append(Mark(*mark))
    return found


def _skips(audit: Audit) -> dict[str, dict[int, list[Skip]]]:
    """All of them: each is an operator's act, so there are few."""
    found: dict[str, dict[int, list[Skip]]] = {}
    for row in audit.skips.orderBy("audit_offset").collect():
        skip = Skip(row["first"] or 0, row["end"], row["at_ms"], row["first"] is not None, row["audit_offset"])
        found.setdefault(row["topic"], {}).setdefault(row["shard"], []).append(skip)
    return found


def _first_ms(audit: Audit, partitions: Sequence[int]) -> dict[int, int]:
    """When the first record of each of these partitions was written."""
    if not partitions:
        return {}
    times = audit.done.select("audit_partition", F.col("done_ms").alias("at_ms"))
    every = times.unionByName(audit.marks.select("audit_partition", "at_ms"))
    first = every.where(F.col("audit_partition").isin(*partitions)).groupBy("audit_partition").agg(F.min("at_ms"))
    return dict(first.collect())


def _rules(accepted: DataFrame) -> dict[str, dict[int, str]]:
    """The last rules records."""
    last = accepted.where("kind = 'rules'").groupBy("topic", "shard").agg(F.max_by("rules", "offset").alias("rules"))
    found: dict[str, dict[int, str]] = {}
    for row in last.where("rules is not null").collect():
        found.setdefault(row["topic"], {})[row["shard"]] = row["rules"]
    return found


def _touched(places: DataFrame, previous: Manifest | None) -> dict[str, list[int]]:
    """Windows that were closed before."""
    closed = [(name, topic.closed_until_ms) for name, topic in previous.topics.items()] if previous else []
    if not closed:
        return {}
    table = F.broadcast(small(places.sparkSession, closed, "topic string, closed_ms long"))
    again = places.join(table, "topic").where("window_ms < closed_ms").groupBy("topic")
    return {
        row["topic"]: sorted(row["windows"])
        for row in again.agg(F.collect_set("window_ms").alias("windows")).collect()
    }


def _first_appended_ms(accepted: DataFrame) -> int | None:
    first: int | None = accepted.agg(F.min("appended_ms")).collect()[0][0]
    return first
