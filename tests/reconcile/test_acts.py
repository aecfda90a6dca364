"""What operations did, where it is read in parts: no verdict is given before all of it has been read."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconcile.logic.ledger import HOUR_MS
from reconcile.report.repair_plan import decode_repair_plan
from tests.reconcile.archive import Row, World
from tests.reconcile.test_job import MINUTE_MS, Job, topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def job(spark: "SparkSession", tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def operation(world: World, on: Row) -> Row:
    return world.send("orders", 0, 0, kind="operation", id=None, due_ms=None, asks="cancelled", ref=on["id"])


def control(world: World) -> Row:
    return world.send("orders", 0, 0, kind="control", id=None, due_ms=None)


def test_the_halves_of_a_commit_may_be_read_by_two_runs(job: Job) -> None:
    """Transactions of several workers lie across each other: a run may end within one. So does a purge."""
    world = job.world
    cancelled, purged = (world.send("orders", 0, HOUR_MS) for _ in range(2))
    asked, purge = operation(world, cancelled), control(world)
    done_ms = world.at_ms
    world.end(asked, "applied", reason="cancelled", done_ms=done_ms)
    world.end(purged, "cancelled", reason="purged", done_ms=done_ms)
    first = job.run()
    world.end(cancelled, "cancelled", reason="cancelled", done_ms=done_ms)
    world.end(purge, "applied", reason="purged", done_ms=done_ms + 1)
    for _ in range(3):
        world.pass_on(HOUR_MS)

    second = job.run()

    assert (first.summary.findings, second.exit_code, topic_of(second.summary).findings) == ([], 0, {})
    assert topic_of(second.summary).ledger.cancelled == 2


@pytest.mark.thorough
def test_what_never_comes_is_found_when_marks_have_passed_it(job: Job) -> None:
    world = job.world
    delivered, cancelled, purged = (world.send("orders", 0, MINUTE_MS) for _ in range(3))
    asked = operation(world, delivered)
    world.end(asked, "applied", reason="cancelled")
    world.end(cancelled, "cancelled", reason="cancelled", done_ms=world.at_ms + 7)
    world.end(purged, "cancelled", reason="purged", done_ms=world.at_ms + 8)
    world.send("orders", 0, 30 * HOUR_MS)  # something is pending: no mark is the last word
    first = job.run()
    for _ in range(3):
        world.pass_on(HOUR_MS)

    second = job.run()

    assert (first.summary.findings, second.exit_code) == ([], 2)
    assert sorted((found.category, found.offset, found.id) for found in second.summary.findings) == [
        ("confirmed_in_vain", asked["offset"], delivered["id"]),
        ("unasked", cancelled["offset"], cancelled["id"]),
        ("unasked", purged["offset"], purged["id"]),
    ]
    assert job.run().exit_code == 0


@pytest.mark.thorough
def test_where_the_audit_cannot_be_read_the_other_half_may_stand(job: Job) -> None:
    world = job.world
    delivered = world.send("orders", 0, MINUTE_MS)
    asked = operation(world, delivered)
    world.end(asked, "applied", reason="cancelled")
    world.garble()
    for _ in range(3):
        world.pass_on(HOUR_MS)

    found = job.run()

    assert (found.exit_code, topic_of(found.summary).findings) == (3, {"unauditable": 1})


@pytest.mark.thorough
def test_no_verdict_is_given_on_a_commit_of_which_a_part_was_deleted(job: Job) -> None:
    world = job.world
    cancelled = world.send("orders", 0, MINUTE_MS)
    asked = operation(world, cancelled)
    job.run()
    world.at_ms += 1
    world.end(asked, "applied", reason="cancelled")
    world.end(cancelled, "cancelled", reason="cancelled")
    world.audit_trimmed = len(world.audit) - 1
    for _ in range(3):
        world.pass_on(HOUR_MS)

    found = job.run()

    assert (found.exit_code, topic_of(found.summary).findings) == (3, {"unauditable": 1})


def test_what_its_sender_may_not_want_is_in_no_repair_plan(job: Job) -> None:
    """A cancel was confirmed, in vain; or a row speaks of the place, and has another due time."""
    world = job.world
    promised, doubtful, plain = (world.send("orders", 0, MINUTE_MS) for _ in range(3))
    world.end(operation(world, promised), "applied", reason="cancelled")
    for row in (promised, doubtful, plain):
        world.forget(row)
    world.end(doubtful | {"due_ms": doubtful["due_ms"] + 1}, done_ms=doubtful["due_ms"] + 9)
    for _ in range(3):
        world.pass_on(HOUR_MS)

    found = job.run()

    assert topic_of(found.summary).findings == {"missing": 3, "orphan": 1, "confirmed_in_vain": 1}
    plan = decode_repair_plan((job.out / "repair-plan.json").read_bytes())
    assert ([message.id for message in plan.messages], plan.more) == ([plain["id"]], 2)
