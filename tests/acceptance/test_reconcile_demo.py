"""`make reconcile-demo`, and the command of docs/reconcile.md after it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo.running import variables
from reconcile.report.summary import decode_summary
from tests.acceptance.pages import comes_out, read_page, type_in
from tests.fault.server import ROOT, environment

WITHIN_S = 600
"""A machine with nothing else to do takes a minute, most of it Spark's."""


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "demo.reconcile", str(folder)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(DISPLAY=""), capture_output=True, text=True, timeout=WITHIN_S, check=False
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that a play has left, and its output. Skips without Java, and fails where CI is set."""
    if shutil.which("java") is None:
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up("no Spark: there is no java on the path")
    folder = tmp_path_factory.mktemp("demo") / "data-demo"
    ended = play(folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    return folder, ended.stdout + ended.stderr


@pytest.mark.thorough
def test_the_job_finds_exactly_what_was_done_to_the_queue(played: tuple[Path, str]) -> None:
    folder, printed = played
    summary = decode_summary((folder / "ledger" / "runs" / "1" / "summary.json").read_bytes())
    found: dict[str, int] = {}
    for finding in summary.findings:
        found[finding.category] = found.get(finding.category, 0) + 1
    assert found == {
        "missing": 4,
        "early": 2,
        "duplicated": 1,
        "orphan": 1,
        "delivered_after_cancel": 1,
        "late": 3,
    }
    assert all(topic.ledger.difference == 0 for topic in summary.topics)
    assert all(topic.ledger.pending == 4 for topic in summary.topics)
    assert sum(topic.ledger.accepted for topic in summary.topics) > 3000
    assert "exit code 2" in printed
    lost = [finding for finding in summary.findings if finding.category == "missing"]
    assert all(f"missing: {finding.id} lies in delayline.buffer.orders" in printed for finding in lost)


@pytest.mark.thorough
def test_what_was_missing_is_delivered_after_the_repair_and_the_next_run_reports_it(played: tuple[Path, str]) -> None:
    folder, printed = played
    assert "4 messages sent again" in printed
    summary = decode_summary((folder / "ledger" / "runs" / "2" / "summary.json").read_bytes())
    orders = next(topic for topic in summary.topics if topic.topic == "orders")
    assert "missing" not in orders.findings
    assert orders.fresh["late"] == 4
    assert (orders.ledger.missing, orders.ledger.difference, orders.ledger.pending) == (0, 0, 4)


@pytest.mark.thorough
def test_the_page_for_operators_shows_what_comes_out_behind_it(played: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = played
    page = read_page(ROOT / "docs" / "reconcile.md")
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    steps = [step._replace(command=f"{_exported(tmp_path)}; {step.command}") for step in page.steps]
    outputs = type_in(steps, "", tmp_path, WITHIN_S)
    assert len(outputs) == len(page.steps)
    for step, output in zip(page.steps, outputs, strict=True):
        assert comes_out(step.output, output), f"$ {step.command}\npage: {step.output}\ncame: {output}"


def _exported(folder: Path) -> str:
    return "export " + " ".join(f"{name}={value}" for name, value in variables(folder).items())


def test_a_folder_that_is_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    ended = play(tmp_path)
    assert ended.returncode == 1
    assert "no earlier demo has made it" in ended.stderr
    assert (tmp_path / "mine").exists()
