"""What a run has read and counted, for the next one: `plan-<run>.json`, `reads-<run>.json`, `manifest-<run>.json`.

A manifest grows with the shards and, by a few bytes each, with the hours that ever had rows: nothing in it grows
with the records.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from reconcile.logic import documents
from reconcile.logic.partitions import Partitions
from reconcile.logic.plan import FORMAT_VERSION, Cluster, Held, Mark, Range, Read, Skip, Unreadable


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run reads of the audit, decided before it reads anything. `lost`: audit records that no run has read
    and that are gone. `aside` by topic: why it is not read nor judged any more."""

    v: int = FORMAT_VERSION
    run: int
    cluster: Cluster
    held: Held
    audit: dict[int, Range] = {}
    lost: dict[int, Range] = {}
    aside: dict[str, str] = {}


class Marks(msgspec.Struct, frozen=True):
    """A shard's last low-water mark and the one before it; None where there is none."""

    last: Mark | None = None
    before: Mark | None = None


class Distrusted(msgspec.Struct, frozen=True):
    """A mark that is behind the end of its buffer (`end`), or has no numbers (-1), and the other marks of its shard,
    which the next run believes."""

    bad: Mark
    end: int
    later: Marks = Marks()


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """What a run reads of the buffers, decided from the marks in its part of the audit. `aside`: topics that
    turned out not to be readable, beside the plan's; `distrusted`, by topic: shards with a mark that cannot be
    true, of which this run reads and believes nothing new; `audit_first_ms` by partition of `Plan.lost`: when the
    first record behind the loss was written. `unreadable`: what may hold outcomes, and cannot be read;
    `malformed`: how many records cannot; `rows`: how many outcome rows the others have. `vanished`: topics that have
    marks there, and no buffer: they were made and deleted since the last run."""

    v: int = FORMAT_VERSION
    run: int
    reads: list[Read] = []
    marks: dict[str, dict[int, Marks]] = {}
    aside: dict[str, str] = {}
    distrusted: dict[str, dict[int, Distrusted]] = {}
    audit_first_ms: dict[int, int] = {}
    unreadable: list[Unreadable] = []
    malformed: int = 0
    rows: int = 0
    vanished: list[str] = []


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """`start`: the first offset ever read; `position`: the one to be read next; `rules`: in force there. `lost`:
    offsets in between that were gone before they were read; `lost_until_ms`: nothing appended later is among
    them. `skips`: all that an operator has ever had passed over. An outcome of a record from `untold_from` on and
    below `untold_below` may be in an audit record that could not be read."""

    start: int
    position: int
    marks: Marks = Marks()
    rules: str | None = None
    lost: list[Range] = []
    lost_until_ms: int = 0
    skips: list[Skip] = []
    untold_from: int = 0
    untold_below: int = 0


class AuditGap(msgspec.Struct, frozen=True):
    """Audit records that were gone before they were read. The outcome of a record that was appended before `until_ms`
    may have been there. `partitions`: how many the audit had all the while, on RocketMQ on the same broker; 0 where
    that is not known: it may have got more since then, and shards may have had their rows elsewhere."""

    partition: int
    lost: Range
    until_ms: int
    run: int
    partitions: int = 0

    def may_hold_outcomes_of(self, topic: str, shard: int, partitions: Partitions) -> bool:
        return not self.partitions or partitions.audit_partition(topic, shard, self.partitions) == self.partition


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a topic since the first run. `accepted` and `outcomes` are of messages, `others` of operations,
    controls, decisions and rules; `before_start` and `in_gaps` outcome rows of records that were never read."""

    accepted: int = 0
    others: int = 0
    outcomes: dict[str, int] = {}
    before_start: int = 0
    in_gaps: int = 0

    def __add__(self, more: "Totals") -> "Totals":
        return Totals(
            accepted=self.accepted + more.accepted,
            others=self.others + more.others,
            outcomes=added(self.outcomes, more.outcomes),
            before_start=self.before_start + more.before_start,
            in_gaps=self.in_gaps + more.in_gaps,
        )


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of the latest judgements of a topic's judged windows. `accepted`, `done`: messages and
    outcome rows of messages; the others as in `judge.WINDOWS`."""

    windows: int = 0
    accepted: int = 0
    done: int = 0
    unanswered: int = 0
    unanswered_unauditable: int = 0
    unanswered_skipped: int = 0
    surplus: int = 0
    findings: dict[str, int] = {}

    def __add__(self, more: "Judged") -> "Judged":
        return self._sum(more, 1)

    def __sub__(self, less: "Judged") -> "Judged":
        return self._sum(less, -1)

    def _sum(self, other: "Judged", sign: int) -> "Judged":
        numbers = {name: getattr(self, name) + sign * getattr(other, name) for name in _NUMBERS}
        signed = {name: sign * count for name, count in other.findings.items()}
        return Judged(findings=added(self.findings, signed), **numbers)


_NUMBERS = tuple(name for name in Judged.__struct_fields__ if name != "findings")


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """`topic_id` is empty where only the audit speaks of it. `closed_until_ms`: every window that ends there or
    before has been judged; it never goes back. `rejudge`: windows below that are to be judged again. `aside`: why the
    topic is not read any more."""

    topic_id: str
    shards: dict[int, Shard] = {}
    closed_until_ms: int = 0
    rejudge: list[int] = []
    aside: str | None = None
    totals: Totals = Totals()
    judged: Judged = Judged()


Spans = list[tuple[int, int]]
"""Run numbers, `[first, last]`: an hour that every run adds to stays one pair."""


class Merge(NamedTuple):
    """A folder of merged rows of an hour (whereabouts.py), and how often its rows were merged, at most."""

    run: int
    level: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Its existence makes a run true. `audit`: the offset to be read next, by partition. By hour since the epoch:
    `rows`, the runs that have rows and cells there, but for what is `merged`; `windows`, those that have judged
    windows there; `unpaired`, `moved`, those that have such rows (pairing.py); `forgotten`, those that have dropped
    rows there (forgetting.py). `reports_from`: the first run whose report, plan and reads are kept. `leftovers`: what
    no run reads any more; the next run removes it. `brokers`: those by which partitions are numbered
    (`logic.partitions`). `written`: how many rows this run has written into each of its folders, without those that
    got none; a reader of a folder must get as many (parquet_store.py)."""

    v: int = FORMAT_VERSION
    run: int
    cluster: Cluster
    at_ms: int
    audit_topic_id: str
    brokers: list[str] = []
    audit: dict[int, int] = {}
    audit_gaps: list[AuditGap] = []
    topics: dict[str, Topic] = {}
    rows: dict[int, Spans] = {}
    merged: dict[int, list[Merge]] = {}
    windows: dict[int, Spans] = {}
    unpaired: dict[int, Spans] = {}
    moved: dict[int, Spans] = {}
    forgotten: dict[int, list[int]] = {}
    reports_from: int = 1
    leftovers: list[str] = []
    written: dict[str, int]

    @property
    def partitions(self) -> Partitions:
        return Partitions(tuple(self.brokers))


def added(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    """Sums by name; names that come to nothing are left out."""
    names = sorted({*counts, *more})
    sums = {name: counts.get(name, 0) + more.get(name, 0) for name in names}
    return {name: count for name, count in sums.items() if count}


def with_run(hours: dict[int, Spans], touched: Iterable[int], run: int) -> dict[int, Spans]:
    """The same map, with `run`, which is the highest, in each of the hours touched."""
    return dict(sorted((hours | {hour: _extended(hours.get(hour, []), run) for hour in touched}).items()))


def _extended(spans: Spans, run: int) -> Spans:
    if spans and spans[-1][1] == run - 1:
        return [*spans[:-1], (spans[-1][0], run)]
    return [*spans, (run, run)]


def runs_in(spans: Spans) -> list[int]:
    return [run for first, last in spans for run in range(first, last + 1)]


Document = TypeVar("Document", Plan, Reads, Manifest)


def encode(document: Plan | Reads | Manifest) -> bytes:
    return msgspec.json.encode(document)


def decode(data: bytes, kind: type[Document], name: str) -> Document:
    """Raises BadInput: no file of ours, or one of another version."""
    return documents.decode(data, kind, name, FORMAT_VERSION)
