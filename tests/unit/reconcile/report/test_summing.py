"""The summary of a run, and how it ends."""

import msgspec
import pytest
from msgspec.structs import replace

from reconcile.directory.runs import spared
from reconcile.logic.advance import Judgement, Task
from reconcile.logic.closing import Closing, Due, View
from reconcile.logic.ledger import HOUR_MS
from reconcile.logic.manifest import AuditGap, Judged, Manifest, Marks, Shard, Topic, Totals
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.logic.plan import Cluster, Mark, Range
from reconcile.report.repair_plan import decode_repair_plan, encode_repair_plan, repair_plan
from reconcile.report.summary import Finding, NotJudged, State, Summary, TopicSummary
from reconcile.report.summing import Rows, exit_code, ledger_of, outward, summarise
from reconcile.settings import JobSettings

NOW = 1_000 * HOUR_MS
NO_ROWS = Rows([], 0, [], 0, None, True, [], 0, {"accepted": 3})


def judgement(**findings: int) -> Judgement:
    return Judgement({"orders": Judged(windows=1, findings=findings)}, {}, {}, [])


def not_judged(*what: str) -> list[NotJudged]:
    return [NotJudged(what=one, why="because") for one in what]


@pytest.mark.parametrize(
    ("findings", "what", "threshold", "code"),
    [
        ({}, [], 0, 0),
        ({"missing": 1}, [], 0, 2),
        ({"missing": 1, "late": 2}, [], 3, 0),
        ({"missing": 1, "late": 3}, [], 3, 2),
        ({"unauditable": 9}, [], 0, 3),
        ({"unauditable": 9, "missing": 1}, [], 1, 3),
        ({}, ["stalled"], 0, 3),
        ({"missing": 1}, ["gap"], 0, 2),  # what was found beats what could not be judged
        ({}, ["unsettled"], 0, 0),
    ],
)
def test_a_run_ends_with_what_it_has_found(
    findings: dict[str, int], what: list[str], threshold: int, code: int
) -> None:
    assert exit_code({"orders": judgement(**findings).fresh("orders")}, not_judged(*what), threshold) == code


def summary_of(
    topic: Topic, shard: Shard, stalled: bool = False, gaps: tuple[AuditGap, ...] = (), rows: Rows = NO_ROWS
) -> Summary:
    view = View(Range(0, 9), 0, shard.marks)
    closing = Closing(NOW - HOUR_MS, NOW - HOUR_MS, stalled)
    task = Task(
        run=4,
        at_ms=NOW,
        shards={"orders": {0: shard}},
        views={"orders": {0: view}},
        closings={"orders": closing},
        due={"orders": Due(0, closing.until_ms, [], [])},
        audit_gaps=gaps,
        rows={},
        windows={},
    )
    manifest = Manifest(
        run=4,
        cluster=Cluster("kafka", "c1", "ns"),
        at_ms=NOW,
        audit_topic_id="a",
        topics={"orders": topic},
        written={},
    )
    found = Judgement({}, {}, {"orders": [1, 2]} if stalled else {}, [])
    return summarise(JobSettings(output="out"), manifest, task, found, rows, 1.5)


SHARD = Shard(start=0, position=5, marks=Marks(Mark(NOW, 5, 1, 2, 7)))


def test_audit_records_that_cannot_be_read_are_never_a_good_day() -> None:
    malformed = [{"audit_partition": 3, "audit_offset": 77, "why": "no JSON", "value": "?"}]
    rows = NO_ROWS._replace(malformed=malformed, malformed_total=4)
    summary = summary_of(Topic(topic_id="1", closed_until_ms=NOW - HOUR_MS), SHARD, rows=rows)
    assert (summary.exit_code, [(one.what, one.records) for one in summary.not_judged]) == (3, [("unreadable", 4)])
    assert "the first is partition 3, offset 77: no JSON" in summary.not_judged[0].why


def test_a_good_day_has_nothing_that_was_not_judged() -> None:
    summary = summary_of(Topic(topic_id="1", closed_until_ms=NOW - HOUR_MS), SHARD)
    assert (summary.exit_code, summary.not_judged, summary.topics[0].state) == (0, [], State.JUDGED)
    assert (summary.topics[0].closed_until_ms, summary.rows_read) == (NOW - HOUR_MS, {"accepted": 3})


def test_a_stalled_topic_names_the_shard_that_is_furthest_behind() -> None:
    summary = summary_of(Topic(topic_id="1"), SHARD, stalled=True)
    assert [one.what for one in summary.not_judged] == ["stalled", "unsettled"]
    assert (summary.exit_code, summary.topics[0].state) == (3, State.STALLED)
    assert summary.topics[0].reason == (
        "1 shards have something pending and report too little of it; the furthest behind is 0"
    )


@pytest.mark.parametrize(
    ("aside", "state"),
    [
        ("recreated", State.RECREATED),
        ("deleted", State.DELETED),
        ("truncated", State.TRUNCATED),
        ("audit recreated", State.RECREATED),
        ("audit truncated", State.TRUNCATED),
    ],
)
def test_a_topic_that_was_set_aside_shows_the_reason(aside: str, state: State) -> None:
    summary = summary_of(Topic(topic_id="1", aside=aside), SHARD)
    assert (summary.exit_code, summary.topics[0].state) == (3, state)
    assert summary.topics[0].reason
    assert ("audit" in summary.topics[0].reason) is aside.startswith("audit")


@pytest.mark.parametrize(("found_at_ms", "code"), [(NOW, 3), (NOW - HOUR_MS, 0)])
def test_a_gap_has_its_alarm_in_the_run_that_finds_it(found_at_ms: int, code: int) -> None:
    shard = Shard(start=0, position=9, lost=[Range(1, 2), Range(5, 8)], lost_until_ms=found_at_ms)
    summary = summary_of(Topic(topic_id="1"), shard)
    assert summary.exit_code == code
    assert [(one.what, one.shard, one.records) for one in summary.not_judged] == ([("gap", 0, 3)] if code else [])


@pytest.mark.parametrize(("run", "code"), [(4, 3), (3, 0)])
def test_a_gap_of_the_audit_has_its_alarm_in_the_run_that_finds_it(run: int, code: int) -> None:
    summary = summary_of(Topic(topic_id="1"), SHARD, gaps=(AuditGap(0, Range(5, 8), NOW, run),))
    assert (summary.exit_code, [one.what for one in summary.not_judged]) == (code, ["audit_gap"] if code else [])


def test_what_is_pending_is_what_open_windows_lack() -> None:
    totals = Totals(accepted=10, outcomes={"delivered": 5, "cancelled": 1})
    judged = Judged(windows=2, accepted=6, done=5, unanswered=2, surplus=1)
    ledger = ledger_of(totals, judged)
    assert (ledger.pending, ledger.missing, ledger.surplus, ledger.difference) == (3, 2, 1, 0)


@pytest.mark.parametrize(("done", "what"), [(3, "1 messages too few"), (5, "1 messages too many")])
def test_a_ledger_that_does_not_add_up_is_reported_before_all_that_was_found(done: int, what: str) -> None:
    judged = Judged(windows=1, accepted=4, done=done)
    topic = Topic(topic_id="o", totals=Totals(accepted=4, outcomes={"delivered": done}), judged=judged)
    summary = summary_of(topic, SHARD)
    (why,) = [one.why for one in summary.not_judged if one.what == "unbalanced"]
    assert what in why
    assert (summary.topics[0].state, summary.exit_code) == (State.UNBALANCED, 3)
    assert exit_code({"orders": {"missing": 1}}, not_judged("unbalanced"), 0) == 3


def test_what_an_earlier_judgement_had_found_is_no_alarm_again() -> None:
    again = judgement(missing=2, late=1)._replace(known={"orders": {"missing": 2}})
    assert again.fresh("orders") == {"late": 1}
    assert exit_code({"orders": again.fresh("orders")}, [], 0) == 2
    known = again._replace(known={"orders": {"missing": 2, "late": 1}})
    assert exit_code({"orders": known.fresh("orders")}, [], 0) == 0


def test_what_has_come_for_missing_messages_since_is_no_debt() -> None:
    """Their windows wait: shards have something pending with an earlier due time."""
    totals = Totals(accepted=4, outcomes={"delivered": 1, "superseded": 3})
    ledger = ledger_of(totals, Judged(windows=1, accepted=4, done=1, unanswered=3, findings={"missing": 3}))
    assert (ledger.pending, ledger.missing, ledger.difference) == (0, 0, 0)
    some = ledger_of(replace(totals, accepted=5), Judged(windows=1, accepted=5, done=1, unanswered=4))
    assert (some.pending, some.missing, some.difference) == (0, 1, 0)


def _before(**fields: object) -> Summary:
    return msgspec.structs.replace(summary_of(Topic(topic_id="1"), SHARD), run=3, reports_from=3, **fields)


def test_findings_that_the_run_before_could_not_report_are_reported_as_this_ones() -> None:
    before = _before(exit_code=2, topics=[TopicSummary(topic="orders", fresh={"missing": 44})])
    summary = summary_of(Topic(topic_id="1"), SHARD, rows=NO_ROWS._replace(before=before, is_before_reported=False))
    assert (summary.exit_code, summary.topics[0].fresh, summary.reports_from) == (2, {"missing": 44}, 3)


def test_findings_that_were_reported_are_not_reported_again() -> None:
    before = _before(exit_code=2, topics=[TopicSummary(topic="orders", fresh={"missing": 44})])
    summary = summary_of(Topic(topic_id="1"), SHARD, rows=NO_ROWS._replace(before=before))
    assert (summary.exit_code, summary.topics[0].fresh, summary.reports_from) == (0, {}, 4)


def test_a_gap_that_was_not_reported_is_reported_but_not_what_is_known_anew() -> None:
    before = _before(exit_code=3, not_judged=not_judged("gap", "stalled"))
    summary = summary_of(Topic(topic_id="1"), SHARD, rows=NO_ROWS._replace(before=before, is_before_reported=False))
    assert (summary.exit_code, [one.what for one in summary.not_judged]) == (3, ["gap"])


def test_an_unreported_run_whose_summary_is_gone_is_no_good_day() -> None:
    summary = summary_of(Topic(topic_id="1"), SHARD, rows=NO_ROWS._replace(is_before_reported=False))
    assert (summary.exit_code, summary.not_judged[0].what, summary.reports_from) == (3, "unreported", 0)


# --- partitions that have names

TWO = Partitions(("broker-b", "broker-a"))
LOST = Finding(category="missing", topic="orders", shard=1031, offset=5, buffer="b", id="i", due_ms=7)


def test_a_finding_names_partitions_as_the_queue_does() -> None:
    finding = replace(LOST, detail="delivered at 7, audit 1025/17; re-appended at offset 3")
    found = outward(finding, TWO)
    assert (found.shard, found.detail) == (
        "broker-a:7",
        "delivered at 7, audit broker-a:1/17; re-appended at offset 3",
    )
    assert outward(finding, NUMBERS) == finding


def test_a_repair_plan_names_them_too_and_its_records_are_spared() -> None:
    cluster = Cluster("rocketmq", "c1", "ns")
    made = repair_plan(cluster, 1, 0, {0: 3, 1031: 4}, [LOST], 1, partitions=TWO)
    plan = decode_repair_plan(encode_repair_plan(made))
    assert plan.audit == {"broker-b:0": 3, "broker-a:7": 4}
    assert [one.shard for one in plan.messages] == ["broker-a:7"]
    assert spared({"orders": {1031: 9, 7: 9}}, [plan], TWO) == {"orders": {1031: 5, 7: 9}}
