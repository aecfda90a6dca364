"""A queue for tests of the protocol: buffers and an audit as lists in memory, and stages that keep sets of rows in
files.

The audit is written as `("row", topic, shard, offset)` and `("mark", topic, shard, next, low_ms, pending)`; its
offset is its place in the list. Records of a buffer have nothing but their offset and a due time.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from reconcile.directory.files import Files
from reconcile.directory.runs import AuditRead, Merging
from reconcile.logic.advance import Counted, Judgement, Task
from reconcile.logic.ledger import HOUR_MS, WINDOW_MS
from reconcile.logic.manifest import Judged, Manifest, Plan, Reads, Totals
from reconcile.logic.plan import Buffer, Cluster, Held, Mark, Range
from reconcile.logic.whereabouts import CELLS, Whereabouts, after, folder, merged_folder, to_merge

Place = tuple[str, int, int]


class FakeQueue:
    """`buffers[topic][shard]` are due times; a record's offset is its place. What is trimmed stays in the lists."""

    def __init__(self) -> None:
        self.at_ms = 0
        self.buffers: dict[str, dict[int, list[int]]] = {}
        self.topic_ids: dict[str, str] = {}
        self.audit: list[tuple[Any, ...]] = []
        self.audit_topic_id = "audit-1"
        self.audit_trimmed = 0
        self.trimmed: Counter[tuple[str, int]] = Counter()
        self.kept_from: list[Mapping[str, Mapping[int, int]]] = []
        self.name = Cluster("fake", "c1", "delayline")

    def cluster(self) -> Cluster:
        return self.name

    def number_by(self, brokers: Sequence[str]) -> None:
        """Its partitions have numbers."""

    def held(self) -> Held:
        buffers = {
            topic: Buffer(
                self.topic_ids.get(topic, f"{topic}-1"),
                {shard: Range(self.trimmed[topic, shard], len(due)) for shard, due in shards.items()},
            )
            for topic, shards in self.buffers.items()
        }
        return Held(self.at_ms, self.audit_topic_id, {0: Range(self.audit_trimmed, len(self.audit))}, buffers)

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]:
        return {}

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None:
        """All that it holds is old."""
        return 0 if part.start < part.end else None

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None:
        self.kept_from.append(positions)


class FakeStages:
    """A ledger of sets: rows by hour in files, like the real one, and windows judged by comparing them. `step`
    hears of every step, and may end the run there."""

    def __init__(self, queue: FakeQueue, files: Files, step: Callable[[str], None] = lambda name: None) -> None:
        self._queue, self._files, self._step = queue, files, step

    def marks(self, plan: Plan) -> AuditRead:
        self._step("marks")
        marks: dict[str, dict[int, list[Mark]]] = defaultdict(lambda: defaultdict(list))
        for offset, (kind, *fields) in self._audit(plan):
            if kind == "mark":
                topic, shard, after, low_ms, pending = fields
                marks[topic][shard].append(Mark(plan.held.at_ms, after, low_ms, pending, offset))
        return AuditRead(marks, dict.fromkeys(plan.lost, plan.held.at_ms))

    def _audit(self, plan: Plan) -> Iterator[tuple[int, tuple[Any, ...]]]:
        for part in plan.audit.values():
            assert part.start >= self._queue.audit_trimmed
            for offset in range(part.start, part.end):
                yield offset, self._queue.audit[offset]

    def count(self, plan: Plan, reads: Reads, previous: Manifest | None) -> Counted:
        self._step("count")
        ends = {(read.topic, read.shard): read.end for read in reads.reads}
        staged = [placed(*place) for place in self._read(f"stage/run={plan.run - 1}/ahead")]
        staged += [placed(*fields) for _, (kind, *fields) in self._audit(plan) if kind == "row"]
        known = [place for place in staged if place[:2] in ends]
        ahead = [place for place in known if place[2] >= ends[place[:2]]]
        done = [place for place in known if place[2] < ends[place[:2]]]
        accepted = [
            (read.topic, read.shard, offset) for read in reads.reads for offset in range(read.start, read.end)
        ]
        self._write(f"stage/run={plan.run}/ahead", ahead)
        cells: dict[int, list[tuple[str, str, int, int]]] = defaultdict(list)
        for side, places in (("accepted", accepted), ("done", done)):
            for place in places:
                cells[self._due(place) // HOUR_MS].append((side, *place))
        for hour, rows in cells.items():
            self._write(f"{folder(CELLS, plan.run, hour)}/cells", rows)
        touched: dict[str, set[int]] = defaultdict(set)
        for place in (*accepted, *done):
            window = self._due(place) // WINDOW_MS * WINDOW_MS
            if previous and place[0] in previous.topics and window < previous.topics[place[0]].closed_until_ms:
                touched[place[0]].add(window)
        counts = Counter(place[0] for place in accepted)
        outcomes = Counter(place[0] for place in done)
        totals = {
            topic: Totals(accepted=counts[topic], outcomes={"delivered": outcomes[topic]} if outcomes[topic] else {})
            for topic in {*counts, *outcomes}
        }
        return Counted({}, sorted(cells), {name: sorted(some) for name, some in touched.items()}, totals, {}, 0)

    def judge(self, task: Task) -> Judgement:
        self._step("judge")
        now, before = {}, {}
        hours = set()
        for topic, due in task.due.items():
            sides = self._sides(topic, task)
            fresh = [window for window in sides if due.from_ms <= window < due.until_ms]
            now[topic] = self._judged([sides[window] for window in (*fresh, *due.again)])
            before[topic] = self._before(topic, due.again)
            hours |= {window // HOUR_MS for window in (*fresh, *due.again)}
            for window in (*fresh, *due.again):
                self._write(f"windows/run={task.run}/{topic}/{window}", self._judged([sides[window]]))
        return Judgement(now, before, {}, sorted(hours))

    def _sides(self, topic: str, task: Task) -> dict[int, Counter[str]]:
        sides: dict[int, Counter[str]] = defaultdict(Counter)
        where = Whereabouts(task.rows, task.merged)
        for name in where.folders(CELLS, where.hours):
            for side, *place in self._read(f"{name}/cells"):
                if place[0] == topic:
                    sides[self._due(tuple(place)) // WINDOW_MS * WINDOW_MS][side] += 1
        return sides

    @staticmethod
    def _judged(windows: Sequence[Counter[str]]) -> Judged:
        missing = sum(max(window["accepted"] - window["done"], 0) for window in windows)
        return Judged(
            windows=len(windows),
            accepted=sum(window["accepted"] for window in windows),
            done=sum(window["done"] for window in windows),
            findings={"missing": missing} if missing else {},
        )

    def _before(self, topic: str, again: Sequence[int]) -> Judged:
        """The latest version of those windows."""
        total = Judged()
        for window in again:
            versions = [
                (int(run.removeprefix("run=")), data)
                for run in self._files.names("windows")
                if (data := self._files.read(f"windows/{run}/{topic}/{window}"))
            ]
            older = [version for version in versions if self._files.exists(f"manifest-{version[0]}.json")]
            if older:
                total += msgspec.json.decode(max(older)[1], type=Judged)
        return total

    def merge(self, task: Task, judgement: Judgement) -> Merging:
        self._step("merge")
        where = Whereabouts(task.rows, task.merged)
        done = list(to_merge(where, task.run))
        for one in done:
            rows = [row for source in one.sources(CELLS) for row in self._read(f"{source}/cells")]
            self._write(f"{merged_folder(CELLS, task.run, one.hour)}/cells", rows)
        return Merging(after(where, done, task.run), [source for one in done for source in one.sources(CELLS)])

    def report(self, manifest: Manifest, task: Task, judgement: Judgement) -> Mapping[str, bytes]:
        self._step("report")
        judged = {name: topic.judged for name, topic in manifest.topics.items()}
        return {"summary.json": msgspec.json.encode((manifest.run, judged)), "report.html": b"%d" % manifest.run}

    def _due(self, place: tuple[str, int, int]) -> int:
        topic, shard, offset = place
        return self._queue.buffers[topic][shard][offset]

    def _write(self, name: str, what: object) -> None:
        self._files.write(name, msgspec.json.encode(what))

    def _read(self, name: str) -> list[list[Any]]:
        found: list[list[object]] = msgspec.json.decode(self._files.read(name) or b"[]")
        return found


def placed(topic: object, shard: object, offset: object) -> Place:
    assert isinstance(topic, str)
    assert isinstance(shard, int)
    assert isinstance(offset, int)
    return topic, shard, offset
