"""One run of the job: the protocol (runs.py) with Spark's stages."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import islice
from typing import NamedTuple

from pyspark.sql import SparkSession

from delayline.clock import Clock
from reconcile.directory import reported
from reconcile.directory.files import Files
from reconcile.directory.lock import Lock, this_process
from reconcile.directory.runs import AuditRead, Merging, carry_out, read_manifest
from reconcile.errors import BadInput
from reconcile.frames.schemas import MALFORMED
from reconcile.logic.advance import Counted, Judgement, Task
from reconcile.logic.forgetting import HOURS_AT_ONCE, after_forgetting, reports_from, reports_of, to_forget
from reconcile.logic.ledger import Category
from reconcile.logic.manifest import Manifest, Plan, Reads
from reconcile.logic.whereabouts import Merged, after, to_merge
from reconcile.progress import OnStep
from reconcile.readers.contract import Reader
from reconcile.report.metrics import render_metrics
from reconcile.report.page import render_page
from reconcile.report.repair_plan import RepairPlan, encode_repair_plan, is_successor, repair_plan
from reconcile.report.summary import MALFORMED_MAX, Summary, decode_summary, encode_summary
from reconcile.report.summing import Rows, summarise
from reconcile.settings import JobSettings
from reconcile.spark.counting import Counting
from reconcile.spark.forgetting import forget
from reconcile.spark.judging import Judging
from reconcile.spark.merging import leftovers, merge
from reconcile.spark.parquet_store import ParquetStore
from reconcile.spark.session import prepare


class RunVerdict(NamedTuple):
    """How a run ended, and its summary. `note_reported` is called once that is out; a run for which it was not is
    reported again by the next one. Raises OSError."""

    summary: Summary
    exit_code: int  # `exits.Exit`
    note_reported: Callable[[], None] = lambda: None


def run(
    settings: JobSettings,
    reader: Reader,
    files: Files,
    spark: SparkSession,
    clock: Clock,
    on_step: OnStep = lambda step: None,
    *,
    reports: bool = False,
) -> RunVerdict:
    """`reports`: the caller reports the result to others, and calls `note_reported` then; else the answer is the
    report. Raises ReconcileError, OSError, and what Spark raises."""
    stages = _Stages(settings, reader, files, ParquetStore(spark, files), clock, on_step)
    carry_out(files, Lock(files, this_process(clock.now_ms())), reader, stages, settings.stalled_after_ms, on_step)
    summary = stages.summary
    verdict = RunVerdict(summary, summary.exit_code, partial(reported.note, files, summary.run))
    if not reports:
        verdict.note_reported()
    return verdict


class _Stages:
    """`runs.Stages` on Spark."""

    summary: Summary
    _rows_read: Mapping[str, int]

    def __init__(
        self, settings: JobSettings, reader: Reader, files: Files, rooms: ParquetStore, clock: Clock, on_step: OnStep
    ) -> None:
        self._settings, self._files, self._rooms, self._clock = settings, files, rooms, clock
        self._counting = Counting(rooms, reader, settings.late_after_ms, on_step)
        self._judging = Judging(rooms, settings.late_after_ms)
        self._read_at_ms = cache(lambda run: read_manifest(files, run).at_ms)
        self._started_s = clock.monotonic_s()

    def marks(self, plan: Plan) -> AuditRead:
        prepare(self._rooms.spark, sum(part.end - part.start for part in plan.audit.values()))
        return self._counting.marks(plan)

    def count(self, plan: Plan, reads: Reads, previous: Manifest | None) -> Counted:
        prepare(self._rooms.spark, reads.rows + sum(read.end - read.start for read in reads.reads))
        counted = self._counting.count(plan, reads, previous)
        self._rows_read = counted.rows
        return counted

    def judge(self, task: Task) -> Judgement:
        return self._judging.judge(task)

    def merge(self, task: Task, judgement: Judgement) -> Merging:
        dropped, first = self._forget(task, judgement)
        where = after_forgetting(task.where, dropped, task.run)
        done = merge(self._rooms, to_merge(where, task.run), task.run)
        gone = [*leftovers([*dropped, *done]), *reports_of(range(task.reports_from, first))]
        return Merging(after(where, done, task.run), gone, first)

    def _forget(self, task: Task, judgement: Judgement) -> tuple[list[Merged], int]:
        """What rows are dropped of, and the first run whose report is kept."""
        if (keep_ms := self._settings.keep_rows_ms) is None:
            return [], task.reports_from
        dropped = list(islice(to_forget(task, judgement, keep_ms, self._read_at_ms), HOURS_AT_ONCE))
        forget(self._rooms, dropped, task.windows, task.run)
        return dropped, reports_from(task, keep_ms, self._read_at_ms)

    def report(self, manifest: Manifest, task: Task, judgement: Judgement) -> Mapping[str, bytes]:
        rows = self._rows(manifest.run, judgement)
        seconds = self._clock.monotonic_s() - self._started_s
        self.summary = summarise(self._settings, manifest, task, judgement, rows, seconds)
        return {
            "report.html": render_page(self.summary),
            "metrics.prom": render_metrics(self.summary),
            "repair-plan.json": encode_repair_plan(self._repair_plan(manifest, judgement)),
            "summary.json": encode_summary(self.summary),
        }

    def _rows(self, run: int, judgement: Judgement) -> Rows:
        malformed, first = self._rooms.rows(f"malformed/run={run}"), []
        if malformed:
            rows = self._rooms.read(MALFORMED, [f"malformed/run={run}"])
            first = rows.orderBy("audit_partition", "audit_offset").limit(MALFORMED_MAX).collect()
        return Rows(
            findings=self._judging.shown.findings,
            findings_total=sum(sum(judged.findings.values()) for judged in judgement.now.values()),
            windows=self._judging.shown.windows,
            windows_judged=sum(judged.windows for judged in judgement.now.values()),
            before=self._summary_before(run),
            is_before_reported=reported.is_reported(self._files, run - 1),
            malformed=[row.asDict() for row in first],
            malformed_total=malformed,
            rows_read=self._rows_read,
        )

    def _summary_before(self, run: int) -> Summary | None:
        """The pictures go on from it, or begin anew without it."""
        try:
            return decode_summary(self._files.read(f"runs/{run - 1}/summary.json") or b"")
        except BadInput:
            return None

    def _repair_plan(self, manifest: Manifest, judgement: Judgement) -> RepairPlan:
        total = sum(judged.findings.get(Category.MISSING, 0) for judged in judgement.now.values())
        missing = self._judging.missing(manifest, judgement)
        moves = self._judging.moves([one for one in missing if is_successor(one)], manifest)
        head = manifest.cluster, manifest.run, manifest.at_ms, manifest.audit
        return repair_plan(*head, missing, total, moves, manifest.partitions)
