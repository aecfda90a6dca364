"""The protocol of a run: what is written when, so that a run that is killed anywhere is repeated as it was planned.

    lock                    one run at a time
    plan-<run>.json         what is read of the audit
    <room>/run=<run>/       what `Stages` writes; a run that begins, or begins again, clears it first
    reads-<run>.json        what is read of the buffers
    runs/<run>/             the report
    manifest-<run>.json     created whole or not at all, and never replaced: the one commit
    <room>/run=<earlier>/   folders that this run has merged or dropped are removed by the next one
    latest.json             a hint where the last manifest is; one that is missing or old costs a look around
    summary.json, ...       copies of the last run's report; the next run makes them again where they are not its
    reported.json           the last run whose result has been reported (reported.py)

Readers of the directory open only runs that have a manifest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from delayline.process import logs
from reconcile.directory import reported
from reconcile.directory.files import Files
from reconcile.directory.lock import Lock
from reconcile.errors import BadInput, OtherCluster
from reconcile.logic.advance import Counted, Judgement, Task, manifest_after, task_of
from reconcile.logic.ledger import HOUR_MS
from reconcile.logic.manifest import Document, Manifest, Plan, Reads, decode, encode
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.logic.plan import Cluster, Held, Range, Unreadable
from reconcile.logic.planning import MarksRead, SkipsRead, can_be_read, fresh_shards, plan_reads, plan_run
from reconcile.logic.whereabouts import Whereabouts
from reconcile.progress import OnStep, Step
from reconcile.report.repair_plan import LostMessage, LostSuccessor, RepairPlan, decode_repair_plan

ROOMS = ("stage", "cells", "merged", "findings", "windows", "malformed")
"""Folders in which each run has one of its own."""

LATEST = "latest.json"

PLAN_AGAIN = "remove it, and the run is planned anew"
"""Nothing has come of a plan before there is a manifest."""

REPAIRED_WITHIN_MS = 24 * HOUR_MS
"""So long the queue keeps what is missing, for a repair to find it."""

log = logs.get(__name__)


class AuditRead(NamedTuple):
    """Of the planned part of the audit: the last marks of each shard, by partition the time of its first record,
    what operators have had skipped, what may hold outcomes and cannot be read, how many records that cannot, how
    many outcome rows the others have, and which topics have marks and no buffer."""

    marks: MarksRead
    first_ms: Mapping[int, int]
    skips: SkipsRead = MappingProxyType({})
    unreadable: Sequence[Unreadable] = ()
    malformed: int = 0
    rows: int = 0
    vanished: Sequence[str] = ()


class Merging(NamedTuple):
    """`where` all rows are with this run, what is not read any more once it is true, and the first run whose report
    is kept."""

    where: Whereabouts
    leftovers: Sequence[str] = ()
    reports_from: int = 1


class Stages(Protocol):
    """What a run does with rows. Each writes below `<room>/run=<run>/`, and may be done again after a failure."""

    def marks(self, plan: Plan) -> AuditRead:
        """Writes nothing."""

    def count(self, plan: Plan, reads: Reads, previous: Manifest | None) -> Counted:
        """Write the outcome rows of the plan and those that the last run has left over, apart from those that are
        left to the next one; the rows of the buffers; and the cells."""

    def judge(self, task: Task) -> Judgement:
        """Write findings and windows."""

    def merge(self, task: Task, judgement: Judgement) -> Merging:
        """Put small folders of earlier runs together, and drop rows that are not to be kept."""

    def report(self, manifest: Manifest, task: Task, judgement: Judgement) -> Mapping[str, bytes]:
        """What people and monitoring see of the run, by file name."""


class Source(Protocol):
    """The part of a reader (readers/contract.py) that the protocol itself asks."""

    def cluster(self) -> Cluster: ...

    def number_by(self, brokers: Sequence[str]) -> None: ...

    def held(self) -> Held: ...

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]: ...

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None: ...

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None: ...


def carry_out(
    files: Files, lock: Lock, source: Source, stages: Stages, stalled_after_ms: int, on_step: OnStep
) -> Manifest:
    """One run, whole. `on_step` is called with each step. Raises RunInProgress, OtherCluster, and what the steps
    raise."""
    lock.take()
    try:
        previous = last_manifest(files)
        check_cluster(source.cluster(), previous)
        reported.begin(files, previous.run if previous else 0)
        if previous:
            _copy_report(files, previous.run)
            for folder in previous.leftovers:
                files.remove(folder)
        return _Run(files, lock, source, stages, previous).carry_out(stalled_after_ms, on_step)
    finally:
        lock.release()


def last_manifest(files: Files) -> Manifest | None:
    """The last run that is true. Raises BadInput."""
    run = _last_run(files)
    return read_manifest(files, run) if run else None


def read_manifest(files: Files, run: int) -> Manifest:
    """Raises BadInput."""
    name = manifest_name(run)
    return _document(files.read(name), Manifest, name, run, "put it back, or use another --output")


def _document(data: bytes | None, kind: type[Document], name: str, run: int, remedy: str) -> Document:
    """Raises BadInput, which ends with what is to be done."""
    if data is None:
        raise BadInput(f"{name} is not there: {remedy}")
    try:
        document = decode(data, kind, name)
    except BadInput as error:
        raise BadInput(f"{error}: {remedy}") from error
    if document.run != run:
        raise BadInput(f"{name} is of run {document.run}: {remedy}")
    return document


def _last_run(files: Files) -> int:
    """Where the hint cannot be right, the directory is looked through. Raises BadInput: a manifest is gone, and what
    would be read from there on has been read before."""
    hint = _hint(files)
    if hint > 0 and files.exists(manifest_name(hint)) and not files.exists(manifest_name(hint + 1)):
        return hint
    numbers = {_number(name) for name in files.names("") if name.startswith("manifest-")} - {0}
    last = max(numbers, default=0)
    if lacking := sorted(set(range(1, max(last, hint) + 1)) - numbers):
        raise BadInput(f"{manifest_name(lacking[0])} is not there: put it back, or use another --output")
    return last


def _hint(files: Files) -> int:
    """0 where there is none that can be read."""
    try:
        return msgspec.json.decode(files.read(LATEST) or b"", type=int)
    except (ValueError, RecursionError):
        return 0


def _number(name: str) -> int:
    digits = name.removeprefix("manifest-").removesuffix(".json")
    return int(digits) if digits.isdecimal() else 0


def manifest_name(run: int) -> str:
    return f"manifest-{run}.json"


def check_cluster(cluster: Cluster, previous: Manifest | None) -> None:
    """Raises OtherCluster."""
    if previous and previous.cluster != cluster:
        raise OtherCluster(
            f"this directory is the ledger of {_named(previous.cluster)}, and what is to be read is "
            f"{_named(cluster)}: use another --output"
        )


def _named(cluster: Cluster) -> str:
    return f"{cluster.kind} {cluster.id!r}, namespace {cluster.namespace!r}"


def _copy_report(files: Files, run: int) -> None:
    """The report of a run where people look for the last one. `summary.json` goes last: it shows that all are
    there."""
    names = sorted(files.names(f"runs/{run}"), key=lambda name: name == "summary.json")
    documents = {name: files.read(f"runs/{run}/{name}") or b"" for name in names}
    if names and files.read("summary.json") == documents.get("summary.json"):
        return
    for name, data in documents.items():
        files.write(name, data)


class _Run:
    """One run on its way."""

    def __init__(self, files: Files, lock: Lock, source: Source, stages: Stages, previous: Manifest | None) -> None:
        self._files, self._lock, self._source, self._stages = files, lock, source, stages
        self._previous = previous

    def carry_out(self, stalled_after_ms: int, on_step: OnStep) -> Manifest:
        plan = self._plan()
        for room in ROOMS:
            self._files.remove(f"{room}/run={plan.run}")
        on_step(Step("looking for low-water marks in the audit"))
        reads = self._reads(plan)
        counted = self._stages.count(plan, reads, self._previous)
        task = task_of(plan, reads, self._previous, counted, stalled_after_ms, self._source.waits_since_ms)
        on_step(Step("judging"))
        judgement = self._stages.judge(task)
        merged = self._stages.merge(task, judgement)
        after = manifest_after(plan, reads, self._previous, counted, task, judgement, merged.where)
        manifest = replace(after, leftovers=list(merged.leftovers), reports_from=merged.reports_from)
        self._commit(manifest, plan.held, self._stages.report(manifest, task, judgement))
        return manifest

    def _plan(self) -> Plan:
        """The plan of a run that has failed here, where it can still be read; else a new one."""
        run = self._previous.run + 1 if self._previous else 1
        name = f"plan-{run}.json"
        data = self._files.read(name)
        planned = _document(data, Plan, name, run, PLAN_AGAIN) if data else None
        known = planned.held if planned else self._previous
        self._source.number_by(known.brokers if known else ())
        held = self._source.held()
        if planned:
            if can_be_read(planned, held):
                log.info("run_repeated", run=run)
                return planned
            log.warning("plan_given_up", run=run, why="the queue has deleted a part of what it wanted to read")
        self._files.remove(f"reads-{run}.json")  # of another plan
        plan = plan_run(self._source.cluster(), held, self._previous)
        self._files.write(name, encode(plan))
        if self._previous is None:
            starts = {topic: {n: part.start for n, part in of.shards.items()} for topic, of in held.buffers.items()}
            audit = {partition: part.start for partition, part in held.audit.items()}
            self._source.commit(starts, audit, held.at_ms)  # else the service trims what is going to be read
        return plan

    def _reads(self, plan: Plan) -> Reads:
        name = f"reads-{plan.run}.json"
        if data := self._files.read(name):
            return _document(data, Reads, name, plan.run, PLAN_AGAIN)
        scan = self._stages.marks(plan)
        fresh = fresh_shards(plan, self._previous)
        rules = {topic: self._source.rules(topic, shards) for topic, shards in fresh.items()}
        planned = plan_reads(plan, self._previous, scan.marks, rules, scan.first_ms, scan.skips)
        unreadable, vanished = list(scan.unreadable), list(scan.vanished)
        counts = {"malformed": scan.malformed, "rows": scan.rows}
        reads = replace(planned, unreadable=unreadable, vanished=vanished, **counts)
        self._files.write(name, encode(reads))
        return reads

    def _commit(self, manifest: Manifest, held: Held, report: Mapping[str, bytes]) -> None:
        """Raises RunInProgress: another run has taken the lock, or committed this one."""
        run = manifest.run
        plans = list(self._plans(manifest, report))
        for name, data in report.items():
            self._files.write(f"runs/{run}/{name}", data)
        self._files.flush()
        self._lock.check()
        if not self._files.create(manifest_name(run), encode(manifest)):
            self._lock.lose()
        self._files.write(LATEST, msgspec.json.encode(run))
        _copy_report(self._files, run)
        kept = spared(positions(manifest, held), plans, manifest.partitions)
        self._source.commit(kept, manifest.audit, manifest.at_ms)

    def _plans(self, manifest: Manifest, report: Mapping[str, bytes]) -> Iterator[RepairPlan]:
        """Of this run and of those of the day before it. Raises BadInput."""
        if data := report.get("repair-plan.json"):
            yield decode_repair_plan(data)
        for run in range(manifest.run - 1, manifest.reports_from - 1, -1):
            name = f"runs/{run}/repair-plan.json"
            if data := self._files.read(name):
                plan = _repair_plan(data, name)
                if plan.at_ms < manifest.at_ms - REPAIRED_WITHIN_MS:
                    return
                yield plan


def _repair_plan(data: bytes, name: str) -> RepairPlan:
    try:
        return decode_repair_plan(data, name)
    except BadInput as error:
        why = "the queue keeps what it lists; remove it if nothing of that is to be sent again"
        raise BadInput(f"{error}: {why}") from error


def spared(
    read: dict[str, dict[int, int]], plans: Iterable[RepairPlan], partitions: Partitions = NUMBERS
) -> dict[str, dict[int, int]]:
    """How far the queue may forget: not what is missing and may be sent again."""
    for plan in plans:
        listed: list[LostMessage | LostSuccessor] = [*plan.messages, *plan.successors]
        for message in listed:
            shards, number = read.get(message.topic, {}), partitions.number(str(message.shard))
            if number in shards:
                shards[number] = min(shards[number], message.offset)
    return read


def positions(manifest: Manifest, held: Held) -> dict[str, dict[int, int]]:
    """How far the buffers have been read. Of those that are set aside nothing has to be kept."""
    return {
        name: {number: kept.end for number, kept in held.buffers[name].shards.items()}
        if topic.aside
        else {number: shard.position for number, shard in topic.shards.items()}
        for name, topic in manifest.topics.items()
        if name in held.buffers
    }
