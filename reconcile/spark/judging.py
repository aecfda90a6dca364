"""The windows that a run judges: their cells of all runs, the rows behind those that are suspect, and what comes of
it.

findings/run=<run>   what is wrong, record by record
windows/run=<run>    one row per window judged; a later run's row replaces it

Cells are summed by Spark; what is judged of single records is judged here, a batch at a time (places.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reconcile.errors import BadInput
from reconcile.frames.local_frame import small
from reconcile.frames.schemas import ACCEPTED, DONE, FINDINGS, WINDOWS
from reconcile.frames.tables import rows_of
from reconcile.logic import whereabouts
from reconcile.logic.advance import Judgement, Task
from reconcile.logic.closing import Due, hours_of
from reconcile.logic.ledger import HOUR_MS, KEEP_TIME, SKIPPED, Category
from reconcile.logic.manifest import Manifest, Spans, runs_in
from reconcile.logic.places import Rules, Unread, against_deadline, for_none_accepted, is_late, named_by
from reconcile.logic.plan import Range
from reconcile.logic.skips import Skipped, ended_after, excused
from reconcile.logic.suspects import Behind, Suspect, batches, judged_behind, named
from reconcile.logic.testimony import Found, window_of
from reconcile.logic.unread import doubted
from reconcile.logic.whereabouts import where_of
from reconcile.logic.windows import Tally, Window, latest, sums
from reconcile.report.repair_plan import MESSAGES_MAX, Place, place_of
from reconcile.report.summary import FINDINGS_MAX, WINDOWS_PER_TOPIC_MAX, Finding
from reconcile.report.summing import finding_of
from reconcile.spark import cells as ledger_cells
from reconcile.spark import lookup, timing
from reconcile.spark.cells import CELLS, LINKS
from reconcile.spark.pairing import MOVED, findings
from reconcile.spark.parquet_store import ParquetStore

AT_ONCE = 100_000
"""Findings of one file."""

Windows = dict[tuple[str, int], Window]


@dataclass
class Shown:
    """What a report has room for: of the findings the first by category and place, of what is missing the first by
    due time, of the windows the newest of each topic. Rows as mappings, by `schemas.FINDINGS` and `WINDOWS`."""

    findings: list[Mapping[str, Any]] = field(default_factory=list)
    missing: list[Mapping[str, Any]] = field(default_factory=list)
    windows: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, found: Sequence[Found], run: int) -> None:
        rows = [{"run": run, **one._asdict()} for one in found]
        listed = (row for row in rows if row["category"] != SKIPPED)
        self.findings = nsmallest(FINDINGS_MAX, chain(self.findings, listed), key=_by_place)
        missing = (row for row in rows if row["category"] == Category.MISSING)
        self.missing = nsmallest(MESSAGES_MAX, chain(self.missing, missing), key=_by_due)


def _by_place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("category", "topic", "window_ms", "shard", "offset"))


def _by_due(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is no message comes first."""
    return row["due_ms"] is not None, row["due_ms"] or 0, row["topic"], row["shard"], row["offset"]


class Judging:
    """One run's judgement. Afterwards `shown`."""

    def __init__(self, rooms: ParquetStore, late_after_ms: int) -> None:
        self._rooms, self._late_after_ms = rooms, late_after_ms
        self.shown = Shown()

    def judge(self, task: Task) -> Judgement:
        hours = hours_of(task.due, task.where.hours)
        names, forgotten = (task.where.folders(kind, hours) for kind in (whereabouts.CELLS, whereabouts.FORGOTTEN))
        cells = self._rooms.read(CELLS, names)  # those without rows agree: nothing in them is suspect
        every = self._rooms.read(CELLS, [*names, *forgotten]) if forgotten else cells
        windows = self._windows(every, task, sum(map(self._rooms.rows, [*names, *forgotten])))
        earlier = self._earlier(task)
        known = self._known_before(earlier)
        unsettled: dict[str, set[int]] = {}
        again: dict[str, dict[str, int]] = {}
        for part, batch in enumerate(_by(AT_ONCE, self._found(cells, windows, task))):
            settled = [one for one in batch if one.settled]
            self._rooms.put(findings(settled, task.run), FINDINGS, f"findings/run={task.run}", part)
            self.shown.add(settled, task.run)
            for one in settled:
                windows[one.topic, one.window_ms].add(one)
                if one.key in known.get((one.topic, one.window_ms), ()):
                    counts = again.setdefault(one.topic, {})
                    counts[one.category] = counts.get(one.category, 0) + 1
            for one in batch:
                if not one.settled:
                    unsettled.setdefault(one.topic, set()).add(one.window_ms)
        rows = self._write(windows, earlier, task.run)
        self.shown.windows = list(_newest(rows))
        return Judgement(
            now=sums(rows),
            before=sums(earlier.values()),
            unsettled={topic: sorted(some) for topic, some in unsettled.items()},
            hours=sorted({window_ms // HOUR_MS for _, window_ms in windows}),
            written=self._rooms.written,
            known=again,
        )

    # --- windows

    def _windows(self, cells: DataFrame, task: Task, written: int) -> Windows:
        """Raises BadInput: not all cells that runs have written could be read."""
        found: Windows = {}
        parts = 0
        for topic, window_ms, kind, count, late_max_ms, buckets, of in rows_of(ledger_cells.counted(cells).toArrow()):
            parts += of
            if topic in task.due and _is_due(task.due[topic], window_ms):
                window = found.setdefault((topic, window_ms), Window(topic, window_ms, Tally(), task.run))
                window.tally.add(kind, count, late_max_ms, buckets)
        if parts != written:
            raise BadInput(f"cells: {written} rows were written, and Spark has read {parts} of them. Run again")
        return found

    def _earlier(self, task: Task) -> dict[tuple[str, int], Mapping[str, Any]]:
        """The last results of earlier runs for the windows that are judged again."""
        again = {(topic, window) for topic, due in task.due.items() for window in due.again}
        runs = _runs_of(task.windows, {window // HOUR_MS for _, window in again})
        names = [f"windows/run={run}" for run in runs]
        rows = (dict(zip(WINDOWS.fieldNames(), row, strict=True)) for row in self._rooms.get(WINDOWS, names))
        return latest(row for row in rows if (row["topic"], row["window_ms"]) in again)

    def _known_before(self, earlier: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[tuple[str, int], set[Any]]:
        """The findings of those judgements, by window."""
        known: dict[tuple[str, int], set[Any]] = {}
        for run in sorted({row["run"] for row in earlier.values()}):
            for _, *columns in self._rooms.get(FINDINGS, [f"findings/run={run}"]):
                one = Found(*columns)
                row = earlier.get((one.topic, one.window_ms))
                if row is not None and row["run"] == run:
                    known.setdefault((one.topic, one.window_ms), set()).add(one.key)
        return known

    def _write(
        self, windows: Windows, earlier: Mapping[tuple[str, int], Mapping[str, Any]], run: int
    ) -> list[dict[str, Any]]:
        for place, window in windows.items():
            window.version = earlier[place]["version"] + 1 if place in earlier else 1
        rows = [window.row for _, window in sorted(windows.items())]
        columns = WINDOWS.fieldNames()
        self._rooms.put([[row[name] for name in columns] for row in rows], WINDOWS, f"windows/run={run}")
        return rows

    # --- findings

    def _found(self, cells: DataFrame, windows: Windows, task: Task) -> Iterator[Found]:
        suspects = self._suspects(_of_windows(cells, task.due), windows, task)
        skips = list(_skips(task))
        forgotten = frozenset(task.forgotten)
        unread, partitions = list(_unread(task)), task.partitions
        rules = Rules(self._late_after_ms, _settled(task), task.audit_gaps, unread, forgotten, partitions)
        found = chain(named(suspects, partitions), self._looked_up(suspects, task, rules))
        for one in found:
            yield _doubted(excused(one, skips), task)
        yield from self._mistimed(suspects, windows, task)
        if skips:
            yield from self._after_skips(windows, skips, task)
        for one in self._unpaired(windows, task):
            yield _doubted(one, task)

    def _suspects(self, cells: DataFrame, windows: Windows, task: Task) -> list[Suspect]:
        rows = ledger_cells.suspects(cells, bool(task.audit_gaps), task.partitions)
        suspects = [Suspect(*row) for row in rows_of(rows.toArrow())]
        for one in suspects:
            windows[one.topic, one.window_ms].dirty_cells += one.is_dirty
        return sorted(suspects)

    def _looked_up(self, suspects: Sequence[Suspect], task: Task, rules: Rules) -> Iterator[Found]:
        spark = self._rooms.spark
        for batch in batches(suspects):
            behind = lookup.behind(spark, batch, self._staged(batch, task), self._late_after_ms)
            late = [row for row in behind.untimely if is_late(row, rules.late_after_ms)]
            moved_ms = lookup.moved_into_the_past(late, lambda hours: self._of_hours(hours, task), rules)
            yield from judged_behind(behind, rules, moved_ms)
            yield from self._given_way(behind, task, rules)
        if mortal := [one for one in suspects if one.is_mortal]:
            ends = lookup.with_deadlines(spark, mortal, self._staged(mortal, task))
            yield from filter(None, (against_deadline(row, expires_ms) for row, expires_ms in ends))

    def _mistimed(self, suspects: Sequence[Suspect], windows: Windows, task: Task) -> Iterator[Found]:
        """What goes on with a wrong time, or without its deadline."""
        spots: set[timing.Spot] = set()
        for cells, found in (
            ([one for one in suspects if one.is_unkept], timing.unkept),
            ([one for one in suspects if one.carries_deadlines], timing.unlike),
        ):
            spots.update(found(cells, self._staged(cells, task)) if cells else ())
        hours = hours_of(task.due, task.moved)
        moved = self._rooms.read(MOVED, [f"stage/run={run}/moved" for run in _runs_of(task.moved, hours)])
        if hours:
            spots.update(timing.elsewhere(self._of_hours(hours, task)(LINKS, "links"), moved))
        due = (spot for spot in spots if (spot[0], window_of(spot[3])) in windows)
        yield from timing.judged(due, lambda some: self._of_hours(some, task), moved)

    def _staged(self, cells: Iterable[Suspect], task: Task) -> lookup.Of:
        return self._of_hours(sorted({one.window_ms // HOUR_MS for one in cells}), task)

    def _of_hours(self, hours: Iterable[int], task: Task) -> lookup.Of:
        return lambda schema, kind: self._rooms.read(schema, task.where.folders(kind, hours))

    def _given_way(self, behind: Behind, task: Task, rules: Rules) -> Iterator[Found]:
        """Of each row that names the message for which its own has ended, whether that was accepted."""
        named = [one for row in behind.given_way if (one := named_by(row, rules.partitions)) is not None]
        hours = sorted({one.due_ms // HOUR_MS for one in named})
        others = self._rooms.read(ACCEPTED, task.where.folders("accepted", hours)) if named else None
        accepted = set() if others is None else lookup.accepted_among(self._rooms.spark, named, others)
        return for_none_accepted(behind.given_way, accepted, rules)

    def _after_skips(self, windows: Windows, skips: Sequence[Skipped], task: Task) -> Iterator[Found]:
        hours = sorted({window_ms // HOUR_MS for _, window_ms in windows})
        rows = self._rooms.read(DONE, task.where.folders("done", hours))
        for row in lookup.skipped_rows(rows, skips):
            found = ended_after(row, skips)
            if found is not None and (found.topic, found.window_ms) in windows:
                yield found

    def _unpaired(self, windows: Windows, task: Task) -> Iterator[Found]:
        """What all runs have found of acts, of the windows to be judged."""
        for found in self._found_in_acts(_runs_of(task.unpaired, hours_of(task.due, task.unpaired))):
            if (found.topic, found.window_ms) in windows:
                yield found

    def _found_in_acts(self, runs: Iterable[int]) -> Iterator[Found]:
        """What these runs have found of acts."""
        for _, *columns in self._rooms.get(FINDINGS, [f"stage/run={run}/unpaired" for run in runs]):
            yield Found(*columns)

    # --- what is to be sent again

    def missing(self, manifest: Manifest, judgement: Judgement) -> list[Finding]:
        """The first of what is missing, but for what its sender may not want any more: a cancel or a move of it was
        confirmed and had no effect; and for what may have been delivered all the same: an outcome row has its place,
        and has another id or due time."""
        rows = self.shown.missing
        if not rows:
            return []
        of_acts = self._found_in_acts(_runs_of(manifest.unpaired, manifest.unpaired))
        promised = {one.id for one in of_acts if one.category == Category.CONFIRMED_IN_VAIN}
        orphans = set()
        if any(judged.findings.get(Category.ORPHAN) for judged in judgement.now.values()):
            found = (Found(*columns) for _, *columns in self._rooms.get(FINDINGS, [f"findings/run={manifest.run}"]))
            orphans = {(one.topic, one.shard, one.offset) for one in found if one.category == Category.ORPHAN}
        listed = (finding_of(row, manifest) for row in rows)
        return [one for one in listed if one.id not in promised and place_of(one) not in orphans]

    def moves(self, lost: Sequence[Finding], manifest: Manifest) -> dict[Place, int | None]:
        """The due times of these lost successors, by the record that they were to follow, as far as the operation
        that moved them, or a row that keeps the time, determines it."""
        places = [(*place_of(one), one.due_ms) for one in lost if one.due_ms is not None]
        if not places:
            return {}
        hours = sorted({due_ms // HOUR_MS for *_, due_ms in places})
        done = self._rooms.read(DONE, where_of(manifest).folders("done", hours))
        moved = [f"stage/run={run}/moved" for run in _runs_of(manifest.moved, hours)]
        found: dict[Place, int | None] = dict(lookup.kept_times(done, places, KEEP_TIME))
        for *place, moves_to_ms in self._rooms.get(MOVED, moved):
            if tuple(place) in places:
                found[place[0], place[1], place[2]] = moves_to_ms
        return found


# --- where rows are


def _runs_of(runs: Mapping[int, Spans], hours: Iterable[int]) -> list[int]:
    """Those that have something in these hours."""
    return sorted({run for hour in hours for run in runs_in(runs.get(hour, []))})


# --- what is judged


def _is_due(due: Due, window_ms: int) -> bool:
    return due.from_ms <= window_ms < due.until_ms or window_ms in due.again


def _of_windows(cells: DataFrame, due: Mapping[str, Due]) -> DataFrame:
    """Those of the windows that are to be judged."""
    spans = [(topic, one.from_ms, one.until_ms, one.again) for topic, one in due.items()]
    table = small(cells.sparkSession, spans, "due_topic string, from_ms long, until_ms long, again array<long>")
    window = F.col("window_ms")
    fresh = (window >= F.col("from_ms")) & (window < F.col("until_ms"))
    wanted = (F.col("topic") == F.col("due_topic")) & (fresh | F.array_contains("again", window))
    return cells.join(F.broadcast(table), wanted, "left_semi")


def _by(size: int, found: Iterable[Found]) -> Iterator[list[Found]]:
    batch: list[Found] = []
    for one in found:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def _newest(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of each topic, in order."""
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_topic.setdefault(row["topic"], []).append(row)
    for some in by_topic.values():
        yield from some[-WINDOWS_PER_TOPIC_MAX:]


# --- what is known of shards


def _skips(task: Task) -> Iterator[Skipped]:
    for topic, shards in task.shards.items():
        for number, shard in shards.items():
            for skip in shard.skips:
                at_ms = skip.at_ms if skip.is_place else None
                yield Skipped(topic, number, skip.first, skip.end, at_ms, skip.audit_offset)


def _settled(task: Task) -> dict[tuple[str, int], int]:
    return {
        (topic, number): view.settled_before for topic, views in task.views.items() for number, view in views.items()
    }


def _unread(task: Task) -> Iterator[Unread]:
    for topic, shards in task.shards.items():
        for number, shard in shards.items():
            for part in (Range(0, shard.start), *shard.lost):
                if part.start < part.end:
                    yield Unread(topic, number, part.start, part.end)


def _doubted(found: Found, task: Task) -> Found:
    return doubted(found, task.shards.get(found.topic, {}).get(found.shard))
