"""Two jobs at once, and a repair while a job runs: nothing is counted twice, sent twice, or lost."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delayline.clock import ManualClock
from delayline.records.message import Key
from reconcile.progress import Step
from tests.acceptance.asking import Ran
from tests.reconcile.archive import run_here
from tests.reconcile.installation import MINUTE_MS, NOW_MS, Installation, delivered
from tests.reconcile.test_job import Job, topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = (
    "looking for low-water marks in the audit",
    *("reading the audit", "reading the buffers", "counting"),
    "judging",
)
DUE_MS = NOW_MS + 1000


@pytest.mark.thorough
@pytest.mark.usefixtures("logging_as_it_was")
def test_while_a_job_runs_another_one_is_refused_at_every_step(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconcile.__main__ import main

    job = Job(spark, tmp_path)
    job.world.forget(job.world.send("orders", 0, MINUTE_MS))
    job.world.pass_on(3 * MINUTE_MS)
    job.world.pass_on(30 * MINUTE_MS)
    job.world.write()
    refused: list[tuple[str, int]] = []
    monkeypatch.chdir(tmp_path)
    arguments = ["--output", str(job.out), "--reader", "parquet", "--input", str(job.world.folder)]

    first = run_here(
        spark,
        job.world.folder,
        job.out,
        ManualClock(job.world.at_ms),
        on_step=lambda step: refused.append((step.doing, main(arguments))),
    )

    assert refused == [(step, 1) for step in STEPS]
    assert (first.exit_code, topic_of(first.summary).findings) == (2, {"missing": 1})
    assert sorted(path.name for path in job.out.glob("manifest-*")) == ["manifest-1.json"]
    second = job.run()
    assert (second.exit_code, topic_of(second.summary).ledger.missing) == (0, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("at", STEPS[::2])
def test_a_repair_while_a_job_runs_sends_each_message_once_and_the_next_run_agrees(
    spark: "SparkSession", tmp_path: Path, at: str
) -> None:
    """Of three messages one was delivered, and the others have no outcome."""
    installation = Installation(spark, tmp_path, *[[(b"delay", b"1s")]] * 3)
    ids = [f"orders.0.{offset}.{DUE_MS}" for offset in range(3)]
    installation.write_audit([delivered(0, ids[0], DUE_MS)], done_ms=DUE_MS + 5, next_offset=3, at_minute=10)
    first = installation.run(11)
    plan = installation.plan()
    repairs: list[Ran] = []

    def repair(step: Step) -> None:
        if step.doing == at:
            repairs.extend(installation.repair(plan) for _ in range(2))

    second = installation.run(12, repair)
    assert (first.exit_code, second.exit_code) == (2, 0)
    assert topic_of(first.summary).findings == topic_of(second.summary).findings == {"missing": 2}
    whats = [[one["what"] for one in json.loads(ran.out)["messages"]] for ran in repairs]
    assert ([ran.code for ran in repairs], whats) == ([0, 0], [["sent again"] * 2, ["has ended"] * 2])
    assert installation.carried_on() == [(Key(DUE_MS, 1), DUE_MS), (Key(DUE_MS, 2), DUE_MS)]

    halfway = installation.run(13)  # the owner has not read what was sent
    assert (halfway.exit_code, topic_of(halfway.summary).ledger.difference) == (0, 0)
    again = [delivered(3, ids[1], DUE_MS), delivered(4, ids[2], DUE_MS)]
    installation.write_audit(again, done_ms=DUE_MS + 9, next_offset=5, at_minute=14)
    last = installation.run(15)
    ledger = topic_of(last.summary).ledger
    assert (last.exit_code, topic_of(last.summary).findings) == (0, {})
    assert (ledger.delivered, ledger.superseded, ledger.missing, ledger.pending, ledger.difference) == (3, 2, 0, 0, 0)
