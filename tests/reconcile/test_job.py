"""The job from end to end on an archive: the results of its runs, one after the other."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from delayline.clock import ManualClock
from reconcile.directory.files import LocalFiles
from reconcile.directory.lock import Holder, Lock
from reconcile.errors import OtherCluster, RunInProgress
from reconcile.logic.ledger import HOUR_MS, WINDOW_MS
from reconcile.logic.plan import Cluster, Range
from reconcile.report.summary import State, Summary, TopicSummary, decode_summary
from tests.reconcile.archive import World, run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.spark.job import RunVerdict

MINUTE_MS = 60_000


class Job:
    """Runs over one world, into one directory."""

    def __init__(self, spark: "SparkSession", folder: Path, *topics: str) -> None:
        self.spark = spark
        self.world = World(folder / "archive", *(topics or ("orders", "mail")))
        self.out = folder / "out"
        self.keep_rows_ms: int | None = None

    def run(self, threshold: int = 0) -> "RunVerdict":
        self.world.write()
        clock = ManualClock(self.world.at_ms)
        verdict = run_here(self.spark, self.world.folder, self.out, clock, threshold, keep_rows_ms=self.keep_rows_ms)
        assert verdict.summary == decode_summary((self.out / "summary.json").read_bytes())
        for topic in verdict.summary.topics:
            assert topic.ledger.difference == 0, topic
        return verdict


@pytest.fixture
def job(spark: "SparkSession", tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def topic_of(summary: Summary, name: str = "orders") -> TopicSummary:
    return next(topic for topic in summary.topics if topic.topic == name)


class Story(NamedTuple):
    """The results of the runs, and the job that they were of."""

    verdicts: list["RunVerdict"]
    job: Job


@pytest.fixture(scope="module")
def story(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Six runs. Each topic has a tale of its own, and each run one cause for its exit code, or two of one code."""
    job = Job(spark, tmp_path_factory.mktemp("story"), "orders", "mail", "quiet")
    world, verdicts = job.world, []

    def run() -> None:
        verdicts.append(job.run())

    world.end(world.send("orders", 0, MINUTE_MS) | {"topic": "deleted"})
    world.pass_on(HOUR_MS)
    run()
    lost, late, other = (world.send("mail", 0, MINUTE_MS) for _ in range(3))
    for row in (lost, late, other):
        world.forget(row)
    world.pass_on(HOUR_MS)
    run()
    world.end(late, done_ms=late["due_ms"])
    world.pass_on(HOUR_MS)
    run()
    for _ in range(2):
        world.end(other, done_ms=other["due_ms"])
    world.pass_on(HOUR_MS)
    run()
    world.forget(world.send("orders", 0, MINUTE_MS))
    place = {"topic": "orders", "shard": 0, "at_ms": world.at_ms}
    world.audit.append(("marks", {**place, "next": 99, "low_ms": world.at_ms, "pending": 0}))
    world.send("quiet", 0, MINUTE_MS)
    world.mark("quiet", 0)
    world.at_ms += 3 * HOUR_MS
    for topic, shard in sorted(world.buffers.keys() - {("quiet", 0)}):
        world.mark(topic, shard)
    run()
    run()
    return Story(verdicts, job)


def test_a_first_run_reports_the_outcomes_that_it_cannot_judge(story: Story) -> None:
    """Their topics may have been deleted long ago."""
    first = story.verdicts[0]
    (reported,) = first.summary.not_judged
    assert (first.exit_code, reported.what, reported.topic, reported.records) == (3, "stray", "deleted", 1)
    assert topic_of(first.summary, "deleted").before_start == 1
    assert [one.summary.not_judged for one in story.verdicts[1:4]] == [[], [], []]


def test_an_archive_states_since_when_the_first_record_of_a_part_waits(story: Story) -> None:
    from reconcile.readers.parquet import ParquetReader

    reader = ParquetReader(story.job.spark, story.job.world.folder, "delayline")
    sent = story.job.world.buffers["mail", 0]
    assert reader.waits_since_ms("mail", 0, Range(1, 99)) == sent[1]["appended_ms"]
    assert reader.waits_since_ms("mail", 0, Range(99, 99)) is None


def test_each_run_stands_beside_those_before_it(story: Story) -> None:
    line = story.verdicts[-1].summary.trend
    assert [(one.run, one.exit_code) for one in line] == [
        (n, verdict.exit_code) for n, verdict in enumerate(story.verdicts, 1)
    ]
    assert [one.findings for one in line[:4]] == [0, 3, 0, 1]
    ledgers = [topic.ledger for topic in story.verdicts[-1].summary.topics]
    assert sum(one.accepted or 0 for one in line) == sum(ledger.accepted for ledger in ledgers)
    assert sum(one.delivered or 0 for one in line) == sum(ledger.delivered for ledger in ledgers)
    assert story.verdicts[1].summary.trend == line[:2]


def test_a_window_that_is_judged_again_reports_only_new_findings(story: Story) -> None:
    lost, reported, doubled = ((one.exit_code, topic_of(one.summary, "mail")) for one in story.verdicts[1:4])
    assert (lost[0], lost[1].fresh) == (2, {"missing": 3})
    assert (reported[0], reported[1].findings) == (0, {"missing": 2})
    assert (doubled[0], doubled[1].fresh) == (2, {"duplicated": 1})
    assert doubled[1].findings == {"duplicated": 1, "missing": 1}


def test_a_bad_mark_sets_its_shard_aside_until_the_next_run(story: Story) -> None:
    bad, good = story.verdicts[4:]
    (reported,) = (one for one in bad.summary.not_judged if one.what == "bad_mark")
    assert (bad.exit_code, reported.topic, reported.shard) == (3, "orders", 0)
    assert "has next 99, and its buffer ends at 2" in reported.why
    assert (good.exit_code, topic_of(good.summary).findings) == (2, {"missing": 1})


def test_a_silent_shard_stalls_its_topic_and_its_messages_are_not_missing(story: Story) -> None:
    stalled = story.verdicts[4]
    quiet = topic_of(stalled.summary, "quiet")
    assert (stalled.exit_code, quiet.state, quiet.findings) == (3, State.STALLED, {})
    assert quiet.ledger.pending == 1
    assert topic_of(stalled.summary, "mail").state == State.JUDGED


def test_the_directory_of_another_cluster_and_one_in_use_are_refused(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = story.job
    Lock(LocalFiles(job.out), Holder("elsewhere", 7, 0, 0)).take()
    with pytest.raises(RunInProgress, match="process 7 on elsewhere"):
        job.run()
    (job.out / "lock").unlink()
    monkeypatch.setattr(job.world, "cluster", Cluster("parquet", "archive-2", "delayline"))
    with pytest.raises(OtherCluster):
        job.run()


@pytest.mark.thorough
def test_three_runs_find_what_is_wrong_in_the_windows_that_have_closed(job: Job) -> None:
    world = job.world
    for minute in range(30):
        world.send("orders", minute % 2, minute * MINUTE_MS)
        world.send("mail", minute % 2, minute * MINUTE_MS)
    lost = world.send("orders", 1, 7 * MINUTE_MS)
    world.forget(lost)
    twice = world.send("mail", 0, MINUTE_MS)
    world.end(twice, done_ms=twice["due_ms"] + 5)
    world.end(twice, done_ms=twice["due_ms"] + 6)
    far = world.send("orders", 0, 5 * HOUR_MS)
    world.reschedule(world.send("orders", 0, 9 * HOUR_MS), 3 * HOUR_MS)
    world.pass_on(HOUR_MS)
    first = job.run()
    assert first.exit_code == 2
    orders, mail = topic_of(first.summary), topic_of(first.summary, "mail")
    assert (orders.findings, mail.findings) == ({"missing": 1}, {"duplicated": 1})
    assert (orders.ledger.accepted, orders.ledger.delivered, orders.ledger.pending) == (34, 30, 2)
    assert (orders.ledger.superseded, orders.ledger.missing, mail.ledger.surplus) == (1, 1, 1)
    assert [(found.category, found.id) for found in first.summary.findings] == [
        ("duplicated", twice["id"]),
        ("missing", lost["id"]),
    ]

    world.pass_on(HOUR_MS)
    second = job.run()
    assert (second.exit_code, second.summary.run) == (0, 2)  # nothing new is wrong
    assert topic_of(second.summary).findings == {"missing": 1}
    shown = {(window.topic, window.window_ms) for window in second.summary.windows}
    assert shown == {(window.topic, window.window_ms) for window in first.summary.windows}  # none is new
    assert second.summary.windows_total == len(shown)

    late = world.send("orders", 1, -100 * MINUTE_MS)  # due in a window that has been judged
    world.pass_on(4 * HOUR_MS)
    third = job.run()
    assert third.exit_code == 2  # late: the window it lies in is judged again
    assert topic_of(third.summary).fresh == {"late": 1}
    assert topic_of(third.summary).findings == {"missing": 1, "late": 1}
    assert topic_of(third.summary).ledger.pending == 0
    again = [window for window in third.summary.windows if window.version == 2]
    assert [window.window_ms for window in again] == [late["due_ms"] // WINDOW_MS * WINDOW_MS]
    assert far["due_ms"] // WINDOW_MS * WINDOW_MS in [window.window_ms for window in third.summary.windows]


@pytest.mark.thorough
def test_a_missing_record_whose_row_comes_after_all_is_not_missing_any_more(job: Job) -> None:
    world = job.world
    slow = world.send("orders", 0, MINUTE_MS)
    world.forget(slow)
    world.pass_on(HOUR_MS)
    assert job.run().exit_code == 2
    world.end(slow, done_ms=slow["due_ms"] + 1)
    world.pass_on(HOUR_MS)
    verdict = job.run()
    assert (verdict.exit_code, topic_of(verdict.summary).findings) == (0, {})
    assert [(window.version, window.run) for window in verdict.summary.windows] == [(2, 2)]


@pytest.mark.thorough
def test_a_run_opens_only_the_hours_it_judges_and_the_last_manifest(job: Job) -> None:
    world = job.world
    for hour in range(6):
        world.send("orders", 0, hour * HOUR_MS + MINUTE_MS)
    world.pass_on(HOUR_MS)
    job.run()
    world.pass_on(HOUR_MS)
    opened = job.out / "cells" / "run=1"
    for folder in opened.iterdir():
        if folder.name != f"hour={(world.at_ms - MINUTE_MS) // HOUR_MS}":
            for file in folder.glob("*.parquet"):
                file.write_bytes(b"whoever opens this fails")
    verdict = job.run()
    assert (verdict.exit_code, verdict.summary.windows_judged) == (0, 1)


@pytest.mark.thorough
def test_offsets_that_are_gone_are_a_gap_and_nothing_in_it_is_missing(job: Job) -> None:
    """A successor that should stand behind it is."""
    world = job.world
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    job.run()
    gone = [world.send("orders", 0, MINUTE_MS) for _ in range(3)]
    moved = world.reschedule(world.send("mail", 1, MINUTE_MS), 2 * MINUTE_MS)
    behind = world.send("mail", 1, 2 * MINUTE_MS)
    world.end(behind, "superseded", successor=behind["id"])
    world.send("orders", 0, 2 * MINUTE_MS)
    world.pass_on(HOUR_MS)
    world.trimmed["orders", 0] = gone[-1]["offset"] + 1
    world.trimmed["mail", 1] = moved["offset"] + 1
    verdict = job.run()
    orders = topic_of(verdict.summary)
    assert (verdict.exit_code, orders.state, orders.findings) == (2, State.UNAUDITABLE, {})
    assert [(one.category, one.id) for one in verdict.summary.findings] == [("missing", behind["id"])]
    assert orders.ledger.accepted == 2
    assert [(one.what, one.topic, one.records) for one in verdict.summary.not_judged] == [
        ("gap", "mail", 2),
        ("gap", "orders", 3),
    ]
    world.pass_on(HOUR_MS)
    assert job.run().exit_code == 0  # it had its alarm


@pytest.mark.thorough
def test_what_the_deleted_part_of_the_audit_may_hold_is_not_missing(job: Job) -> None:
    world = job.world
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    job.run()
    read = len(world.audit)
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    world.audit_trimmed = read + 1  # its outcome row
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    verdict = job.run()
    assert (verdict.exit_code, topic_of(verdict.summary).findings) == (3, {"unauditable": 1})
    assert [one.what for one in verdict.summary.not_judged] == ["audit_gap"]


def test_what_was_cancelled_in_the_deleted_part_of_the_audit_is_not_missing(job: Job) -> None:
    """However late it was due: a repair would deliver it."""
    world = job.world
    cancelled = world.send("orders", 0, 2 * HOUR_MS)
    world.pass_on(MINUTE_MS)
    job.run()
    world.at_ms += MINUTE_MS
    world.end(cancelled, "cancelled", reason="cancelled")
    world.audit_trimmed = len(world.audit)
    world.pass_on(3 * HOUR_MS)
    verdict = job.run()
    assert (verdict.exit_code, topic_of(verdict.summary).findings) == (3, {"unauditable": 1})
    assert b'"messages": []' in (job.out / "repair-plan.json").read_bytes()


@pytest.mark.thorough
def test_the_first_run_begins_with_what_is_held(job: Job) -> None:
    world = job.world
    before = world.send("orders", 0, MINUTE_MS)
    world.reschedule(before, HOUR_MS)
    world.trimmed["orders", 0] = 1
    world.pass_on(2 * HOUR_MS)
    verdict = job.run()
    orders = topic_of(verdict.summary)
    assert (verdict.exit_code, orders.findings, orders.before_start) == (0, {}, 1)
    assert (orders.ledger.accepted, orders.ledger.delivered) == (1, 1)


@pytest.mark.thorough
def test_a_topic_that_was_made_again_is_not_judged_any_more(job: Job) -> None:
    world = job.world
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    job.run()
    world.topic_ids["orders"] = "2"
    world.pass_on(HOUR_MS)
    verdict = job.run()
    assert (verdict.exit_code, topic_of(verdict.summary).state) == (3, State.RECREATED)
    assert topic_of(verdict.summary, "mail").state == State.JUDGED


def test_a_run_that_failed_is_repeated_with_the_same_result_and_findings_up_to_the_threshold_are_tolerated(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconcile.spark import job as module

    world = job.world
    lost = world.send("orders", 0, MINUTE_MS)
    world.forget(lost)
    world.pass_on(HOUR_MS)

    def fail(*given: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(module, "render_page", fail)
        with pytest.raises(OSError, match="the disk is full"):
            job.run()
    assert not (job.out / "manifest-1.json").exists()
    world.pass_on(HOUR_MS)
    world.send("orders", 0, MINUTE_MS)
    verdict = job.run(threshold=1)
    assert (verdict.summary.run, verdict.summary.at_ms) == (1, world.at_ms - HOUR_MS)
    assert topic_of(verdict.summary).findings == {"missing": 1}
    assert (verdict.exit_code, verdict.summary.findings_total) == (0, 1)


@pytest.mark.thorough
def test_outcomes_of_places_that_no_buffer_has_are_orphans(job: Job) -> None:
    """Of a topic, of a shard, and of offsets behind the end of a log and before its beginning."""
    world = job.world
    world.pass_on(HOUR_MS)
    job.run()
    sent = world.send("orders", 0, MINUTE_MS)
    for strange in ({"topic": "nowhere"}, {"shard": 7}, {"offset": 5}, {"offset": -1}):
        world.end({**sent, **strange}, done_ms=sent["due_ms"])
    world.pass_on(HOUR_MS)
    verdict = job.run()
    found = sorted((one.category, one.topic, one.shard, one.offset) for one in verdict.summary.findings)
    places = [("nowhere", 0, 0), ("orders", 0, -1), ("orders", 0, 5), ("orders", 7, 0)]
    assert found == [("orphan", *place) for place in places]
    assert verdict.exit_code == 2
    world.pass_on(HOUR_MS)
    assert job.run().exit_code == 0


@pytest.mark.thorough
def test_a_topic_that_was_made_and_deleted_between_two_runs_is_not_judged_and_has_no_orphans(job: Job) -> None:
    """Its marks show that there was a buffer. What has none is an orphan."""
    world = job.world
    world.pass_on(HOUR_MS)
    job.run()
    world.buffers["brief", 0] = []
    world.send("brief", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    del world.buffers["brief", 0]
    verdict = job.run()
    (reported,) = verdict.summary.not_judged
    assert (reported.what, reported.topic, reported.records) == ("stray", "brief", 1)
    assert "made after the last run and deleted" in reported.why
    assert (verdict.exit_code, verdict.summary.findings_total) == (3, 0)
    assert topic_of(verdict.summary, "brief").before_start == 1
    world.pass_on(HOUR_MS)
    assert job.run().exit_code == 0


@pytest.mark.thorough
def test_a_topic_that_only_the_audit_spoke_of_is_read_once_it_is_there(job: Job) -> None:
    world = job.world
    world.end(world.send("orders", 0, MINUTE_MS) | {"topic": "new"})
    world.pass_on(HOUR_MS)
    job.run()
    world.buffers["new", 0] = []
    world.forget(world.send("new", 0, MINUTE_MS))
    world.pass_on(HOUR_MS)
    verdict = job.run()
    assert topic_of(verdict.summary, "new").findings == {"missing": 1}
