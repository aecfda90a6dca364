"""One comparison with the target topics: which windows, which rows, and the verdicts on them.

It uses the ledger of an output directory: windows that its last run has closed, and the rows that all runs have
staged. It adds nothing to that ledger; its own findings and report are in `targets/`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delayline.clock import Clock
from delayline.times import format_moment
from reconcile.directory.files import Files
from reconcile.directory.lock import Lock, this_process
from reconcile.directory.runs import check_cluster, last_manifest
from reconcile.errors import CannotJudge
from reconcile.exits import Exit
from reconcile.frames.local_frame import small
from reconcile.frames.numbers import name_of
from reconcile.frames.schemas import ACCEPTED, DONE, FINDINGS
from reconcile.logic.ledger import HOUR_MS, NOT_KEPT, WINDOW_MS, Category
from reconcile.logic.manifest import Manifest, Shard
from reconcile.logic.partitions import Partitions
from reconcile.logic.plan import Held, Range
from reconcile.logic.whereabouts import where_of
from reconcile.progress import OnStep, Step
from reconcile.readers.contract import Reader
from reconcile.report.page import render_page
from reconcile.report.summary import FINDINGS_MAX, NotJudged, State, Summary, TopicSummary, encode_summary
from reconcile.report.summing import finding_of, outward, topic_of
from reconcile.settings import JobSettings
from reconcile.spark import targets
from reconcile.spark.cells import hour as hour_of
from reconcile.spark.job import RunVerdict
from reconcile.spark.parquet_store import ParquetStore

ROOM = "targets"
RETENTION, REFUSED, HIDDEN, FORGOTTEN, NOTHING = "retention", "refused", "hidden", "forgotten", "nothing"
"""What keeps a topic from being compared: what is deleted from it, what it is, what cannot be read of it yet, and
what the ledger has dropped."""


_DUE = r"\.(\d+)(?:~\d+)?$"
"""In an id, when its message was first due."""


class Span(NamedTuple):
    """Windows `[from_ms, until_ms)` of a shard, which is a partition of its topic too."""

    topic: str
    shard: int
    from_ms: int
    until_ms: int


class Compared(NamedTuple):
    """Windows that can be compared, and what cannot."""

    spans: list[Span]
    not_judged: list[NotJudged]


def compare(
    settings: JobSettings,
    reader: Reader,
    files: Files,
    spark: SparkSession,
    clock: Clock,
    stamps_deliveries: bool,
    on_step: OnStep = lambda step: None,
) -> RunVerdict:
    """`stamps_deliveries`: whether a delivered record's time is that of its delivery (`dispatch.timestamp`); without
    it nothing is early or late, and topics are read from their beginning. Raises ReconcileError, OSError."""
    started_s, at_ms = clock.monotonic_s(), clock.now_ms()
    lock = Lock(files, this_process(at_ms))
    lock.take()
    try:
        manifest = last_manifest(files)
        if manifest is None:
            raise CannotJudge("there is no ledger in this directory yet: run once without --against targets")
        check_cluster(reader.cluster(), manifest)
        reader.number_by(manifest.brokers)
        compared = _readable(reader, _windows(reader, manifest, at_ms - settings.since_ms), manifest.partitions)
        on_step(Step("comparing with the target topics"))
        rooms = ParquetStore(spark, files)
        found = _Comparison(rooms, reader, manifest, compared.spans).found(settings, stamps_deliveries)
        rooms.write(found, f"{ROOM}/findings")
        seconds = clock.monotonic_s() - started_s
        summary = _summary(settings, manifest, compared, rooms.read(FINDINGS, [f"{ROOM}/findings"]), at_ms, seconds)
        for name, data in _report(summary).items():
            files.write(f"{ROOM}/{name}", data)
        return RunVerdict(summary, summary.exit_code)
    finally:
        lock.release()


def _windows(reader: Reader, manifest: Manifest, since_ms: int) -> Compared:
    spans, not_judged = [], []
    if (kept_ms := _kept_from_ms(manifest)) > since_ms:
        why = f"the ledger has dropped rows of what was due before {format_moment(kept_ms)}"
        not_judged.append(NotJudged(what=FORGOTTEN, why=why))
        since_ms = kept_ms
    for name, topic in manifest.topics.items():
        if not topic.topic_id:
            continue  # only the audit speaks of it
        if topic.aside:
            not_judged.append(NotJudged(what=topic.aside, why="the ledger has set it aside", topic=name))
            continue
        try:
            held_ms = reader.kept_since_ms(name)
        except CannotJudge as error:
            not_judged.append(NotJudged(what=REFUSED, why=str(error), topic=name))
            continue
        from_ms = {shard: _window_after(max(since_ms, held_ms.get(shard, 0))) for shard in topic.shards}
        lacking = [shard for shard in sorted(held_ms.keys() & from_ms.keys()) if held_ms[shard] > since_ms]
        if any(hour * HOUR_MS < from_ms[shard] for shard in lacking for hour in where_of(manifest).hours):
            gone = _gone({manifest.partitions.name(shard): held_ms[shard] for shard in lacking})
            not_judged.append(NotJudged(what=RETENTION, why=gone, topic=name))
        until_ms = topic.closed_until_ms
        spans += [Span(name, shard, start_ms, until_ms) for shard, start_ms in from_ms.items() if start_ms < until_ms]
    if not spans:  # "0 findings" of nothing would pass for a clean topic
        why = "the ledger has closed no window that begins within --since: nothing was compared"
        not_judged.append(NotJudged(what=NOTHING, why=why))
    return Compared(spans, not_judged)


def _readable(reader: Reader, compared: Compared, partitions: Partitions) -> Compared:
    """Without shards of which deliveries are hidden: their messages would be missing."""
    hidden = reader.hidden({span.topic for span in compared.spans})
    spans = [span for span in compared.spans if span.shard not in hidden.get(span.topic, ())]
    not_judged = [
        NotJudged(what=HIDDEN, why=_behind(map(partitions.name, hidden[topic])), topic=topic)
        for topic in sorted(hidden)
    ]
    return Compared(spans, compared.not_judged + not_judged)


def _behind(partitions: Iterable[str]) -> str:
    return f"an open transaction hides what was delivered into partition {', '.join(partitions)}"


def _kept_from_ms(manifest: Manifest) -> int:
    """All rows of what was due from then on are there."""
    return max((hour + 1 for hour in manifest.forgotten), default=0) * HOUR_MS


def _window_after(moment_ms: int) -> int:
    """The first window that does not begin before."""
    return -(-moment_ms // WINDOW_MS) * WINDOW_MS


def _gone(held_ms: Mapping[str, int]) -> str:
    parts = (f"partition {name} before {format_moment(at_ms)}" for name, at_ms in held_ms.items())
    return f"what was delivered into {', '.join(parts)} may be gone from it"


class _Comparison:
    """The rows behind these windows."""

    def __init__(self, rooms: ParquetStore, reader: Reader, manifest: Manifest, spans: list[Span]) -> None:
        self._rooms, self._reader, self._manifest = rooms, reader, manifest
        self._spans = spans

    def found(self, settings: JobSettings, stamps_deliveries: bool) -> DataFrame:
        """By `judge.FINDINGS`."""
        spark = self._rooms.spark
        if not self._spans:
            return small(spark, [], FINDINGS)
        first_ms = min(span.from_ms for span in self._spans)
        accepted, done = self._staged(ACCEPTED, "accepted"), self._staged(DONE, "done")
        # An hour more: what was delivered too early is seen, and clocks may differ.
        since_ms = first_ms - HOUR_MS if stamps_deliveries else 0
        delivered = self._reader.delivered(spark, sorted({span.topic for span in self._spans}), since_ms)
        # After `delivered`: whatever that sees was accepted by now.
        unread = _unread(self._manifest, self._reader.held())
        late_after_ms = settings.late_after_ms if stamps_deliveries else None
        run, partitions = self._manifest.run, self._manifest.partitions
        verdicts = targets.verdicts(accepted, done, delivered, run, late_after_ms, partitions)
        return self._without_others(self._compared(verdicts), unread)

    def _staged(self, schema: StructType, kind: str) -> DataFrame:
        where = where_of(self._manifest)
        hours = [hour for hour in where.hours if any(map(_touches(hour), self._spans))]
        rows = self._rooms.read(schema, where.folders(kind, hours))
        spans = small(self._rooms.spark, self._spans, "of string, number int, from_ms long, until_ms long")
        inside = _inside(F.coalesce("due_ms", "accepted_ms")) & (F.col("shard") == F.col("number"))
        return rows.join(F.broadcast(spans), inside, "left_semi")

    def _compared(self, verdicts: DataFrame) -> DataFrame:
        """Those of windows that are compared in any shard: an orphan may name one that there is not."""
        wide: dict[str, tuple[int, int]] = {}
        for topic, _, from_ms, until_ms in self._spans:
            first_ms, last_ms = wide.get(topic, (from_ms, until_ms))
            wide[topic] = min(first_ms, from_ms), max(last_ms, until_ms)
        rows = [(topic, *span) for topic, span in wide.items()]
        spans = small(self._rooms.spark, rows, "of string, from_ms long, until_ms long")
        return verdicts.join(F.broadcast(spans), _inside(F.col("window_ms")), "left_semi")

    def _without_others(self, verdicts: DataFrame, unread: "Sequence[_Unread]") -> DataFrame:
        """Without orphans that were accepted in other windows, or may have been where no run has read."""
        verdicts = verdicts.localCheckpoint()  # worked out once, and read twice
        is_orphan = F.col("category") == Category.ORPHAN.value
        orphans = verdicts.where(is_orphan).select("topic", "id")
        if orphans.isEmpty():
            return verdicts
        where = where_of(self._manifest)
        everywhere = where.folders("accepted", where.hours)
        every = self._rooms.read(ACCEPTED, everywhere).select("topic", "id")
        known = every.join(F.broadcast(orphans), ["topic", "id"], "left_semi").distinct()
        others = verdicts.join(known.withColumn("known", F.lit(True)), ["topic", "id"], "left")
        strange = others.where(~is_orphan | F.col("known").isNull())
        ranges = small(self._rooms.spark, unread, "of string, number int, first long, end long")
        unknown = strange.join(F.broadcast(ranges), is_orphan & _may_be_there(self._manifest.partitions), "left_anti")
        return self._doubted(unknown).select(*FINDINGS.fieldNames())

    def _doubted(self, verdicts: DataFrame) -> DataFrame:
        """With orphans as `unauditable` that were due, by their id, in an hour of which rows were dropped."""
        if not self._manifest.forgotten:
            return verdicts
        hours = [(hour,) for hour in self._manifest.forgotten]
        table = small(self._rooms.spark, hours, "first_hour int").withColumn("is_forgotten", F.lit(True))
        due_ms = F.regexp_extract("id", _DUE, 1).try_cast("long")
        known = verdicts.withColumn("first_hour", hour_of(due_ms)).join(F.broadcast(table), "first_hour", "left")
        is_doubted = (F.col("category") == Category.ORPHAN.value) & F.col("is_forgotten").isNotNull()
        changed = {
            "category": F.when(is_doubted, Category.UNAUDITABLE.value).otherwise(F.col("category")),
            "detail": F.when(is_doubted, F.concat("detail", F.lit(NOT_KEPT))).otherwise(F.col("detail")),
        }
        return known.withColumns(changed)


class _Unread(NamedTuple):
    """Offsets of a buffer that no run has read: the ledger does not know what was accepted there."""

    topic: str
    shard: int
    first: int
    end: int


def _unread(manifest: Manifest, held: Held) -> list[_Unread]:
    """What was before the first run, was deleted before it was read, or has come since the last one."""
    found: list[_Unread] = []
    for name, topic in manifest.topics.items():
        now = held.buffers[name].shards if name in held.buffers else {}
        for number in sorted(topic.shards.keys() | now.keys()):
            shard = topic.shards.get(number, Shard(start=0, position=0))
            new = Range(shard.position, now[number].end) if number in now else Range(0, 0)
            parts = (Range(0, shard.start), *shard.lost, new)
            found += [_Unread(name, number, *part) for part in parts if part.start < part.end]
    return found


def _may_be_there(partitions: Partitions) -> Column:
    """Whether the id is that of a record there. An occurrence is in a later record than the one that its id names."""
    here = (F.col("topic") == F.col("of")) & (F.col("shard") == F.col("number"))
    is_spelled_so = F.col("id").startswith(
        F.concat_ws(".", "topic", name_of(F.col("shard"), partitions), F.col("offset"), F.lit(""))
    )
    is_repeat = F.col("id").contains("~")
    return here & is_spelled_so & (F.col("offset") < F.col("end")) & (is_repeat | (F.col("offset") >= F.col("first")))


def _inside(moment: Column) -> Column:
    return (F.col("topic") == F.col("of")) & (moment >= F.col("from_ms")) & (moment < F.col("until_ms"))


def _touches(hour: int) -> Callable[[Span], bool]:
    return lambda span: span.from_ms < (hour + 1) * HOUR_MS and hour * HOUR_MS < span.until_ms


# --- the report


def _summary(
    settings: JobSettings, manifest: Manifest, compared: Compared, found: DataFrame, at_ms: int, seconds: float
) -> Summary:
    counts: dict[str, dict[str, int]] = {}
    for row in found.groupBy("topic", "category").count().orderBy("topic", "category").collect():
        counts.setdefault(row["topic"], {})[row["category"]] = row["count"]
    total = sum(sum(categories.values()) for categories in counts.values())
    doubted = sum(categories.get(Category.UNAUDITABLE, 0) for categories in counts.values())
    first = found.orderBy("category", "topic", "window_ms", "shard", "offset").limit(FINDINGS_MAX).collect()
    cannot = Exit.CANNOT_JUDGE if compared.not_judged or doubted else Exit.CLEAN
    return Summary(
        cluster=manifest.cluster,
        run=manifest.run,
        at_ms=at_ms,
        exit_code=Exit.FOUND if total - doubted > settings.threshold else cannot,
        seconds=round(seconds, 3),
        against=ROOM,
        reports_from=manifest.run,
        threshold=settings.threshold,
        late_after_ms=settings.late_after_ms,
        stalled_after_ms=settings.stalled_after_ms,
        topics=list(_topics(manifest, counts, compared.not_judged)),
        findings=[outward(finding_of(row.asDict(), manifest), manifest.partitions) for row in first],
        findings_total=total,
        not_judged=compared.not_judged,
    )


def _topics(
    manifest: Manifest, counts: dict[str, dict[str, int]], not_judged: list[NotJudged]
) -> Iterable[TopicSummary]:
    reasons = {one.topic: one.why for one in not_judged}
    for name, topic in manifest.topics.items():
        state, found = State.UNAUDITABLE if name in reasons else State.JUDGED, counts.get(name, {})
        yield topic_of(name, topic, state, reasons.get(name), found, found)


def _report(summary: Summary) -> dict[str, bytes]:
    return {"report.html": render_page(summary), "summary.json": encode_summary(summary)}
