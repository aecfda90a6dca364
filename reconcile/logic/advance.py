"""From one manifest to the next. Pure."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from reconcile.logic.closing import Closing, Due, View, close, to_judge
from reconcile.logic.manifest import (
    AuditGap,
    Distrusted,
    Judged,
    Manifest,
    Merge,
    Plan,
    Reads,
    Shard,
    Spans,
    Topic,
    Totals,
    with_run,
)
from reconcile.logic.partitions import Partitions
from reconcile.logic.plan import Range, Unreadable
from reconcile.logic.planning import readable, shards_after, with_untold
from reconcile.logic.whereabouts import Whereabouts

NOTHING = Topic(topic_id="")


class Counted(NamedTuple):
    """Totals of the rows of a run, by topic. `rules`: the last rules records, by shard; `hours`: those
    that got rows; `touched`: windows of rows that lie before where their topic was closed; `rows`: how many were
    counted, by kind; `first_appended_ms`: of the first record of a buffer that was read, None where there is none;
    `strays`: of a first run, outcome rows of places that no buffer has; `unreadable`: what may hold outcomes,
    and cannot be read."""

    rules: Mapping[str, Mapping[int, str]]
    hours: Sequence[int]
    touched: Mapping[str, Sequence[int]]
    totals: Mapping[str, Totals]
    rows: Mapping[str, int]
    first_appended_ms: int | None
    unreadable: Sequence[Unreadable] = ()
    strays: Mapping[str, int] = MappingProxyType({})
    unpaired: Sequence[int] = ()
    moved: Sequence[int] = ()


class Task(NamedTuple):
    """What is to be judged, and what the judgement needs to know. `due` and `closings` by topic; `shards` with
    where they stand behind this run; `audit_gaps`: those of earlier runs too."""

    run: int
    at_ms: int
    shards: Mapping[str, Mapping[int, Shard]]
    views: Mapping[str, Mapping[int, View]]
    closings: Mapping[str, Closing]
    due: Mapping[str, Due]
    audit_gaps: Sequence[AuditGap]
    rows: Mapping[int, Spans]
    windows: Mapping[int, Spans]
    strays: Mapping[str, int] = MappingProxyType({})
    distrusted: Mapping[str, Mapping[int, Distrusted]] = MappingProxyType({})
    unpaired: Mapping[int, Spans] = MappingProxyType({})
    moved: Mapping[int, Spans] = MappingProxyType({})
    merged: Mapping[int, Sequence[Merge]] = MappingProxyType({})
    forgotten: Mapping[int, Sequence[int]] = MappingProxyType({})
    reports_from: int = 1
    partitions: Partitions = Partitions()

    @property
    def where(self) -> Whereabouts:
        """All rows that there are with this run."""
        return Whereabouts(self.rows, self.merged, self.forgotten)


class Judgement(NamedTuple):
    """By topic: the sums over the judged windows, `now` and `before`; `unsettled` windows are judged
    again by the next run. `hours`: those that have judged windows of this run. `written`: by folder, the rows that
    this run has written. `known`: of the findings, those that an earlier judgement of their window had too, by
    category."""

    now: Mapping[str, Judged]
    before: Mapping[str, Judged]
    unsettled: Mapping[str, Sequence[int]]
    hours: Sequence[int]
    written: Mapping[str, int] = MappingProxyType({})
    known: Mapping[str, Mapping[str, int]] = MappingProxyType({})

    def fresh(self, topic: str) -> dict[str, int]:
        """Findings that no earlier judgement had, by category."""
        known = self.known.get(topic, {})
        found = self.now.get(topic, Judged()).findings
        return {name: count - known.get(name, 0) for name, count in found.items() if count > known.get(name, 0)}


def task_of(
    plan: Plan,
    reads: Reads,
    previous: Manifest | None,
    counted: Counted,
    stalled_after_ms: int,
    waits_since: Callable[[str, int, Range], int | None],
) -> Task:
    """What this run judges, from what it has read. `waits_since`: `closing.WaitsSince`, of a topic."""
    shards = with_untold(shards_after(plan, reads, previous, counted.rules), plan, counted.unreadable, reads.marks)
    views = {
        name: {
            number: View(buffer.shards[number], shard.start, reads.marks[name][number])
            for number, shard in shards.get(name, {}).items()
        }
        for name, buffer in readable(plan).items()
        if name not in reads.aside
    }
    views |= {name: {} for name in _strangers(plan, previous, counted)}
    known = {name: _known(previous, name) for name in views}
    at_ms = plan.held.at_ms
    closings = {
        name: close(views[name], known[name].closed_until_ms, at_ms, stalled_after_ms, partial(waits_since, name))
        for name in views
    }
    due = {
        name: to_judge(closing, known[name].closed_until_ms, counted.touched.get(name, ()), known[name].rejudge)
        for name, closing in closings.items()
    }
    gaps = _audit_gaps(plan, reads, previous, counted)
    rows = with_run(previous.rows if previous else {}, counted.hours, plan.run)
    windows = previous.windows if previous else {}
    strays, distrusted = counted.strays, reads.distrusted
    task = Task(plan.run, at_ms, shards, views, closings, due, gaps, rows, windows, strays, distrusted)
    return task._replace(
        unpaired=with_run(previous.unpaired if previous else {}, counted.unpaired, plan.run),
        moved=with_run(previous.moved if previous else {}, counted.moved, plan.run),
        merged=previous.merged if previous else {},
        forgotten=previous.forgotten if previous else {},
        reports_from=previous.reports_from if previous else 1,
        partitions=plan.held.partitions,
    )


def _strangers(plan: Plan, previous: Manifest | None, counted: Counted) -> list[str]:
    """Topics that only the audit speaks of: there is nothing to wait for before they are judged."""
    known = [name for name, topic in previous.topics.items() if not topic.topic_id] if previous else []
    return sorted({*counted.totals, *known} - {*plan.held.buffers})


def _known(previous: Manifest | None, topic: str) -> Topic:
    return previous.topics.get(topic, NOTHING) if previous else NOTHING


def _audit_gaps(plan: Plan, reads: Reads, previous: Manifest | None, counted: Counted) -> list[AuditGap]:
    """Those that were known and those found now. What was lost before the first run matters only where a buffer
    holds older records."""
    is_as_before = previous is not None and previous.audit.keys() == plan.held.audit.keys()
    known = plan.held.audit if is_as_before else {}
    found = [
        AuditGap(
            partition,
            lost,
            reads.audit_first_ms.get(partition, plan.held.at_ms),
            plan.run,
            plan.held.partitions.beside(partition, known),
        )
        for partition, lost in sorted(plan.lost.items())
    ]
    if previous is None:
        first_ms = counted.first_appended_ms
        found = [gap for gap in found if first_ms is not None and first_ms < gap.until_ms]
    return [*(previous.audit_gaps if previous else []), *found]


def manifest_after(
    plan: Plan,
    reads: Reads,
    previous: Manifest | None,
    counted: Counted,
    task: Task,
    judgement: Judgement,
    where: Whereabouts | None = None,
) -> Manifest:
    """What the next run begins with. `where` its rows are, if the task does not have it any more."""
    where = where or task.where
    aside = {**plan.aside, **reads.aside}
    kept = {name: topic for name, topic in previous.topics.items() if name not in task.due} if previous else {}
    unread = {name: buffer.topic_id for name, buffer in plan.held.buffers.items() if name not in task.due}
    topics = {name: Topic(topic_id=topic_id) for name, topic_id in unread.items()} | kept
    topics = {name: replace(topic, aside=aside.get(name)) for name, topic in topics.items()}
    for name in task.due:
        topics[name] = _topic_after(name, plan, previous, counted, task, judgement)
    return Manifest(
        run=plan.run,
        cluster=plan.cluster,
        at_ms=task.at_ms,
        audit_topic_id=previous.audit_topic_id if previous else plan.held.audit_topic_id,
        brokers=plan.held.brokers,
        audit={**(previous.audit if previous else {}), **{part: read.end for part, read in plan.audit.items()}},
        audit_gaps=list(task.audit_gaps),
        topics=dict(sorted(topics.items())),
        rows=dict(where.rows),
        merged={hour: list(merges) for hour, merges in where.merged.items()},
        windows=with_run(previous.windows if previous else {}, judgement.hours, plan.run),
        unpaired=dict(task.unpaired),
        moved=dict(task.moved),
        forgotten={hour: list(runs) for hour, runs in where.forgotten.items()},
        written=dict(judgement.written),
    )


def _topic_after(
    name: str, plan: Plan, previous: Manifest | None, counted: Counted, task: Task, judgement: Judgement
) -> Topic:
    known = _known(previous, name)
    return Topic(
        topic_id=plan.held.buffers[name].topic_id if name in plan.held.buffers else "",
        shards=dict(task.shards.get(name, {})),
        closed_until_ms=task.closings[name].until_ms,
        rejudge=sorted({*task.due[name].later, *judgement.unsettled.get(name, ())}),
        totals=known.totals + counted.totals.get(name, Totals()),
        judged=known.judged - judgement.before.get(name, Judged()) + judgement.now.get(name, Judged()),
    )
