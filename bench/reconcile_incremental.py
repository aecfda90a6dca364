"""What runs of the reconcile job cost: the start, a first one, the next ones, and one behind a long history."""

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
"""At one every 100 ms, 694 hours."""

FIRST_MESSAGES = MORE_MESSAGES = 1_000_000
"""Two rows each."""

FRESH_MESSAGES = 5_000
ROUNDS = 7
START_CPU_S, ROWS_PER_CPU_S, MORE_CPU_S, RATIO, PEAK_BYTES = 20.0, 0.5e6, 15.0, 1.1, 1.5e9
_T0 = 1_767_225_600_000
_CLOCK = SystemClock()


def run(scale: float) -> Report:
    """B13. About 15 minutes and 4 GB of disk at scale 1."""
    report = Report("B13: runs of the reconcile job, one after the other")
    folder = Path(tempfile.mkdtemp(prefix="bench-reconcile-"))
    try:
        with spark(folder / "spark") as machine:
            _measure_runs(report, machine, folder, scale)
            _measure_history(report, machine, folder, max(int(HISTORY_MESSAGES * scale), 10_000))
            report.add("peak resident", machine.peak_resident_bytes() / 1e9, "GB", Target("<", PEAK_BYTES / 1e9))
    finally:
        shutil.rmtree(folder)
    report.notes.append("two rows a message, made by Spark; CPU of the JVM and this process, local[2]")
    report.notes.append(f"history: {ROUNDS} rounds in turns after one that warms up, medians")
    return report


def _measure_runs(report: Report, machine: Measured, folder: Path, scale: float) -> None:
    """A start is Spark's and that of a run that finds next to nothing."""
    from bench.reconciling.flow import Flow

    tiny, whole = Flow(_T0), Flow(_T0)
    tiny.go_on(FRESH_MESSAGES)
    first, more = (max(int(messages * scale), 10_000) for messages in (FIRST_MESSAGES, MORE_MESSAGES))
    _run(machine, tiny, folder / "tiny")
    start = machine.cpu_s()
    name = f"start: Spark, and a run over {2 * FRESH_MESSAGES:,} rows: CPU"
    report.add(name, start, "s", Target("<=", START_CPU_S))
    whole.go_on(first)
    used = _run(machine, whole, folder / "whole")
    report.add(f"then {2 * first:,} rows: CPU", used, "s")
    report.add("a first run beyond the start", 2 * first / used, "rows/CPU s", Target(">=", ROWS_PER_CPU_S))
    laps = []
    for _ in range(3):
        whole.go_on(more)
        laps.append(_run(machine, whole, folder / "whole"))
    report.add(f"{2 * more:,} rows more: CPU", median(laps), "s", Target("<=", MORE_CPU_S))


def _measure_history(report: Report, machine: Measured, folder: Path, history: int) -> None:
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


def _run(machine: Measured, flow: "Flow", output: Path) -> float:
    """CPU seconds of a run, in which everything has to be clean."""
    from reconcile.directory.files import LocalFiles
    from reconcile.settings import JobSettings
    from reconcile.spark.job import run as reconcile

    settings = JobSettings(output=str(output))
    with machine.lap() as lap:
        verdict = reconcile(settings, flow, LocalFiles(output), machine.session, _CLOCK)
    if verdict.exit_code != 0 or verdict.summary.windows_total == 0:
        raise RuntimeError(f"a run over nothing but deliveries has ended with {verdict.exit_code}: {verdict.summary}")
    return lap.cpu_s
