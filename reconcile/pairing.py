"""The acts of a run (acts.py): what is staged of them, and what waits for the next run.

stage/run=<run>/asked/hour=<hour>      records of operations
stage/run=<run>/acts                   what waits for its other side
stage/run=<run>/unpaired/hour=<hour>   what has none, in the hour of its record
stage/run=<run>/moved/hour=<hour>      records whose messages operations have moved, and to when
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reconcile import acts
from reconcile.acts import ACTS, ASKED, Told
from reconcile.cells import hour, moment_ms
from reconcile.closing import SETTLED_ALWAYS, View
from reconcile.judge import FINDINGS
from reconcile.manifest import Manifest, Plan, Reads, Shard, Spans, with_run
from reconcile.planning import readable
from reconcile.rooms import HOUR, Rooms, folders, kept
from reconcile.schemas import DONE
from reconcile.small import small


def unpaired_folders(hours: Sequence[int], rows: Mapping[int, Spans]) -> list[str]:
    """Of rows by `judge.FINDINGS`."""
    return folders("stage", hours, rows, "unpaired")


def moved_folders(hours: Sequence[int], rows: Mapping[int, Spans]) -> list[str]:
    """Of rows by `acts.MOVED`."""
    return folders("stage", hours, rows, "moved")


class Pairing:
    """One run's acts. To be done when its other rows are staged, of which `read` lots are of records that runs read,
    and `others` are not."""

    def __init__(self, rooms: Rooms, read: Sequence[str], others: Sequence[str]) -> None:
        self._rooms, self._read, self._others = rooms, read, others

    def stage_operations(self, run: int, accepted: DataFrame) -> None:
        rows = acts.operations(accepted).withColumn(HOUR, hour(F.col("accepted_ms"))).drop("accepted_ms")
        self._rooms.write(rows, f"stage/run={run}/asked", HOUR)

    def pair(
        self,
        plan: Plan,
        reads: Reads,
        previous: Manifest | None,
        shards: Mapping[str, Mapping[int, Shard]],
        unreadable: Collection[int],
    ) -> DataFrame:
        """What has no other side, by `judge.FINDINGS`. `shards`: where they stand behind this run; `unreadable`:
        partitions of the audit with records that could not be read."""
        rows = self._new(plan, reads, unreadable).unionByName(self._waiting(plan, unreadable))
        folder = f"stage/run={plan.run}/unpaired"
        with kept(acts.ready(rows, list(_told(plan, reads, shards)))) as ready:
            if not ready.isEmpty():
                known = previous.rows if previous else {}
                paired = acts.paired(ready, self._asked(ready, known, plan.run), plan.run)
                self._rooms.write(paired.waiting, f"stage/run={plan.run}/acts")
                moved = paired.moved.withColumn(HOUR, hour(F.col("due_ms")))
                self._rooms.write(moved, f"stage/run={plan.run}/moved", HOUR)
                self._rooms.write(paired.found.withColumn(HOUR, hour(moment_ms())), folder, HOUR)
        return self._rooms.read(FINDINGS, [folder])

    def hours(self, run: int) -> list[int]:
        """Those that have rows of this run."""
        names = (f"stage/run={run}/{name}" for name in ("unpaired", "moved"))
        return sorted({hour for name in names for hour in self._rooms.hours(name)})

    def _new(self, plan: Plan, reads: Reads, unreadable: Collection[int]) -> DataFrame:
        """Of what this run has read of the audit. Rows that an earlier one has left over have been here before; and
        what was committed beside a gap may be half of it."""
        parts = [
            (
                partition,
                part.start,
                reads.audit_first_ms.get(partition, plan.held.at_ms) if partition in plan.lost else -1,
            )
            for partition, part in plan.audit.items()
        ]
        ends = [(name, number, kept.end) for name, of in readable(plan).items() for number, kept in of.shards.items()]
        table = small(self._rooms.spark, parts, "audit_partition int, from_offset long, torn_ms long")
        bounds = small(self._rooms.spark, ends, "topic string, shard int, bound long")
        rows = self._staged(plan.run, self._read, True).unionByName(self._staged(plan.run, self._others, False))
        placed = (
            acts.acts(rows).join(F.broadcast(table), "audit_partition").join(F.broadcast(bounds), ["topic", "shard"])
        )
        is_new = (F.col("audit_offset") >= F.col("from_offset")) & (F.col("done_ms") > F.col("torn_ms"))
        is_there = (F.col("offset") >= 0) & (F.col("offset") < F.col("bound"))
        untold = F.col("audit_partition").isin(*unreadable) if unreadable else F.lit(False)
        return placed.where(is_new & is_there).withColumn("is_untold", untold).select(*ACTS.fieldNames())

    def _staged(self, run: int, lots: Sequence[str], is_read: bool) -> DataFrame:
        """Lots one by one: to Spark folders of several would be partitions of a table, without its root."""
        rows = (self._rooms.read(DONE, [f"stage/run={run}/done/lot={lot}"]) for lot in lots)
        return reduce(DataFrame.unionByName, rows).withColumn("is_read", F.lit(is_read))

    def _waiting(self, plan: Plan, unreadable: Collection[int]) -> DataFrame:
        """What the last run has left, but for that whose other side may have been deleted since."""
        left = self._rooms.read(ACTS, [f"stage/run={plan.run - 1}/acts"])
        partition = F.col("audit_partition")
        kept_rows = left.where(~partition.isin(*plan.lost)) if plan.lost else left
        untold = partition.isin(*unreadable) if unreadable else F.lit(False)
        return kept_rows.withColumn("is_untold", F.col("is_untold") | untold)

    def _asked(self, ready: DataFrame, rows: Mapping[int, Spans], run: int) -> DataFrame:
        """The records of the operations among these rows."""
        found = ready.where("is_operation").select(hour(F.col("accepted_ms")).alias(HOUR)).distinct().collect()
        hours = sorted(row[HOUR] for row in found)
        return self._rooms.read(ASKED, folders("stage", hours, with_run(dict(rows), hours, run), "asked"))


def _told(plan: Plan, reads: Reads, shards: Mapping[str, Mapping[int, Shard]]) -> Iterator[Told]:
    for name, buffer in readable(plan).items():
        for number, shard in shards.get(name, {}).items() if name not in reads.aside else ():
            view = View(buffer.shards[number], shard.start, reads.marks[name][number])
            before = view.marks.before
            below = SETTLED_ALWAYS if view.is_complete else before.next if before else 0
            skipped_at = max((skip.audit_offset for skip in shard.skips), default=-1)
            yield Told(name, number, view.settled_before, below, skipped_at)
