"""A whole run of the reconcile job over 20 million accepted and 20 million outcome rows, from Parquet to named
findings; and its cells alone, beside those of DuckDB."""

import shutil
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bench.reconciling import duck
from bench.reconciling.spark import Measured, spark
from bench.report import Report, Target, measured
from delayline.clock import ManualClock
from tests.reconcile.archive import hold_nothing_yet, run_here
from tests.reconcile.generator import Fault, Truth, generate
from tests.reconcile.stories import LATE_AFTER_MS, T

TOPICS = 4
SHARDS = 5
MESSAGES_PER_SHARD = 1_000_000
FAULTS = 1
PEAK_BYTES = 1.5e9
_SEED = 1


def run(scale: float) -> Report:
    """B12. About 15 minutes and 5 GB of disk at scale 1."""
    report = Report("B12: a run of the reconcile job, and its cells")
    folder = Path(tempfile.mkdtemp(prefix="bench-reconcile-"))
    try:
        truths = _generated(folder / "archive", max(int(MESSAGES_PER_SHARD * scale), 5_000))
        _measure(report, folder, truths)
    finally:
        shutil.rmtree(folder)
    report.notes.append(f"{TOPICS} topics of {SHARDS} shards, due within six hours; {FAULTS} of each fault per shard")
    report.notes.append("Spark: local[2], CPU of the JVM and this process")
    return report


def _generated(archive: Path, messages: int) -> dict[tuple[str, int], Truth]:
    """In a process of its own: what that needs is not the job's memory."""
    shards = [(f"topic-{topic}", shard) for topic in range(TOPICS) for shard in range(SHARDS)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        made = [
            process.submit(generate, archive, topic, shard, messages, faults=FAULTS, seed=_SEED + i)
            for i, (topic, shard) in enumerate(shards)
        ]
        return {shard: future.result() for shard, future in zip(shards, made, strict=True)}


def _measure(report: Report, folder: Path, truths: dict[tuple[str, int], Truth]) -> None:
    rows = sum(truth.records + truth.rows for truth in truths.values())
    report.add("rows", rows)
    with spark(folder / "spark") as machine:
        _measure_run(report, machine, folder, truths, rows)
        report.add("peak resident", machine.peak_resident_bytes() / 1e9, "GB", Target("<", PEAK_BYTES / 1e9))
        with machine.lap() as lap:
            _write_cells(machine, folder)
        report.add("cells alone", rows / lap.cpu_s, "rows/CPU s")
    with measured() as peer:
        dirty = duck.cells(folder / "archive", folder / "duck.parquet")
    report.add("DuckDB: the same cells", rows / peer.cpu_s, "rows/CPU s")
    report.add("DuckDB: cells with something in them", dirty)


def _measure_run(
    report: Report, machine: Measured, folder: Path, truths: dict[tuple[str, int], Truth], rows: int
) -> None:
    """A run over nothing, which records where the buffers begin, and one over everything."""
    archive, output, clock = folder / "archive", folder / "out", ManualClock(T)
    held = hold_nothing_yet(archive, dict.fromkeys(truths, 0), T)
    run_here(machine.session, archive, output, clock)
    report.add("start: Spark, and a run over nothing: CPU", machine.cpu_s(), "s")
    held.unlink()
    with machine.lap() as lap:
        run_here(machine.session, archive, output, clock)
    report.add("the run: CPU", lap.cpu_s, "s")
    report.add("the run", rows / lap.cpu_s, "rows/CPU s")
    injected = Counter(fault for truth in truths.values() for fault in truth.faults)
    found = _findings(machine, output)
    report.add("findings", found.total())
    report.add("of these not as injected", ((found - injected) + (injected - found)).total(), "", Target("<=", 0))


def _findings(machine: Measured, output: Path) -> Counter[Fault]:
    rows = machine.session.read.parquet(str(output / "findings" / "run=2")).select(*Fault._fields).collect()
    return Counter(Fault(*row) for row in rows)


def _write_cells(machine: Measured, folder: Path) -> None:
    from reconcile.frames.schemas import ACCEPTED, DONE
    from reconcile.spark.cells import cells, links

    read = machine.session.read
    accepted, done = (
        read.schema(schema).parquet(str(folder / "archive" / what))
        for schema, what in ((ACCEPTED, "accepted"), (DONE, "done"))
    )
    counted = cells(accepted, links(accepted), done, LATE_AFTER_MS)
    counted.write.mode("overwrite").parquet(str(folder / "cells"))
