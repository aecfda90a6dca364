"""The windows that a run judges: their cells of all runs, the rows behind those that are dirty, and what comes of
it.

findings/run=<run>             what is wrong, record by record
windows/run=<run>/hour=<hour>  one row per window judged; a later run's row replaces it
"""

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delayline.outcome import REPAIR, ROLL, SCHEDULED
from reconcile import findings as look_up
from reconcile import judge as verdict
from reconcile.acts import MOVED
from reconcile.advance import Judgement, Task
from reconcile.cells import CELLS, LINKS, has_deadlines, hour
from reconcile.cells import summed as summed_cells
from reconcile.closing import Due, hours_of
from reconcile.counting import COUNTED
from reconcile.findings import Rules, Settled, Skipped, Staged, Unread
from reconcile.judge import FINDINGS, WINDOWS
from reconcile.ledger import HOUR_MS, INSTRUCTIONS, OUTCOMES, SKIPPED, Category
from reconcile.manifest import Judged, Manifest, Spans
from reconcile.pairing import moved_folders, unpaired_folders
from reconcile.plan import Range
from reconcile.report.repair_plan import Place, place_of
from reconcile.report.summary import Finding
from reconcile.rooms import HOUR, Rooms, folders, kept
from reconcile.schemas import ACCEPTED, DONE
from reconcile.small import small

MESSAGE_OUTCOMES = tuple(name for name in OUTCOMES if name not in INSTRUCTIONS)

NUMBERS = ("unanswered", "unanswered_unauditable", "unanswered_skipped", "surplus")
"""Columns of a window that a topic's sums keep under the same name."""


class Judging:
    """One run's judgement."""

    def __init__(self, rooms: Rooms, late_after_ms: int) -> None:
        self._rooms, self._late_after_ms = rooms, late_after_ms

    def judge(self, task: Task) -> Judgement:
        hours = hours_of(task.due, task.rows)
        cells = self._rooms.read(CELLS, folders("cells", hours, task.rows))
        with kept(summed_cells(_of_windows(cells, task.due))) as summed:
            earlier = self._earlier(task)
            with kept(self._verdicts(summed, task)) as verdicts:
                self._write(summed, verdicts, earlier, task.run)
                unsettled = _by_topic(look_up.unsettled(verdicts).collect())
        judged = self._rooms.read(WINDOWS, [f"windows/run={task.run}"])
        return Judgement(
            now=sums(judged),
            before=sums(_latest(earlier)),
            unsettled=unsettled,
            hours=self._rooms.hours(f"windows/run={task.run}"),
            written=self._rooms.written,
            known=self._known(task.run, _latest(earlier)),
        )

    def _known(self, run: int, latest: DataFrame) -> dict[str, dict[str, int]]:
        """How many findings of this run the last judgement of their window had, by topic and category. `latest`: rows
        by `judge.WINDOWS`."""
        judged = latest.select("topic", "window_ms", "run")
        runs = [row["run"] for row in judged.select("run").distinct().collect()]
        if not runs:
            return {}
        said = self._rooms.read(FINDINGS, [f"findings/run={earlier}" for earlier in runs])
        before = said.join(judged, ["topic", "window_ms", "run"], "left_semi").withColumn("id", _named())
        now = self._rooms.read(FINDINGS, [f"findings/run={run}"]).withColumn("id", _named())
        again = now.join(before, ["topic", "window_ms", "category", "shard", "offset", "id"], "left_semi")
        known: dict[str, dict[str, int]] = {}
        for row in again.groupBy("topic", "category").count().collect():
            known.setdefault(row["topic"], {})[row["category"]] = row["count"]
        return known

    def _staged(self, hours: list[int], rows: Mapping[int, Spans], summed: DataFrame) -> Staged:
        def of(schema: StructType, below: str, hours: list[int] = hours) -> DataFrame:
            return self._rooms.read(schema, folders("stage", hours, rows, below))

        done = of(DONE, f"done/lot={COUNTED}")
        others = of(ACCEPTED, "accepted", look_up.hours_named(summed, done))
        return Staged(of(ACCEPTED, "accepted"), of(LINKS, "links"), done, others)

    def _verdicts(self, summed: DataFrame, task: Task) -> DataFrame:
        """No row is opened where cells tell everything, as on every good day."""
        untold_ms = max((gap.until_ms for gap in task.audit_gaps), default=0)
        skips = _skips(task)
        hours = _hours(summed) if skips else _hours_to_look_up(summed, untold_ms)
        unpaired = self._unpaired(summed, task).withColumn("settled", F.lit(True))
        if not hours:
            named = verdict.decoded(verdict.dirty(summed), task.run)
            return _untold(named.withColumn("settled", F.lit(True)).unionByName(unpaired), task)
        rules = Rules(task.run, self._late_after_ms, _settled(task), untold_ms, skips, _unread(task))
        looked_up = look_up.verdicts(summed, self._staged(hours, task.rows, summed), rules)
        return _untold(looked_up.withColumn("category", _category(task)).unionByName(unpaired), task)

    def _unpaired(self, summed: DataFrame, task: Task) -> DataFrame:
        """What all runs have found of acts, of the windows to be judged."""
        rows = self._rooms.read(FINDINGS, unpaired_folders(hours_of(task.due, task.rows), task.rows))
        here = rows.join(summed.select("topic", "window_ms").distinct(), ["topic", "window_ms"], "left_semi")
        return here.withColumn("run", F.lit(task.run)).select(*FINDINGS.fieldNames())

    def _earlier(self, task: Task) -> DataFrame:
        """What earlier runs have said of the windows that are judged again."""
        again = {name: due._replace(from_ms=0, until_ms=0) for name, due in task.due.items()}
        hours = sorted({window // HOUR_MS for due in again.values() for window in due.again})
        return _of_windows(self._rooms.read(WINDOWS, folders("windows", hours, task.windows)), again)

    def _write(self, summed: DataFrame, verdicts: DataFrame, earlier: DataFrame, run: int) -> None:
        found = look_up.findings(verdicts)
        windows = verdict.windows(summed, found, run, earlier)
        self._rooms.write(found, f"findings/run={run}")
        self._rooms.write(windows.withColumn(HOUR, hour(F.col("window_ms"))), f"windows/run={run}", HOUR)

    def first_findings(self, run: int, limit: int) -> list[Row]:
        """Rows by `judge.FINDINGS`: what a report has room for. What was skipped is none."""
        found = self._rooms.read(FINDINGS, [f"findings/run={run}"]).where(F.col("category") != SKIPPED)
        return found.orderBy("category", "topic", "window_ms", "shard", "offset").limit(limit).collect()

    def missing(self, run: int, limit: int) -> list[Row]:
        """The first of what is missing, by due time."""
        found = self._rooms.read(FINDINGS, [f"findings/run={run}"])
        missing = found.where(F.col("category") == Category.MISSING.value)
        return missing.orderBy("due_ms", "topic", "shard", "offset").limit(limit).collect()

    def moves(self, lost: Sequence[Finding], manifest: Manifest) -> dict[Place, int | None]:
        """When these lost successors are due, by the record that they were to follow; those of which the operation
        that has moved them, or a row that keeps the time, says so."""
        places = [(*place_of(one), one.due_ms) for one in lost if one.due_ms is not None]
        if not places:
            return {}
        hours = sorted({due_ms // HOUR_MS for *_, due_ms in places})
        wanted = small(self._rooms.spark, places, "topic string, shard int, offset long, due_ms long")
        wanted, key = F.broadcast(wanted), ["topic", "shard", "offset", "due_ms"]
        moved = self._rooms.read(MOVED, moved_folders(hours, manifest.rows)).join(wanted, key)
        done = self._rooms.read(DONE, folders("stage", hours, manifest.rows, f"done/lot={COUNTED}"))
        kept_time = done.where(F.col("reason").isin(ROLL, SCHEDULED, REPAIR)).join(wanted, key)
        rows = moved.select(*key, "moves_to_ms").unionByName(
            kept_time.select(*key, F.col("due_ms").alias("moves_to_ms"))
        )
        found: dict[Place, int | None] = {}
        for row in rows.collect():
            found[row["topic"], row["shard"], row["offset"]] = row["moves_to_ms"]
        return found

    def newest_windows(self, run: int, limit: int) -> list[Row]:
        """Rows by `judge.WINDOWS`: the newest of each topic."""
        windows = self._rooms.read(WINDOWS, [f"windows/run={run}"])
        newest = Window.partitionBy("topic").orderBy(F.col("window_ms").desc())
        shown = windows.withColumn("nth", F.row_number().over(newest)).where(F.col("nth") <= limit)
        return shown.orderBy("topic", "window_ms").collect()


def sums(windows: DataFrame) -> dict[str, Judged]:
    """By topic, of rows by `judge.WINDOWS`."""
    columns = {
        "windows": F.lit(1),
        "accepted": F.col("accepted") - F.col("others"),
        "done": sum((F.col(name) for name in MESSAGE_OUTCOMES), F.lit(0)),
        **{name: F.col(name) for name in (*NUMBERS, *Category)},
    }
    rows = (
        windows.groupBy("topic")
        .agg(*(F.coalesce(F.sum(column), F.lit(0)).alias(name) for name, column in columns.items()))
        .collect()
    )
    return {row["topic"]: _judged(row) for row in rows}


def _judged(row: Row) -> Judged:
    return Judged(
        findings={category.value: row[category] for category in Category if row[category]},
        **{name: row[name] for name in ("windows", "accepted", "done", *NUMBERS)},
    )


def _latest(windows: DataFrame) -> DataFrame:
    best = F.row_number().over(Window.partitionBy("topic", "window_ms").orderBy(F.col("version").desc()))
    return windows.withColumn("nth", best).where("nth = 1").drop("nth")


def _of_windows(rows: DataFrame, due: Mapping[str, Due]) -> DataFrame:
    """Those of the windows that are to be judged."""
    spans = [(topic, one.from_ms, one.until_ms, one.again) for topic, one in due.items()]
    table = small(rows.sparkSession, spans, "due_topic string, from_ms long, until_ms long, again array<long>")
    window = F.col("window_ms")
    fresh = (window >= F.col("from_ms")) & (window < F.col("until_ms"))
    wanted = (F.col("topic") == F.col("due_topic")) & (fresh | F.array_contains("again", window))
    return rows.join(F.broadcast(table), wanted, "left_semi")


def _hours_to_look_up(summed: DataFrame, untold_until_ms: int) -> list[int]:
    """Where a cell alone does not tell everything."""
    unclean = verdict.dirty(summed, untold_until_ms).where(~F.col("named")).select("window_ms")
    untimely = (F.col("early") + F.col("late") + F.col("given_way") > 0) | has_deadlines()
    return _hours(unclean.union(summed.where(untimely).select("window_ms")))


def _hours(windows: DataFrame) -> list[int]:
    hours = windows.select(hour(F.col("window_ms")).alias(HOUR)).distinct().collect()
    return sorted(row[HOUR] for row in hours)


def _skips(task: Task) -> list[Skipped]:
    return [
        Skipped(topic, number, skip.first, skip.end, skip.at_ms if skip.is_place else None, skip.audit_offset)
        for topic, shards in task.shards.items()
        for number, shard in shards.items()
        for skip in shard.skips
    ]


def _settled(task: Task) -> list[Settled]:
    return [
        Settled(topic, number, view.settled_before)
        for topic, views in task.views.items()
        for number, view in views.items()
    ]


def _named() -> Column:
    """Of what is no message, no id."""
    return F.coalesce("id", F.lit(""))


def _unread(task: Task) -> list[Unread]:
    return [
        Unread(topic, number, part.start, part.end)
        for topic, shards in task.shards.items()
        for number, shard in shards.items()
        for part in (Range(0, shard.start), *shard.lost)
        if part.start < part.end
    ]


def _category(task: Task) -> Column:
    """A successor that is missing may be among what was gone before it was read."""
    said = F.col("category")
    for topic, shards in task.shards.items():
        for number, shard in shards.items():
            if shard.lost:
                here = (F.col("topic") == topic) & (F.col("shard") == number)
                successor = (said == Category.MISSING.value) & (F.col("done_ms") < shard.lost_until_ms)
                said = F.when(here & successor, Category.UNAUDITABLE.value).otherwise(said)
    return said


def _untold(verdicts: DataFrame, task: Task) -> DataFrame:
    """The outcome of a record that seems to have none may stand in an audit record that could not be read."""
    bounds = [
        (topic, number, shard.untold_below)
        for topic, shards in task.shards.items()
        for number, shard in shards.items()
        if shard.untold_below
    ]
    if not bounds:
        return verdicts
    table = small(verdicts.sparkSession, bounds, "topic string, shard int, untold_below long")
    has_no_row = (F.col("category") == Category.MISSING.value) & F.col("done_ms").isNull()
    untold = F.coalesce(has_no_row & (F.col("offset") < F.col("untold_below")), F.lit(False))
    category = F.when(untold, Category.UNAUDITABLE.value).otherwise(F.col("category"))
    joined = verdicts.join(F.broadcast(table), ["topic", "shard"], "left").withColumn("category", category)
    return joined.select(*verdicts.columns)


def _by_topic(rows: Iterable[Row]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append(row["window_ms"])
    return found
