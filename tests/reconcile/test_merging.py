"""What many runs have written for an hour far ahead lies in few folders when it is judged, and is judged as it was
written."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconcile.directory.files import LocalFiles
from reconcile.directory.runs import last_manifest
from reconcile.logic.ledger import HOUR_MS
from tests.reconcile.archive import START
from tests.reconcile.test_job import MINUTE_MS, Job, topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.thorough
def test_merged_rows_are_judged_like_others(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconcile.logic.whereabouts.MERGE_AT", 2)
    job = Job(spark, tmp_path)
    world, far = job.world, 30 * HOUR_MS
    twice, lost = world.send("orders", 0, far), world.send("orders", 1, far + MINUTE_MS)
    gone = world.reschedule(world.send("orders", 0, far), far + 2 * MINUTE_MS)
    folders = []
    for _ in range(6):
        world.send("orders", 0, far - (world.at_ms - START))
        world.pass_on(MINUTE_MS)
        assert job.run().exit_code == 0
        manifest = last_manifest(LocalFiles(job.out))
        assert manifest is not None
        folders.append(manifest.merged)
    assert any(folders)
    assert len(list((job.out / "cells").rglob("hour=*"))) < 12
    for row in (lost, gone):
        world.forget(row)
    world.pass_on(far + HOUR_MS)
    world.end(twice)

    last = job.run()

    assert topic_of(last.summary).findings == {"missing": 2, "duplicated": 1, "late": 1}
    assert {(one.category, one.id) for one in last.summary.findings if one.category != "late"} == {
        ("missing", lost["id"]),
        ("missing", gone["id"]),
        ("duplicated", twice["id"]),
    }
    assert topic_of(last.summary).ledger.difference == 0
