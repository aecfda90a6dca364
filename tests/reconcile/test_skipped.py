"""What an operator has had skipped ends as that, and nothing that ends later is hidden by it."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reconcile.logic.ledger import HOUR_MS
from tests.reconcile.archive import Row
from tests.reconcile.test_job import MINUTE_MS, Job, topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.spark.job import RunVerdict


@pytest.fixture
def job(spark: "SparkSession", tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


class Story(NamedTuple):
    """The results of two runs, and what the topics held."""

    first: "RunVerdict"
    second: "RunVerdict"
    read: Row
    skipped_at_ms: int


@pytest.fixture(scope="module")
def story(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Each topic has a tale of its own. Of orders a place that cannot be read (1 to 3) was skipped, and at a takeover
    all below 5, of which one had been delivered; of mail, what ends afterwards; of bare, a place without its row."""
    job = Job(spark, tmp_path_factory.mktemp("story"), "orders", "mail", "bare")
    world = job.world
    for _ in range(8):
        world.send("orders", 0, MINUTE_MS)
    world.end(world.buffers["orders", 0][0], done_ms=world.at_ms + MINUTE_MS + 1)
    world.skip("orders", 0, 1, 4)
    world.skip("orders", 0, None, 5)
    read = world.send("mail", 0, 5 * HOUR_MS)
    world.send("mail", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    first = job.run()
    world.skip("mail", 0, None, 1)
    for _ in range(3):
        world.send("bare", 0, MINUTE_MS)
    world.skip("bare", 0, 0, 2, has_row=False)
    skipped_at_ms = world.at_ms
    world.pass_on(5 * HOUR_MS)
    world.end(read, done_ms=read["due_ms"])
    world.pass_on(HOUR_MS)
    return Story(first, job.run(), read, skipped_at_ms)


def test_what_was_skipped_ends_as_that_and_is_no_finding(story: Story) -> None:
    found, again = story.first, story.second
    orders = topic_of(found.summary)
    assert (found.exit_code, orders.findings) == (0, {})
    assert (orders.ledger.accepted, orders.ledger.delivered, orders.ledger.skipped) == (6, 4, 2)
    assert [(skip.first, skip.end, skip.is_place) for skip in found.summary.skips] == [(1, 4, True), (0, 5, False)]
    assert topic_of(again.summary).findings == {}
    assert [skip for skip in again.summary.skips if skip.topic == "orders"] == found.summary.skips


def test_what_ends_after_it_was_skipped_is_found(story: Story) -> None:
    assert found_of(story.second, "mail") == (2, {"ended_after_skip": 1}, [("ended_after_skip", 0, story.read["id"])])


def test_a_place_without_its_row_is_missing_by_its_name(story: Story) -> None:
    name = f"bare.0.0.{story.skipped_at_ms}"
    assert found_of(story.second, "bare") == (2, {"missing": 1}, [("missing", 0, name)])


def found_of(verdict: "RunVerdict", topic: str) -> tuple[int, dict[str, int], list[tuple[str, int, str | None]]]:
    found = [(one.category, one.offset, one.id) for one in verdict.summary.findings if one.topic == topic]
    return verdict.exit_code, topic_of(verdict.summary, topic).findings, found


@pytest.mark.thorough
def test_a_row_that_waits_for_its_record_is_counted_by_the_next_run(job: Job) -> None:
    """Behind the last mark: the run has its row, and has not read so far."""
    world = job.world
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    world.end(world.send("orders", 0, MINUTE_MS), done_ms=world.at_ms + MINUTE_MS)
    world.send("orders", 0, MINUTE_MS)
    world.skip("orders", 0, 2, 3)
    assert job.run().exit_code == 0
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)

    found = job.run()

    orders = topic_of(found.summary)
    assert (found.exit_code, orders.ledger.delivered, orders.ledger.skipped) == (0, 3, 1)


@pytest.mark.thorough
def test_a_row_of_a_skip_that_nobody_has_asked_for_is_an_orphan(job: Job) -> None:
    world = job.world
    for _ in range(3):
        world.send("orders", 0, MINUTE_MS)
    world.skip("orders", 0, 0, 1)
    world.audit = [one for one in world.audit if one[0] != "skips"]
    world.pass_on(HOUR_MS)

    found = job.run()

    assert topic_of(found.summary).findings == {"missing": 1, "orphan": 1}
