"""The summary of a run: one plain structure, of which every file of the report is a function.

Everything in it is bounded: the newest windows of each topic, the first findings, the first malformed audit records,
each with the number that there are. Times are epoch milliseconds UTC. Page: docs/formats/reconcile.md.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby

import msgspec

from reconcile.logic import documents
from reconcile.logic.plan import Cluster

SUMMARY_VERSION = 1

WINDOWS_PER_TOPIC_MAX = 288
"""A day of windows: what the report's picture has room for. The others are in `windows/`."""

FINDINGS_MAX = 200
"""What a reader looks through. The others are in `findings/`."""

MALFORMED_MAX = 20


class State(StrEnum):
    """How far a topic could be judged."""

    JUDGED = "judged"  # every window up to `closed_until_ms`
    STALLED = "stalled"  # some shard has reported for too long nothing that would close a window
    UNBALANCED = "unbalanced"  # its ledger does not add up, and no finding explains it
    UNAUDITABLE = "unauditable"  # judged, but for what has been deleted from the queue
    # set aside, not read any more:
    RECREATED = "recreated"  # deleted and made again: offsets mean other records now
    DELETED = "deleted"  # gone, with messages of unknown outcome
    TRUNCATED = "truncated"  # it ends before what has been read of it


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The ends of the records that carry messages, since the first run.

        accepted + surplus = delivered + cancelled + superseded + expired + dead + duplicate + skipped
                             + pending + missing + unauditable

    `skipped` are places in a log, and messages, that an operator has had passed over. `pending` is what the windows
    that are still open lack. Of closed windows each number is counted by itself, so that the equation holds only
    where all that is lacking or too much has a name. Records of shards' gaps, and from before the first run, are in
    none of them."""

    accepted: int = 0
    delivered: int = 0
    cancelled: int = 0
    superseded: int = 0
    expired: int = 0
    dead: int = 0
    duplicate: int = 0
    skipped: int = 0
    pending: int = 0
    missing: int = 0  # no outcome is known, by the latest judgement of their window
    unauditable: int = 0  # the same, but the data for a verdict has been deleted
    surplus: int = 0  # outcome rows that no record, or only a record with another one, accounts for

    @property
    def ends(self) -> int:
        """Records whose end is known."""
        ends = self.delivered + self.cancelled + self.superseded + self.expired + self.dead + self.duplicate
        return ends + self.skipped

    @property
    def difference(self) -> int:
        """0 where the equation holds; else how many records more are accepted than accounted for."""
        return self.accepted + self.surplus - self.ends - self.pending - self.missing - self.unauditable


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A target topic. `findings` by category: by the latest judgement of all its windows; `fresh`: of those,
    what is in windows that this run has judged, and was not there before: the findings that set the exit code."""

    topic: str
    state: State = State.JUDGED
    reason: str | None = None  # why, where it is not `judged`
    closed_until_ms: int | None = None  # every window that ends here or before is judged; None: none yet
    ledger: Ledger = Ledger()
    findings: dict[str, int] = {}
    fresh: dict[str, int] = {}
    other_records: int = 0  # operations, controls, decisions, rules
    before_start: int = 0  # outcome rows of records from before the first run


class WindowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The latest judgement of five minutes of due time. `lateness[i]`: how many were delivered less than 2^i ms after
    they were due, and not less than 2^(i-1); the last one has no bound."""

    topic: str
    window_ms: int
    version: int = 1
    run: int = 1  # that judged it
    accepted: int = 0
    done: int = 0
    findings: dict[str, int] = {}
    lateness: list[int] = []
    late_max_ms: int | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and where it lies: partition `shard` of the buffer topic `buffer`, at `offset`. Here and below,
    partitions are called as the queue calls them (`Partitions.outward`)."""

    category: str
    topic: str
    shard: int | str
    offset: int
    buffer: str
    id: str | None = None
    due_ms: int | None = None
    accepted_ms: int | None = None  # None: a message whose record was not looked up
    lateness_ms: int | None = None  # of what was delivered; negative where it was early
    detail: str | None = None  # its rows in the audit


class SkippedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator has had passed over: a place in the log (`[first, end)`), or at a takeover all below `end`."""

    topic: str
    shard: int | str
    first: int
    end: int
    at_ms: int
    is_place: bool


class NotJudged(msgspec.Struct, frozen=True, kw_only=True):
    """Something that this run could not judge, and why. `records`: how many at most, where that is known."""

    what: str  # gap, audit_gap, bad_mark, stray, unsettled, or a topic's state
    why: str
    topic: str | None = None
    shard: int | str | None = None
    records: int | None = None


class Malformed(msgspec.Struct, frozen=True, kw_only=True):
    """An audit record that cannot be read."""

    audit_partition: int | str
    audit_offset: int
    why: str
    value: str | None = None  # its beginning


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One run among others. `findings`: what its exit code speaks of; `accepted` and `delivered` by it and no run
    before, None where the summary of the run before could not be read; so many of what was delivered in the windows
    that it has judged were less than `half_ms` and `nearly_all_ms` (99 %) late, None where nothing was."""

    run: int
    at_ms: int
    exit_code: int
    findings: int = 0
    accepted: int | None = None
    delivered: int | None = None
    half_ms: int | None = None
    nearly_all_ms: int | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`at_ms`: when the run looked at the queue. `rows_read` by kind: done, marks, malformed, accepted. `windows` are
    the newest of each topic, whichever run has judged them, `windows_total` all that were ever judged; `findings` are
    those of the `windows_judged` by this run, as is their total. `trend`: the newest runs up to this one; it begins
    anew where the summary of the run before could not be read."""

    cluster: Cluster
    run: int
    at_ms: int
    exit_code: int
    seconds: float
    v: int = SUMMARY_VERSION
    against: str = "audit"
    threshold: int = 0
    late_after_ms: int = 60_000
    stalled_after_ms: int = 3_600_000
    rows_read: dict[str, int] = {}
    topics: list[TopicSummary] = []
    windows: list[WindowSummary] = []
    windows_total: int = 0
    windows_judged: int = 0
    findings: list[Finding] = []
    findings_total: int = 0
    not_judged: list[NotJudged] = []
    skips: list[SkippedSummary] = []
    malformed: list[Malformed] = []
    malformed_total: int = 0
    trend: list[Point] = []
    reports_from: int = 0  # the first run whose new findings are in this exit code; 0: not known


def newest(
    earlier: Iterable[WindowSummary], judged: Iterable[WindowSummary], per_topic: int = WINDOWS_PER_TOPIC_MAX
) -> list[WindowSummary]:
    """The newest windows of each topic, by the latest judgement of each: of this run's, and of those that the
    last run's summary has shown. By topic and time."""
    latest = {(window.topic, window.window_ms): window for window in (*earlier, *judged)}
    ordered = [latest[key] for key in sorted(latest)]
    by_topic = groupby(ordered, lambda window: window.topic)
    return [window for _, windows in by_topic for window in list(windows)[-per_topic:]]


def encode_summary(summary: Summary) -> bytes:
    return documents.encode_for_people(summary)


def decode_summary(data: bytes) -> Summary:
    """Raises BadInput."""
    return documents.decode(data, Summary, "a summary", SUMMARY_VERSION)
