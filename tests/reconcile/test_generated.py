"""Messages with everything in them that can go right or wrong: what is found is what was put there. `make generated`
has a million of them."""

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from delayline.clock import ManualClock
from reconcile.logic.manifest import Manifest, decode
from reconcile.report.repair_plan import RepairPlan, decode_repair_plan
from reconcile.report.summary import Summary
from tests.reconcile.archive import hold_nothing_yet, run_here
from tests.reconcile.faults import FAULTS
from tests.reconcile.generator import Fault, Truth, generate
from tests.reconcile.stories import T
from tests.tiers import THOROUGH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MESSAGES = int(os.environ.get("MESSAGES") or (200_000 if THOROUGH else 16_000))
SHARDS = [("orders", 0), ("orders", 1), ("mails", 0), ("mails", 1)]
BORN = [("orders", 2), ("later", 0), ("later", 1)]
"""Made between the two runs: a shard of a topic that the first one has seen, and a topic."""

BRIEF = ("brief", 0)
"""Made after the first run, and deleted before the second one."""

BRIEF_MESSAGES = 50
EVERY = [*SHARDS, *BORN]
FAULTS_PER_SHARD = 25
TRIMMED = {("mails", 1): MESSAGES // 50, ("later", 1): MESSAGES // 50}
"""What was deleted before a run read it: from before the first run, or since."""

SEED = int(os.environ.get("SEED", "1"))


class Judged(NamedTuple):
    """`brief`: of a topic that no run has seen."""

    truths: list[Truth]
    brief: Truth
    findings: list[Any]
    unsettled: set[tuple[str, int]]
    windows: list[Any]
    summary: Summary
    plan: RepairPlan
    last: Summary


@pytest.fixture(scope="module")
def judged(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """By whole runs: a first one when nothing had been sent yet, one that reads everything, and one when a topic and
    its buffer are gone."""
    folder = tmp_path_factory.mktemp("generated")
    archive, output = folder / "archive", folder / "out"
    truths = [_generated(archive, topic, shard) for topic, shard in EVERY]
    brief = generate(archive, *BRIEF, BRIEF_MESSAGES, faults=0, seed=SEED)
    _delete(archive, "brief")
    held = hold_nothing_yet(archive, {place: TRIMMED.get(place, 0) for place in SHARDS}, T)
    clock = ManualClock(T)
    assert run_here(spark, archive, output, clock).exit_code == 0
    held.unlink()
    summary = run_here(spark, archive, output, clock).summary
    topics = decode((output / "manifest-2.json").read_bytes(), Manifest, "the manifest").topics
    unsettled = {(name, window_ms) for name, topic in topics.items() for window_ms in topic.rejudge}
    findings = spark.read.parquet(str(output / "findings" / "run=2")).collect()
    windows = spark.read.parquet(str(output / "windows" / "run=2")).collect()
    plan = decode_repair_plan((output / "repair-plan.json").read_bytes())
    _delete(archive, "later")
    last = run_here(spark, archive, output, clock).summary
    return Judged(truths, brief, findings, unsettled, windows, summary, plan, last)


def _delete(archive: Path, topic: str) -> None:
    """With its buffer; its rows in the audit stay."""
    for path in (archive / "accepted").glob(f"{topic}-*"):
        path.unlink()


def _generated(folder: Path, topic: str, shard: int) -> Truth:
    trimmed = TRIMMED.get((topic, shard), 0)
    messages = MESSAGES // len(EVERY)
    return generate(folder, topic, shard, messages, faults=FAULTS_PER_SHARD, seed=SEED, trimmed=trimmed)


def test_exactly_what_went_wrong_is_found(judged: Judged) -> None:
    injected = Counter(fault for truth in judged.truths for fault in truth.faults)
    found = Counter(Fault(row.category, row.topic, row.shard, row.offset, row.id) for row in judged.findings)
    assert found - injected == Counter(), f"SEED={SEED}: found, and not injected"
    assert injected - found == Counter(), f"SEED={SEED}: injected, and not found"
    assert len(injected) > FAULTS_PER_SHARD * len(FAULTS) * 3


def test_what_was_made_after_the_last_run_and_trimmed_before_the_next_is_a_gap_and_not_from_before(
    judged: Judged,
) -> None:
    gaps = {(one.topic, one.shard): one.records for one in judged.summary.not_judged if one.what == "gap"}
    assert gaps == {place: count for place, count in TRIMMED.items() if place in BORN}
    before = {topic.topic for topic in judged.summary.topics if topic.before_start}
    assert before == {"brief", *(topic for topic, shard in TRIMMED if (topic, shard) in SHARDS)}


def test_what_a_topic_delivered_that_no_run_has_seen_is_counted_and_not_judged(judged: Judged) -> None:
    strays = {one.topic: one.records for one in judged.summary.not_judged if one.what == "stray"}
    assert strays == {"brief": judged.brief.rows}
    assert judged.brief.rows >= BRIEF_MESSAGES


def test_a_topic_that_is_deleted_is_not_judged_any_more_and_the_others_find_nothing_new(judged: Judged) -> None:
    not_judged = {(one.what, one.topic) for one in judged.last.not_judged if one.what != "unsettled"}
    assert not_judged == {("deleted", "later")}
    assert judged.last.exit_code == 3
    assert [topic.fresh for topic in judged.last.topics] == [{}] * len(judged.last.topics)


def test_windows_with_a_successor_that_may_still_come_are_to_be_judged_again(judged: Judged) -> None:
    expected = set().union(*(truth.unsettled for truth in judged.truths))
    assert judged.unsettled == expected
    assert len(expected) > FAULTS_PER_SHARD


def test_each_window_counts_what_was_found_in_it(judged: Judged) -> None:
    found = Counter((row.topic, row.window_ms, row.category) for row in judged.findings)
    categories = {row.category for row in judged.findings}
    counted = {(row.topic, row.window_ms, name): row[name] for row in judged.windows for name in categories}
    assert Counter({key: count for key, count in counted.items() if count}) == found


def test_the_plan_has_the_due_times_of_those_that_were_to_go_on(judged: Judged) -> None:
    listed = {(one.topic, one.shard, one.offset, one.moves_to_ms) for one in judged.plan.successors}
    assert listed == set().union(*(truth.successors for truth in judged.truths))
    assert len(listed) > FAULTS_PER_SHARD


def test_every_message_is_accounted_for(judged: Judged) -> None:
    def total(*names: str) -> int:
        return sum(row[name] for row in judged.windows for name in names)

    ends = total("delivered", "cancelled", "superseded", "expired", "dead", "duplicate")
    assert total("accepted") == sum(truth.records for truth in judged.truths)
    assert total("accepted", "surplus") - total("others") == ends + total("unanswered", "unanswered_unauditable")
    assert total("done") == sum(truth.rows for truth in judged.truths)
    assert [topic.ledger.difference for topic in judged.summary.topics] == [0] * len(judged.summary.topics)
