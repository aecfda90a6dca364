"""What an operator has had skipped ends as that, and nothing that ends later is hidden by it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconcile.ledger import HOUR_MS
from tests.reconcile.test_job import MINUTE_MS, Job, topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def job(spark: "SparkSession", tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def test_what_was_skipped_ends_as_that_and_is_no_finding(job: Job) -> None:
    """A place that cannot be read (1 to 3), and at a takeover all below 5, of which one had been delivered."""
    world = job.world
    for _ in range(8):
        world.send("orders", 0, MINUTE_MS)
    world.end(world.buffers["orders", 0][0], done_ms=world.at_ms + MINUTE_MS + 1)
    world.skip("orders", 0, 1, 4)
    world.skip("orders", 0, None, 5)
    world.pass_on(HOUR_MS)

    found = job.run()

    orders = topic_of(found.summary)
    assert (found.exit_code, orders.findings) == (0, {})
    assert (orders.ledger.accepted, orders.ledger.delivered, orders.ledger.skipped) == (6, 4, 2)
    assert [(skip.first, skip.end, skip.is_place) for skip in found.summary.skips] == [(1, 4, True), (0, 5, False)]
    assert job.run().summary.skips == found.summary.skips


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


def test_what_ends_after_it_was_skipped_is_found(job: Job) -> None:
    world = job.world
    read = world.send("orders", 0, 5 * HOUR_MS)
    world.send("orders", 0, MINUTE_MS)
    world.pass_on(HOUR_MS)
    job.run()
    world.skip("orders", 0, None, 1)
    world.pass_on(5 * HOUR_MS)
    world.end(read, done_ms=read["due_ms"])
    world.pass_on(HOUR_MS)

    found = job.run()

    assert (found.exit_code, topic_of(found.summary).findings) == (2, {"ended_after_skip": 1})
    assert [(one.category, one.offset, one.id) for one in found.summary.findings] == [
        ("ended_after_skip", 0, read["id"])
    ]


def test_a_place_without_its_row_is_missing_by_its_name(job: Job) -> None:
    world = job.world
    for _ in range(3):
        world.send("orders", 0, MINUTE_MS)
    world.skip("orders", 0, 0, 2, told=False)
    at_ms = world.at_ms
    world.pass_on(HOUR_MS)

    found = job.run()

    assert (found.exit_code, topic_of(found.summary).findings) == (2, {"missing": 1})
    assert found.summary.findings[0].id == f"orders.0.0.{at_ms}"


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
