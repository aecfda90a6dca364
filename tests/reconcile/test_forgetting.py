"""Rows of an old hour are dropped, and then something comes for it: what its cells still hold is judged as ever, and
what only the rows held is unauditable."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from reconcile.directory.files import LocalFiles
from reconcile.directory.runs import last_manifest
from reconcile.logic.ledger import HOUR_MS, WINDOW_MS
from reconcile.logic.manifest import Manifest
from reconcile.report.repair_plan import decode_repair_plan
from tests.reconcile.archive import START, World
from tests.reconcile.test_job import MINUTE_MS, Job, topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.spark.job import RunVerdict

DAY_MS = 24 * HOUR_MS
HOUR = START // HOUR_MS
NAMES = ("answered", "again", "expired", "carried", "moved", "named")

Row = dict[str, Any]


class Old(NamedTuple):
    """An hour of which run 2 has dropped the rows. Its messages are in windows of their own."""

    job: Job
    sent: dict[str, Row]

    @property
    def manifest(self) -> Manifest:
        found = last_manifest(LocalFiles(self.job.out))
        assert found is not None
        return found

    def rows_of(self, run: int) -> list[str]:
        """Kinds of rows that are there of the hour."""
        stage = self.job.out / "stage" / f"run={run}"
        return sorted(
            folder.relative_to(stage).parts[0]
            for folder in stage.rglob(f"hour={HOUR}")
            if any(folder.glob("*.parquet"))
        )


def fill(world: World) -> dict[str, Row]:
    sent = {name: world.send("orders", 0, n * WINDOW_MS + MINUTE_MS) for n, name in enumerate(NAMES)}
    world.forget(sent["answered"])
    operation: Row = {"kind": "operation", "id": None, "due_ms": None, "asks": "cancelled", "ref": "=mine"}
    sent["operation"] = world.send("orders", 1, 0, **operation)
    world.end(sent["operation"], "unmatched")
    return sent


@pytest.fixture
def old(spark: "SparkSession", tmp_path: Path) -> Old:
    job = Job(spark, tmp_path, "orders")
    job.keep_rows_ms = DAY_MS
    sent = fill(job.world)
    job.world.pass_on(HOUR_MS)
    assert topic_of(job.run().summary).findings == {"missing": 1}
    job.world.pass_on(DAY_MS)
    return Old(job, sent)


def come_late(world: World, sent: dict[str, Row]) -> None:
    """A row that was missing; and what cannot be judged any more, but for the first."""
    near = {name: {"done_ms": row["accepted_ms"] + HOUR_MS // 2} for name, row in sent.items()}
    world.end(sent["answered"], done_ms=sent["answered"]["due_ms"])
    world.end(sent["again"], done_ms=sent["again"]["due_ms"])
    world.end(sent["expired"], "expired", **near["expired"])
    world.end(sent["moved"], "superseded", successor=sent["moved"]["id"], reason="roll", **near["moved"])
    carried = sent["carried"]
    by = {"replaces_due_ms": carried["due_ms"], "replaces_offset": carried["offset"], "id": carried["id"]}
    world.send("orders", 0, MINUTE_MS, **by)
    world.end(world.send("orders", 0, MINUTE_MS), "duplicate", successor=sent["named"]["id"])
    world.end(sent["operation"], "applied", reason="cancelled")


def judged(verdict: "RunVerdict") -> tuple[int, dict[str, int]]:
    return verdict.exit_code, topic_of(verdict.summary).findings


def test_what_comes_late_cancels_out_or_is_unauditable_and_never_a_false_finding(old: Old) -> None:
    world = old.job.world
    assert old.job.run().exit_code == 0
    assert old.manifest.forgotten == {HOUR: [2]}
    assert old.rows_of(1) == ["accepted", "done"]  # until the next run
    come_late(world, old.sent)
    world.pass_on(HOUR_MS)
    third = old.job.run()
    assert old.rows_of(1) == []
    lost = world.send("orders", 0, -DAY_MS)  # into the same hour
    world.forget(lost)
    world.pass_on(HOUR_MS)
    fourth = old.job.run()
    kept = [(old.job.out / name).exists() for name in ("runs/1", "plan-1.json", "runs/2", "manifest-1.json")]
    assert kept == [False, False, True, True]

    places = sorted((one.shard, one.offset) for one in third.summary.findings)
    sent = old.sent
    doubted = [sent[name]["offset"] for name in ("again", "expired", "carried", "moved", "moved")]
    duplicate = max(row["offset"] for row in world.buffers["orders", 0][:-1])
    assert judged(third) == (3, {"unauditable": len(places)})
    assert places == sorted([*((0, offset) for offset in (*doubted, duplicate)), (1, 0), (1, 0)])
    assert all("not kept any more" in (one.detail or "") for one in third.summary.findings if one.shard == 0)
    assert judged(fourth) == (2, {"unauditable": len(places), "missing": 1})
    plan = decode_repair_plan((old.job.out / "repair-plan.json").read_bytes())
    assert [one.id for one in plan.messages] == [lost["id"]]
    assert plan.successors == []


@pytest.mark.thorough
def test_a_run_that_fails_before_its_manifest_drops_nothing_and_is_repeated(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconcile.spark import job as module

    def fail(*given: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(module, "render_page", fail)
        with pytest.raises(OSError, match="the disk is full"):
            old.job.run()
    assert old.manifest.forgotten == {}
    assert old.rows_of(1) == ["accepted", "done"]
    assert old.job.run().exit_code == 0
    assert old.manifest.forgotten == {HOUR: [2]}


@pytest.mark.thorough
def test_what_is_not_old_or_not_settled_or_kept_for_ever_is_not_dropped(old: Old) -> None:
    world = old.job.world
    old.job.keep_rows_ms = None
    old.job.run()
    assert old.manifest.forgotten == {}
    old.job.keep_rows_ms = 2 * DAY_MS
    old.job.run()
    assert old.manifest.forgotten == {}
    old.job.keep_rows_ms = DAY_MS
    world.end(old.sent["answered"], done_ms=old.sent["answered"]["due_ms"])
    world.pass_on(HOUR_MS)
    old.job.run()  # has judged a window of that hour again
    assert old.manifest.forgotten == {}
    world.pass_on(DAY_MS + HOUR_MS)
    old.job.run()
    assert HOUR in old.manifest.forgotten
