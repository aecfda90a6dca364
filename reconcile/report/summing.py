"""The summary of a run, from what it leaves and what it has judged. Pure: rows come as mappings."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from delayline.names import Names
from reconcile.exits import Exit
from reconcile.logic.advance import Judgement, Task
from reconcile.logic.ledger import SKIPPED, Category
from reconcile.logic.manifest import Distrusted, Judged, Manifest, Topic, Totals, added
from reconcile.logic.partitions import Partitions
from reconcile.logic.planning import AUDIT
from reconcile.report.summary import (
    Finding,
    Ledger,
    Malformed,
    NotJudged,
    SkippedSummary,
    State,
    Summary,
    TopicSummary,
    WindowSummary,
    newest,
)
from reconcile.report.trend import extended, point_of
from reconcile.settings import JobSettings

_STATES = {
    **{
        state.value: state
        for state in (State.UNBALANCED, State.RECREATED, State.DELETED, State.TRUNCATED, State.STALLED)
    },
    "gap": State.UNAUDITABLE,
}
"""Of a topic that could not be judged, by what is wrong; the first that fits."""

_WHY_ASIDE = {
    "recreated": "it has been deleted and made again: its offsets mean other records now; start a new directory",
    "deleted": "it has been deleted, and messages were pending in it",
    "truncated": "it ends before what has been read of it: its brokers have lost records",
}
_WHY_STRAY = "the topic was deleted or made again before the first run, or something else writes into the audit"
_WHY_VANISHED = "the topic was made after the last run and deleted before this one, by its low-water marks"


class Rows(NamedTuple):
    """What the report has room for, and how many there are. `before`: the last run's summary, None where
    there is none that can be read; `is_before_reported`: whether that run's result has been reported; `rows_read` by
    kind."""

    findings: Iterable[Mapping[str, Any]]
    findings_total: int
    windows: Iterable[Mapping[str, Any]]
    windows_judged: int
    before: Summary | None
    is_before_reported: bool
    malformed: Iterable[Mapping[str, Any]]
    malformed_total: int
    rows_read: Mapping[str, int]


def summarise(
    settings: JobSettings, manifest: Manifest, task: Task, judgement: Judgement, rows: Rows, seconds: float
) -> Summary:
    """The whole of a run."""
    unreadable = _unreadable(rows, manifest.partitions)
    not_judged = [*_not_judged(manifest, task, judgement), *unreadable, *_unreported(manifest.run, rows)]
    fresh = {name: added(judgement.fresh(name), _fresh_before(name, rows)) for name in manifest.topics}
    topics = [_topic(name, topic, fresh[name], not_judged) for name, topic in manifest.topics.items()]
    ends_with = exit_code(fresh, not_judged, settings.threshold)
    windows = newest(rows.before.windows if rows.before else [], [_window(row) for row in rows.windows])
    point = point_of(manifest.run, manifest.at_ms, ends_with, topics, windows, rows.before)
    return Summary(
        cluster=manifest.cluster,
        run=manifest.run,
        at_ms=manifest.at_ms,
        exit_code=ends_with,
        seconds=round(seconds, 3),
        threshold=settings.threshold,
        late_after_ms=settings.late_after_ms,
        stalled_after_ms=settings.stalled_after_ms,
        rows_read=dict(rows.rows_read),
        topics=topics,
        windows=windows,
        windows_total=sum(topic.judged.windows for topic in manifest.topics.values()),
        windows_judged=rows.windows_judged,
        findings=[outward(finding_of(row, manifest), manifest.partitions) for row in rows.findings],
        findings_total=rows.findings_total,
        not_judged=not_judged,
        skips=_skips(manifest),
        malformed=[_malformed(row, manifest.partitions) for row in rows.malformed],
        malformed_total=rows.malformed_total,
        trend=extended(rows.before, point),
        reports_from=_reports_from(manifest.run, rows),
    )


def _skips(manifest: Manifest) -> list[SkippedSummary]:
    outward = manifest.partitions.outward
    return [
        SkippedSummary(
            topic=name,
            shard=outward(number),
            first=skip.first,
            end=skip.end,
            at_ms=skip.at_ms,
            is_place=skip.is_place,
        )
        for name, topic in manifest.topics.items()
        for number, shard in topic.shards.items()
        for skip in shard.skips
    ]


def exit_code(fresh: Mapping[str, Mapping[str, int]], not_judged: Iterable[NotJudged], threshold: int) -> Exit:
    """`fresh` by topic and category: what was found in the windows that this run has judged, and was not found
    before. A window that only waits for its next mark is no alarm."""
    not_judged = list(not_judged)
    if any(one.what == State.UNBALANCED for one in not_judged):
        return Exit.CANNOT_JUDGE
    counts = [found for findings in fresh.values() for found in findings.items()]
    if sum(count for name, count in counts if name != Category.UNAUDITABLE) > threshold:
        return Exit.FOUND
    is_unauditable = any(name == Category.UNAUDITABLE for name, _ in counts)
    is_judged = not is_unauditable and all(one.what == "unsettled" for one in not_judged)
    return Exit.CLEAN if is_judged else Exit.CANNOT_JUDGE


def _not_judged(manifest: Manifest, task: Task, judgement: Judgement) -> Iterable[NotJudged]:
    """What is wrong now: losses of this run, not those of earlier ones, which had their alarm."""
    for name, topic in manifest.topics.items():
        if difference := ledger_of(topic.totals, topic.judged).difference:
            yield NotJudged(what=State.UNBALANCED, why=_why_unbalanced(difference), topic=name)
        if topic.aside:
            yield NotJudged(what=topic.aside.removeprefix(AUDIT), why=_why_aside(topic.aside), topic=name)
        elif name in task.closings and task.closings[name].is_stalled:
            yield NotJudged(what="stalled", why=_why_stalled(task, name), topic=name)
        if windows := judgement.unsettled.get(name):
            why = f"{len(windows)} windows wait for low-water marks and are judged again by the next run"
            yield NotJudged(what="unsettled", why=why, topic=name)
    for name, count in task.strays.items():
        why = (
            f"{count} outcome rows are of places that no buffer has; {_WHY_STRAY if task.run == 1 else _WHY_VANISHED}"
        )
        yield NotJudged(what="stray", why=why, topic=name, records=count)
    for name, shards in task.distrusted.items():
        for number, doubt in shards.items():
            shard = task.partitions.outward(number)
            yield NotJudged(what="bad_mark", why=_why_distrusted(doubt), topic=name, shard=shard)
    yield from _gaps(task)
    for gap in task.audit_gaps:
        if gap.run == manifest.run:
            why = (
                f"partition {task.partitions.name(gap.partition)} of the audit was deleted from {gap.lost.start} to "
                f"{gap.lost.end}, unread"
            )
            yield NotJudged(what="audit_gap", why=why)


def _unreadable(rows: Rows, partitions: Partitions) -> Iterable[NotJudged]:
    first = next(iter(rows.malformed), None)
    if first is not None:
        partition, offset = partitions.name(first["audit_partition"]), first["audit_offset"]
        place = f"the first is partition {partition}, offset {offset}: {first['why']}"
        why = f"{rows.malformed_total} audit records cannot be read, and their content is not known; {place}"
        yield NotJudged(what="unreadable", why=why, records=rows.malformed_total)


ONCE = ("gap", "audit_gap", "unreadable", "stray", "bad_mark")
"""What a run reports of its own part of the queue, and no later run again."""


def _unreported(run: int, rows: Rows) -> Iterable[NotJudged]:
    """Of the run before, where it has ended behind its manifest and before its result was out."""
    if rows.is_before_reported:
        return
    if rows.before is None:
        why = f"run {run - 1} has not reported what it found, and its summary cannot be read; findings/ has it"
        yield NotJudged(what="unreported", why=why)
    else:
        yield from (one for one in rows.before.not_judged if one.what in ONCE)


def _reports_from(run: int, rows: Rows) -> int:
    if rows.is_before_reported:
        return run
    return rows.before.reports_from if rows.before else 0


def _fresh_before(topic: str, rows: Rows) -> dict[str, int]:
    known = [] if rows.is_before_reported or rows.before is None else rows.before.topics
    return next((one.fresh for one in known if one.topic == topic), {})


def _gaps(task: Task) -> Iterable[NotJudged]:
    for name, shards in task.shards.items():
        for number, shard in shards.items():
            if shard.lost and shard.lost_until_ms == task.at_ms:
                lost = shard.lost[-1]
                why = f"offsets {lost.start} to {lost.end} were deleted before they were read"
                place, count = task.partitions.outward(number), lost.end - lost.start
                yield NotJudged(what="gap", why=why, topic=name, shard=place, records=count)


def _why_aside(reason: str) -> str:
    audits = reason.removeprefix("audit ")
    return (
        _WHY_ASIDE[reason] if audits == reason else f"the audit is not what it was ({audits}); start a new directory"
    )


def _why_distrusted(doubt: Distrusted) -> str:
    bad = doubt.bad.next
    defect = "has no numbers" if bad < 0 else f"has next {bad}, and its buffer ends at {doubt.end}"
    return f"a low-water mark at offset {doubt.bad.audit_offset} of the audit {defect}; the next run judges the shard"


def _why_unbalanced(difference: int) -> str:
    amount = "few" if difference > 0 else "many"
    return (
        f"its ledger does not add up: {abs(difference)} messages too {amount} have ended, and no finding names them"
    )


def _why_stalled(task: Task, topic: str) -> str:
    silent = [number for number, view in task.views[topic].items() if not view.is_complete]
    behind = min(silent, key=lambda number: task.views[topic][number].watermark_ms(task.at_ms))
    name = task.partitions.name(behind)
    return f"{len(silent)} shards have something pending and report too little of it; the furthest behind is {name}"


def _topic(name: str, topic: Topic, fresh: dict[str, int], not_judged: Iterable[NotJudged]) -> TopicSummary:
    state, reason = _state(name, fresh, not_judged)
    return topic_of(name, topic, state, reason, topic.judged.findings, fresh)


def topic_of(
    name: str, topic: Topic, state: State, reason: str | None, findings: dict[str, int], fresh: dict[str, int]
) -> TopicSummary:
    """The row of a topic, beside what its manifest knows."""
    return TopicSummary(
        topic=name,
        state=state,
        reason=reason,
        closed_until_ms=topic.closed_until_ms or None,
        ledger=ledger_of(topic.totals, topic.judged),
        findings=findings,
        fresh=fresh,
        other_records=topic.totals.others,
        before_start=topic.totals.before_start,
    )


def _state(name: str, fresh: Mapping[str, int], not_judged: Iterable[NotJudged]) -> tuple[State, str | None]:
    reasons = {one.what: one.why for one in not_judged if one.topic == name}
    for what, state in _STATES.items():
        if what in reasons:
            return state, reasons[what]
    if Category.UNAUDITABLE in fresh:
        return (
            State.UNAUDITABLE,
            "the data about some of its records has been deleted, or cannot be read",
        )
    return State.JUDGED, None


def ledger_of(totals: Totals, judged: Judged) -> Ledger:
    """What is pending is what the windows that are still open lack. What has come for messages that were missing, and
    whose windows could not be judged again yet, is taken off those."""
    lacking = totals.accepted - sum(totals.outcomes.values())
    pending = lacking - (judged.accepted - judged.done)
    answered = min(max(-pending, 0), judged.unanswered)
    skipped = totals.outcomes.get(SKIPPED, 0) + judged.unanswered_skipped
    return Ledger(
        accepted=totals.accepted,
        pending=pending + answered,
        missing=judged.unanswered - answered,
        unauditable=judged.unanswered_unauditable,
        surplus=judged.surplus,
        **(totals.outcomes | {SKIPPED: skipped}),
    )


def _window(row: Mapping[str, Any]) -> WindowSummary:
    return WindowSummary(
        findings={category.value: row[category] for category in Category if row[category]},
        **{name: row[name] for name in WindowSummary.__struct_fields__ if name != "findings"},
    )


def _malformed(row: Mapping[str, Any], partitions: Partitions) -> Malformed:
    return Malformed(**{**row, "audit_partition": partitions.outward(row["audit_partition"])})


def outward(finding: Finding, partitions: Partitions) -> Finding:
    """With the queue's own names of partitions, where those are no numbers."""
    if not partitions.brokers or isinstance(finding.shard, str):
        return finding
    detail = finding.detail and _AUDIT_PLACE.sub(lambda found: partitions.name(int(found[0])), finding.detail)
    return replace(finding, shard=partitions.name(finding.shard), detail=detail)


_AUDIT_PLACE = re.compile(r"(?<=, audit )\d+(?=/\d)")
"""A partition of the audit in a detail."""


def finding_of(row: Mapping[str, Any], manifest: Manifest) -> Finding:
    """Of a row by `judge.FINDINGS`; its shard is the ledger's number."""
    buffers = Names(manifest.cluster.namespace)
    known = {name: row[name] for name in Finding.__struct_fields__ if name != "buffer"}
    return Finding(buffer=buffers.buffer(row["topic"]), **known)
