"""The rows of a run, staged hour by hour, and the cells that they add up to.

stage/run=<run>/done/lot=<lot>/hour=<hour>   outcome rows, in one pass over the audit, by which run judges them
stage/run=<run>/accepted/hour=<hour>         records of the buffers
stage/run=<run>/links/hour=<hour>            re-appends, by the hour of the record that they carry on
cells/run=<run>/hour=<hour>
malformed/run=<run>                          audit records that cannot be read
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_

from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from delayline.buffer.outcome import LOW_WATER, OUTCOMES, SKIPPED
from reconcile.directory.runs import AuditRead
from reconcile.errors import BadInput, CannotJudge
from reconcile.frames.local_frame import small
from reconcile.frames.schemas import ACCEPTED, AUDIT_RECORDS, DONE, MALFORMED
from reconcile.logic.advance import Counted
from reconcile.logic.manifest import Manifest, Plan, Reads, Shard, Totals
from reconcile.logic.plan import Mark, Range, Skip, Unreadable
from reconcile.logic.planning import shards_after
from reconcile.logic.whereabouts import COUNTED
from reconcile.logic.windows import Tally
from reconcile.progress import OnStep, Step
from reconcile.readers.audit import MALFORMED as UNREADABLE_KIND
from reconcile.readers.contract import Reader
from reconcile.spark import cells as ledger_cells
from reconcile.spark.cells import CELLS, LINKS
from reconcile.spark.pairing import Pairing
from reconcile.spark.parquet_store import HOUR, ParquetStore

AHEAD, BEFORE, LOST, STRAY = "ahead", "before", "lost", "stray"
"""Lots: what is counted now, what waits for the next run, what speaks of records from before the first one, of
records that were gone before they were read, and of places that no buffer has, perhaps of a topic that was deleted or
made again: in the first run of all, later of topics that had a buffer, by their marks. Other rows of such
places are counted, so that they are judged as never accepted."""

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

    def __init__(self, rooms: ParquetStore, reader: Reader, late_after_ms: int, on_step: OnStep) -> None:
        self._rooms, self._reader, self._on_step = rooms, reader, on_step
        self._late_after_ms = late_after_ms
        self._pairing = Pairing(rooms, (COUNTED, AHEAD), (BEFORE, LOST))

    def marks(self, plan: Plan) -> AuditRead:
        records = self._reader.audit(self._rooms.spark, plan.audit).records
        groups = _by_shard(records, plan).collect()
        if not groups:
            self._check_empty([(None, partition, part) for partition, part in plan.audit.items()])
        return _scanned(groups, plan)

    def _check_empty(self, unseen: Iterable[tuple[str | None, int, Range]]) -> None:
        """Of these parts Spark has given no row. That is so where transactions have ended, and else it would be a
        loss that the next run could not see any more: it goes on behind them. Raises CannotJudge."""
        for topic, number, part in unseen:
            if part.start < part.end and not self._reader.is_empty(topic, number, part):
                what = "the audit" if topic is None else f"the buffer of {topic}"
                raise CannotJudge(
                    f"of {what}, partition {number}, offsets {part.start} to {part.end} had to be read; there "
                    "are records, but Spark has returned none of them. Nothing was counted: run again"
                )

    def count(self, plan: Plan, reads: Reads, previous: Manifest | None) -> Counted:
        shards = shards_after(plan, reads, previous, {})
        self._stage_done(plan, reads, shards, previous)
        read = self._stage_accepted(plan, reads)
        self._on_step(Step("counting"))
        linked = sum(row["links"] for row in read)
        if linked:
            self._stage_links(plan.run, shards, linked)
        tallies, touched = self._cells(plan.run, previous, has_links=bool(linked))
        self._pairing.pair(plan, reads, previous, shards)
        first_ms = min((row["first_ms"] for row in read), default=None)
        return Counted(
            rules=_rules(read),
            hours=self._rooms.hours(f"cells/run={plan.run}"),
            unpaired=sorted(self._pairing.unpaired),
            moved=sorted(self._pairing.moved),
            touched=_with(touched, self._pairing.windows, previous),
            totals=self._totals(plan.run, tallies),
            rows={name: sum(tally.counts[name] for tally in tallies.values()) for name in ("accepted", "done")},
            first_appended_ms=first_ms if plan.lost and previous is None else None,
            unreadable=reads.unreadable,
            strays=self._by_topic(plan.run, STRAY),
        )

    def _stage_done(
        self, plan: Plan, reads: Reads, shards: Mapping[str, Mapping[int, Shard]], previous: Manifest | None
    ) -> None:
        audit = self._reader.audit(self._rooms.spark, plan.audit)
        ahead = f"stage/run={plan.run - 1}/done/lot={AHEAD}"
        rows = audit.done.select(*DONE.fieldNames()).unionByName(self._rooms.read(DONE, [ahead]))
        table = F.broadcast(small(self._rooms.spark, _bounds(plan, reads, shards), _BOUNDS))
        rows = rows.where(~F.col("topic").isin(_unread(plan, reads, previous)))
        known = rows.join(table, ["topic", "shard"], "left")
        stray = F.when(F.col("topic").isin(reads.vanished), STRAY).otherwise(COUNTED if previous else STRAY)
        lot = F.when(_is_stray(), stray).otherwise(_lot(shards))
        lots = known.withColumns({"lot": lot, HOUR: ledger_cells.hour(ledger_cells.moment_ms())})
        whole, name = lots.select(*DONE.fieldNames(), "lot", HOUR), f"stage/run={plan.run}/done"
        about = reads.rows + self._rooms.rows(ahead)
        self._on_step(Step("reading the audit", rows=about))
        self._rooms.write(whole, name, "lot", HOUR, about=about)
        if reads.malformed:
            malformed = audit.records.where(F.col("kind") == UNREADABLE_KIND).select(*MALFORMED.fieldNames())
            self._rooms.write(malformed, f"malformed/run={plan.run}")

    def _stage_accepted(self, plan: Plan, reads: Reads) -> list[Row]:
        """By topic and shard, what is to be known of its records before they are counted."""
        wanted = [read for read in reads.reads if read.start < read.end]
        if not wanted:
            return []
        name = f"stage/run={plan.run}/accepted"
        rows = self._reader.accepted(self._rooms.spark, wanted)
        placed = rows.withColumn(HOUR, ledger_cells.hour(ledger_cells.moment_ms()))
        whole = placed.select(*ACCEPTED.fieldNames(), HOUR)
        about = sum(read.end - read.start for read in wanted)
        self._on_step(Step("reading the buffers", rows=about))
        self._rooms.write(whole, name, HOUR, about=about)
        read = _shards_read(self._rooms.read(ACCEPTED, [name])).collect()
        seen = {(row["topic"], row["shard"]) for row in read}
        unseen = [one for one in wanted if (one.topic, one.shard) not in seen]
        self._check_empty((one.topic, one.shard, Range(one.start, one.end)) for one in unseen)
        return read

    def _stage_links(self, run: int, shards: Mapping[str, Mapping[int, Shard]], about: int) -> None:
        """Links to records that no run has read cannot be checked."""
        bounds = [
            (topic, shard, known.start, 0, 0) for topic, some in shards.items() for shard, known in some.items()
        ]
        table = F.broadcast(small(self._rooms.spark, bounds, _BOUNDS))
        accepted = self._rooms.read(ACCEPTED, [f"stage/run={run}/accepted"])
        known = ledger_cells.links(accepted).join(table, ["topic", "shard"])
        kept = known.where((F.col("offset") >= F.col("first")) & ~_is_lost(shards))
        placed = kept.select(*LINKS.fieldNames(), ledger_cells.hour(F.col("due_ms")).alias(HOUR))
        self._rooms.write(placed, f"stage/run={run}/links", HOUR, about=about)

    def _cells(
        self, run: int, previous: Manifest | None, *, has_links: bool
    ) -> tuple[dict[str, Tally], dict[str, set[int]]]:
        """What the run has read of each topic, and which windows of it that were closed before."""
        stage, read = f"stage/run={run}", self._rooms.read
        accepted, done = read(ACCEPTED, [f"{stage}/accepted"]), read(DONE, [f"{stage}/done/lot={COUNTED}"])
        links = read(LINKS, [f"{stage}/links"]) if has_links else None
        counted = ledger_cells.cells(accepted, links, done, self._late_after_ms)
        placed = counted.withColumn(HOUR, ledger_cells.hour(F.col("window_ms")))
        self._rooms.write(placed, f"cells/run={run}", HOUR, about=0)  # aggregated: there are few
        tallies: dict[str, Tally] = {}
        touched: dict[str, set[int]] = {}
        for row in _by_topic(read(CELLS, [f"cells/run={run}"]), previous).collect():
            tallies.setdefault(row["topic"], Tally()).add(row["said"], row["count"])
            if row["window"] is not None:
                touched.setdefault(row["topic"], set()).add(row["window"])
        self._check_counted(stage, tallies)
        return tallies, touched

    def _check_counted(self, stage: str, tallies: Mapping[str, Tally]) -> None:
        """Each row that was staged is in a cell. Raises BadInput."""
        for name, below in (("accepted", "accepted"), ("done", f"done/lot={COUNTED}"), ("links", "links")):
            staged = self._rooms.rows(f"{stage}/{below}")
            counted = sum(tally.counts[name] for tally in tallies.values())
            if counted != staged:
                raise BadInput(f"{stage}/{below}: Spark has written {staged} rows and read {counted}. Run again")

    def _totals(self, run: int, tallies: Mapping[str, Tally]) -> dict[str, Totals]:
        totals = {topic: tally.totals for topic, tally in tallies.items()}
        for lot, name in ((BEFORE, "before_start"), (STRAY, "before_start"), (LOST, "in_gaps")):
            for topic, count in self._by_topic(run, lot).items():
                totals[topic] = totals.get(topic, Totals()) + replace(Totals(), **{name: count})
        return totals

    def _by_topic(self, run: int, lot: str) -> dict[str, int]:
        if not self._rooms.rows(folder := f"stage/run={run}/done/lot={lot}"):
            return {}
        return dict(self._rooms.read(DONE, [folder]).groupBy("topic").count().collect())


# --- what marks contain


_MARK = ("next", "low_ms", "audit_offset", "at_ms", "pending")


def _by_shard(records: DataFrame, plan: Plan) -> DataFrame:
    """Rows by `schemas.AUDIT_RECORDS`, in groups of one kind, shard and audit partition: how many outcome rows
    (`rows`), when the first was written (`first_ms`), from where on they may have rows that cannot be read
    (`untold_from`), how many cannot be read (`malformed`), the two `marks` that reach furthest, apart from those that
    cannot be true, and all `skips`: each is an operator's act, so there are few."""
    ends = [(name, number, held.end) for name, of in plan.held.buffers.items() for number, held in of.shards.items()]
    table = F.broadcast(small(records.sparkSession, ends, "topic string, shard int, held long"))
    known = records.select(*AUDIT_RECORDS.fieldNames()).join(table, ["topic", "shard"], "left")
    is_mark = F.col("held").isNotNull() & ((F.col("kind") == LOW_WATER) | (F.col("next") == -1))
    possible = F.coalesce(F.col("next").between(0, F.col("held")), F.lit(False))
    mark, skip = F.struct(*_MARK), F.struct("audit_offset", "first", F.col("next").alias("end"), "at_ms")
    is_malformed = F.col("kind") == UNREADABLE_KIND
    marks = F.sort_array(F.collect_list(F.when(is_mark, mark)), asc=False)
    return known.groupBy("kind", "topic", "shard", "audit_partition", possible.alias("possible")).agg(
        F.sum("rows").alias("rows"),
        F.min("at_ms").alias("first_ms"),
        F.min(F.when(is_malformed & F.col("rows").isNull(), F.col("audit_offset"))).alias("untold_from"),
        F.count_if(is_malformed).alias("malformed"),
        F.slice(marks, 1, 2).alias("marks"),
        F.collect_list(F.when(F.col("kind") == SKIPPED, skip)).alias("skips"),
    )


def _scanned(groups: Iterable[Row], plan: Plan) -> AuditRead:
    marks: dict[str, dict[int, list[Mark]]] = {}
    skips: dict[str, dict[int, list[Skip]]] = {}
    first_ms: dict[int, int] = {}
    rows, malformed, unreadable, vanished = 0, 0, list[Unreadable](), set[str]()
    for group in groups:
        topic, shard, partition = group["topic"], group["shard"], group["audit_partition"]
        rows, malformed = rows + (group["rows"] or 0), malformed + group["malformed"]
        if group["kind"] == LOW_WATER and topic not in plan.held.buffers:
            vanished.add(topic)
        if group["untold_from"] is not None:
            unreadable.append(Unreadable(partition, topic, group["untold_from"]))
        if partition in plan.lost and group["kind"] in (OUTCOMES, LOW_WATER):
            first_ms[partition] = min(first_ms.get(partition, group["first_ms"]), group["first_ms"])
        for mark in group["marks"]:
            announced = Mark(mark["at_ms"], mark["next"], mark["low_ms"], mark["pending"], mark["audit_offset"])
            marks.setdefault(topic, {}).setdefault(shard, []).append(announced)
        for skip in sorted(group["skips"], key=lambda skip: skip["audit_offset"]):
            audit_offset, first, end, at_ms = skip
            skipped = Skip(first or 0, end, at_ms, first is not None, audit_offset)
            skips.setdefault(topic, {}).setdefault(shard, []).append(skipped)
    return AuditRead(marks, first_ms, skips, unreadable, malformed, rows, sorted(vanished))


# --- which rows are counted


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


# --- totals


def _shards_read(accepted: DataFrame) -> DataFrame:
    """By topic and shard: the last `rules` record's, when the first record was appended (`first_ms`), how many are
    re-appends (`links`)."""
    is_link = F.col("replaces_offset").isNotNull() & F.col("replaces_due_ms").isNotNull()
    rules = F.max(F.when(F.col("kind") == "rules", F.struct("offset", "rules")))
    first_ms, links = F.min("appended_ms"), F.count_if(is_link)
    return accepted.groupBy("topic", "shard").agg(
        rules.alias("rules"), first_ms.alias("first_ms"), links.alias("links")
    )


def _rules(read: Iterable[Row]) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for row in read:
        if row["rules"] is not None and row["rules"]["rules"] is not None:
            found.setdefault(row["topic"], {})[row["shard"]] = row["rules"]["rules"]
    return found


def _by_topic(cells: DataFrame, previous: Manifest | None) -> DataFrame:
    """How many rows of each kind, by topic; and by `window`, where that was closed before."""
    closed = [(name, topic.closed_until_ms) for name, topic in previous.topics.items()] if previous else []
    table = F.broadcast(small(cells.sparkSession, closed, "topic string, closed_ms long"))
    window = F.when(F.col("window_ms") < F.col("closed_ms"), F.col("window_ms"))
    known = cells.join(table, "topic", "left") if closed else cells.withColumn("closed_ms", F.lit(None).cast("long"))
    return known.groupBy("topic", "said", window.alias("window")).agg(F.sum("count").alias("count"))


def _with(
    touched: Mapping[str, set[int]], more: Iterable[tuple[str, int]], previous: Manifest | None
) -> dict[str, list[int]]:
    """With those of these windows that were closed before too."""
    closed = {name: topic.closed_until_ms for name, topic in previous.topics.items()} if previous else {}
    every = {name: set(windows) for name, windows in touched.items()}
    for topic, window_ms in more:
        if window_ms < closed.get(topic, 0):
            every.setdefault(topic, set()).add(window_ms)
    return {name: sorted(windows) for name, windows in every.items()}
