"""What a run of the reconcile job costs over a long history: as much as over none."""

import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.reconciling.spark import Measured, spark
from bench.report import Report, Target
from delayline.clock import SystemClock

if TYPE_CHECKING:
    from bench.reconciling.flow import Flow

HISTORY_MESSAGES = 25_000_000
FRESH_MESSAGES = 5_000
ROUNDS = 7
RATIO = 1.3
_T0 = 1_767_225_600_000
_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """B13. About 15 minutes and 4 GB of disk at scale 1."""
    report = Report("B13: a run of the reconcile job behind a long history")
    folder = Path(tempfile.mkdtemp(prefix="bench-reconcile-"))
    try:
        with spark(folder / "spark") as machine:
            _measure(report, machine, folder, max(int(HISTORY_MESSAGES * scale), 10_000))
    finally:
        shutil.rmtree(folder)
    report.notes.append(f"{ROUNDS} rounds in turns after one that warms up, medians of CPU; two rows a message")
    return report


def _measure(report: Report, machine: Measured, folder: Path, history: int) -> None:
    from bench.reconciling.flow import STEP_MS, Flow

    old = Flow(_T0)
    old.go_on(history)
    first = _run(machine, old, folder / "old")
    report.add("history: rows", 2 * history)
    report.add("history: hours", history * STEP_MS / 3_600_000)
    report.add("the run that reads the history: CPU", first, "s")
    behind, alone = [], []
    for i in range(ROUNDS + 1):
        young = Flow(old.at_ms)
        for flow in (old, young):
            flow.go_on(FRESH_MESSAGES)
        behind.append(_run(machine, old, folder / "old"))
        alone.append(_run(machine, young, folder / f"young-{i}"))
    report.add(f"{2 * FRESH_MESSAGES:,} rows more: CPU", median(behind[1:]), "s")
    report.add("as many without a history: CPU", median(alone[1:]), "s")
    report.add("the former relative to the latter", median(behind[1:]) / median(alone[1:]), "", Target("<=", RATIO))
    report.add("peak resident", machine.peak_resident_bytes() / 1e9, "GB")


def _run(machine: Measured, flow: "Flow", output: Path) -> float:
    """CPU seconds of a run, in which everything has to be clean."""
    from reconcile.files import LocalFiles
    from reconcile.job import run as reconcile
    from reconcile.settings import JobSettings

    settings = JobSettings(output=str(output))
    with machine.lap() as lap:
        verdict = reconcile(settings, flow, LocalFiles(output), machine.session, _CLOCK)
    if verdict.exit_code != 0 or verdict.summary.windows_total == 0:
        raise RuntimeError(f"a run over nothing but deliveries has ended with {verdict.exit_code}: {verdict.summary}")
    return lap.cpu_s
