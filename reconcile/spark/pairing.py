"""The acts of a run (acts.py): from which rows they are made, and what is left of them.

stage/run=<run>/acts       what waits for its other side
stage/run=<run>/unpaired   what has none, as findings of its record's window
stage/run=<run>/moved      records whose messages operations have moved, and to when
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from delayline.buffer.facts import OPERATION
from delayline.buffer.outcome import CANCELLED, PURGED, RESCHEDULED, Outcome
from reconcile.frames.local_frame import small
from reconcile.frames.schemas import ACCEPTED, DONE, FINDINGS
from reconcile.frames.tables import rows_of
from reconcile.logic import acts, whereabouts
from reconcile.logic.acts import Act, Asked, Coverage
from reconcile.logic.closing import SETTLED_ALWAYS, View
from reconcile.logic.ledger import HOUR_MS
from reconcile.logic.manifest import Manifest, Plan, Reads, Shard, with_run
from reconcile.logic.plan import Unreadable
from reconcile.logic.planning import readable
from reconcile.logic.testimony import Found, Row, window_of
from reconcile.logic.whereabouts import Whereabouts, where_of
from reconcile.spark.parquet_store import ParquetStore

ACTS = StructType(
    [
        *DONE.fields,
        StructField("act", StringType(), False),
        StructField("is_operation", BooleanType(), False),
        StructField("bound", LongType(), False),
        StructField("is_read", BooleanType(), False),
        StructField("is_untold", BooleanType(), False),
    ]
)
"""`acts.Act`."""

MOVED = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("shard", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("due_ms", LongType(), False),
        StructField("moves_to_ms", LongType(), False),
    ]
)
"""`acts.Moved`."""

AT_ONCE = 200_000
"""Acts that are held in memory: some 100 MB."""

_PLACE = ("topic", "shard", "offset")


class Pairing:
    """One run's acts. To be done when its other rows are staged, of which `read` lots are of records that runs read,
    and `others` are not. Afterwards: the hours of what it has found and of what was moved, and the windows of both
    (with their topics)."""

    def __init__(self, rooms: ParquetStore, read: Sequence[str], others: Sequence[str]) -> None:
        self._rooms, self._lots = rooms, {**dict.fromkeys(read, True), **dict.fromkeys(others, False)}
        self.unpaired: set[int] = set()
        self.moved: set[int] = set()
        self.windows: set[tuple[str, int]] = set()
        self._forgotten: frozenset[int] = frozenset()

    def pair(
        self, plan: Plan, reads: Reads, previous: Manifest | None, shards: Mapping[str, Mapping[int, Shard]]
    ) -> None:
        """`shards`: where they stand behind this run."""
        folder = f"stage/run={plan.run}"
        where = where_of(previous)
        self._forgotten = frozenset(where.forgotten)
        waiting = list(self._waiting(plan, reads.unreadable))
        coverage = dict(_coverage(plan, reads, shards))
        for part, (rows, purges) in enumerate(self._batches(plan, reads, waiting)):
            paired = acts.paired(rows, coverage, self._asked(rows, where, plan.run), purges)
            self._rooms.put([(*act.row, *act[1:]) for act in paired.waiting], ACTS, f"{folder}/acts", part)
            self._rooms.put(paired.moved, MOVED, f"{folder}/moved", part)
            self._rooms.put(findings(paired.found, plan.run), FINDINGS, f"{folder}/unpaired", part)
            self.windows |= {(found.topic, found.window_ms) for found in paired.found}
            self.unpaired |= {found.window_ms // HOUR_MS for found in paired.found}
            self.moved |= {moved.due_ms // HOUR_MS for moved in paired.moved}
            self.windows |= {(moved.topic, window_of(moved.due_ms)) for moved in paired.moved}

    def _batches(
        self, plan: Plan, reads: Reads, waiting: Sequence[Act]
    ) -> Iterator[tuple[list[Act], Mapping[tuple[str, int], acts.Place]]]:
        """Whole commits, by their time; with the last purge of each shard."""
        staged = self._staged(plan, reads)
        if staged is None:
            if waiting:
                yield list(waiting), acts.last_purges(waiting)
            return
        count = staged.count() if self._rooms.rows(f"stage/run={plan.run}/done") > AT_ONCE else 0
        batches = -(-count // AT_ONCE) or 1
        is_purge = F.col("id").isNull() & F.col("reason").eqNullSafe(F.lit(PURGED))
        purges = acts.last_purges([*waiting, *self._acts(plan, reads, staged.where(is_purge))]) if batches > 1 else {}
        for number in range(batches):
            part = staged.where(F.pmod("done_ms", F.lit(batches)) == number) if batches > 1 else staged
            rows = [act for act in waiting if act.row.done_ms % batches == number]
            rows += self._acts(plan, reads, part)
            yield rows, purges if batches > 1 else acts.last_purges(rows)

    def _staged(self, plan: Plan, reads: Reads) -> DataFrame | None:
        """Of what this run has read of the audit; rows that an earlier one has left over have been here before. Lots
        one by one: to Spark folders of several would be partitions of a table, without its root."""
        lots = [lot for lot in self._lots if self._rooms.rows(f"stage/run={plan.run}/done/lot={lot}")]
        if not lots:
            return None
        parts = [(partition, part.start) for partition, part in plan.audit.items()]
        table = small(self._rooms.spark, parts, "audit_partition int, from_offset long")
        rows = (
            self._rooms.read(DONE, [f"stage/run={plan.run}/done/lot={lot}"])
            .where(is_act())
            .withColumn("is_read", F.lit(self._lots[lot]))
            for lot in lots
        )
        every = reduce(DataFrame.unionByName, rows)
        is_new = F.col("audit_offset") >= F.col("from_offset")
        return every.join(F.broadcast(table), "audit_partition").where(is_new)

    def _acts(self, plan: Plan, reads: Reads, rows: DataFrame) -> Iterator[Act]:
        """What was committed beside a gap may be half of it."""
        torn_ms = {part: reads.audit_first_ms.get(part, plan.held.at_ms) for part in plan.lost}
        bounds = {
            (name, number): kept.end for name, of in readable(plan).items() for number, kept in of.shards.items()
        }
        for *columns, is_read in rows_of(rows.select(*DONE.fieldNames(), "is_read").toArrow()):
            row = Row(*columns)
            side, bound = acts.side_of(row), bounds.get((row.topic, row.shard), 0)
            if side and 0 <= row.offset < bound and row.done_ms > torn_ms.get(row.audit_partition, -1):
                is_untold = _is_untold(row, reads.unreadable) or self._is_forgotten(row, *side)
                yield Act(row, *side, bound, is_read, is_untold)

    def _is_forgotten(self, row: Row, act: str, is_operation: bool) -> bool:
        """Whether what an operation asks for may have been dropped with its record."""
        return is_operation and row.accepted_ms // HOUR_MS in self._forgotten

    def _waiting(self, plan: Plan, unreadable: Collection[Unreadable]) -> Iterator[Act]:
        """What the last run has left, but for that whose other side may have been deleted since."""
        for columns in self._rooms.get(ACTS, [f"stage/run={plan.run - 1}/acts"]):
            act = Act(Row(*columns[: len(Row._fields)]), *columns[len(Row._fields) :])
            if act.row.audit_partition not in plan.lost:
                yield act._replace(is_untold=act.is_untold or _is_untold(act.row, unreadable))

    def _asked(self, rows: Iterable[Act], where: Whereabouts, run: int) -> dict[tuple[str, int, int], Asked]:
        """The records of the operations among these rows."""
        operations = [act.row for act in rows if act.is_operation]
        if not operations:
            return {}
        hours = sorted({row.accepted_ms // HOUR_MS for row in operations})
        now = where._replace(rows=with_run(dict(where.rows), hours, run))
        accepted = self._rooms.read(ACCEPTED, now.folders(whereabouts.ACCEPTED, hours))
        places = [(row.topic, row.shard, row.offset) for row in operations]
        wanted = small(self._rooms.spark, places, "topic string, shard int, offset long")
        found = accepted.where(F.col("kind") == OPERATION).join(F.broadcast(wanted), list(_PLACE), "left_semi")
        columns = rows_of(found.select(*_PLACE, *Asked._fields).toArrow())
        return {(topic, shard, offset): Asked(*asked) for topic, shard, offset, *asked in columns}


def _is_untold(row: Row, unreadable: Iterable[Unreadable]) -> bool:
    return any(one.may_hold_outcomes_of(row.topic, row.audit_partition) for one in unreadable)


def findings(found: Iterable[Found], run: int) -> list[tuple[Any, ...]]:
    """By `schemas.FINDINGS`."""
    return [(run, *one[:-1]) for one in found]


def is_act() -> Column:
    """`acts.side_of`, as far as it spares rows."""
    is_operation = F.col("id").isNull() & (F.col("outcome") == Outcome.APPLIED.value)
    tied = F.coalesce(F.col("reason").isin(CANCELLED, RESCHEDULED, PURGED), F.lit(False))
    ended = F.col("outcome").isin(Outcome.CANCELLED.value, Outcome.SUPERSEDED.value)
    return (is_operation & tied) | (F.col("id").isNotNull() & ended)


def _coverage(
    plan: Plan, reads: Reads, shards: Mapping[str, Mapping[int, Shard]]
) -> Iterator[tuple[tuple[str, int], Coverage]]:
    for name, buffer in readable(plan).items():
        for number, shard in shards.get(name, {}).items() if name not in reads.aside else ():
            view = View(buffer.shards[number], shard.start, reads.marks[name][number])
            before = view.marks.before
            below = SETTLED_ALWAYS if view.is_complete else before.next if before else 0
            skipped_at = max((skip.audit_offset for skip in shard.skips), default=-1)
            yield (name, number), Coverage(view.settled_before, below, skipped_at)
