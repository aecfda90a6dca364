"""The reconcile job's arithmetic: 20 million accepted and 20 million outcome rows, from Parquet to named findings."""

import shutil
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from bench.reconciling import duck
from bench.reconciling.spark import Measured, spark
from bench.report import Report, Target, measured
from tests.reconcile.generator import Truth, generate
from tests.reconcile.stories import LATE_AFTER_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPICS = 4
SHARDS = 5
MESSAGES_PER_SHARD = 1_000_000
FAULTS = 1
CELLS_ROWS_PER_CPU_S = 0.8e6
PEAK_BYTES = 2.5e9
_SEED = 1


def run(scale: float) -> Report:
    """B12. About 5 minutes and 2 GB of disk at scale 1."""
    report = Report("B12: the reconcile job's cells, judgement and look-up")
    folder = Path(tempfile.mkdtemp(prefix="bench-reconcile-"))
    try:
        truths = _generated(folder, max(int(MESSAGES_PER_SHARD * scale), 5_000))
        _measure(report, folder, truths)
    finally:
        shutil.rmtree(folder)
    report.notes.append(f"{TOPICS} topics of {SHARDS} shards, due within six hours; {FAULTS} of each fault per shard")
    report.notes.append("Spark: local[2], CPU of the JVM and this process; the cells' with what its compiler takes")
    return report


def _generated(folder: Path, messages: int) -> dict[tuple[str, int], Truth]:
    """In a process of its own: what that needs is not the job's memory."""
    shards = [(f"topic-{topic}", shard) for topic in range(TOPICS) for shard in range(SHARDS)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        made = [
            process.submit(generate, folder, topic, shard, messages, faults=FAULTS, seed=_SEED + i)
            for i, (topic, shard) in enumerate(shards)
        ]
        return {shard: future.result() for shard, future in zip(shards, made, strict=True)}


def _measure(report: Report, folder: Path, truths: dict[tuple[str, int], Truth]) -> None:
    rows = sum(truth.records + truth.rows for truth in truths.values())
    report.add("rows", rows)
    with spark(folder / "spark") as machine:
        report.add("start of Spark: CPU", machine.cpu_s(), "s")
        with machine.lap() as lap:
            _write_cells(machine, folder)
        report.add("cells", rows / lap.cpu_s, "rows/CPU s", Target(">=", CELLS_ROWS_PER_CPU_S))
        report.add("cells: CPU", lap.cpu_s, "s")
        with machine.lap() as judging:
            found = _judge(machine, folder, truths)
        report.add("judging and looking up: CPU", judging.cpu_s, "s")
        with machine.lap() as pairing:
            found += _pair(machine, folder, truths)
        report.add("what operations did: CPU", pairing.cpu_s, "s")
        report.add("whole: rows", rows / (lap.cpu_s + judging.cpu_s + pairing.cpu_s), "rows/CPU s")
        with machine.lap() as again:
            _write_cells(machine, folder)
        report.add("cells, once more with compiled code", rows / again.cpu_s, "rows/CPU s")
        report.add("peak resident", machine.peak_resident_bytes() / 1e9, "GB", Target("<", PEAK_BYTES / 1e9))
    injected = Counter(fault.category for truth in truths.values() for fault in truth.faults)
    report.add("findings", found.total())
    report.add("of these not as injected", ((found - injected) + (injected - found)).total(), "", Target("<=", 0))
    with measured() as peer:
        dirty = duck.cells(folder, folder / "duck.parquet")
    report.add("DuckDB: the same cells", rows / peer.cpu_s, "rows/CPU s")
    report.add("DuckDB: cells with something in them", dirty)


def _rows(machine: Measured, folder: Path) -> "tuple[DataFrame, DataFrame]":
    from reconcile.frames.schemas import ACCEPTED, DONE

    read = machine.session.read
    done = read.schema(DONE).parquet(str(folder / "done"))
    return read.schema(ACCEPTED).parquet(str(folder / "accepted")), done


def _write_cells(machine: Measured, folder: Path) -> None:
    from reconcile.spark.cells import cells, links

    accepted, done = _rows(machine, folder)
    counted = cells(accepted, links(accepted), done, LATE_AFTER_MS)
    counted.write.mode("overwrite").parquet(str(folder / "cells"))


def _judge(machine: Measured, folder: Path, truths: dict[tuple[str, int], Truth]) -> Counter[str]:
    """How many findings of each category, of what cells are suspect of."""
    from reconcile.frames.tables import rows_of
    from reconcile.logic import places, suspects
    from reconcile.spark import cells, lookup

    accepted, done = _rows(machine, folder)
    staged = {"accepted": accepted, "links": cells.links(accepted), "done": done}
    parts = machine.session.read.schema(cells.CELLS).parquet(str(folder / "cells"))
    cells.counted(parts).toArrow()
    suspect = [suspects.Suspect(*row) for row in rows_of(cells.suspects(parts).toArrow())]
    rules = places.Rules(LATE_AFTER_MS, {shard: truth.settled for shard, truth in truths.items()})
    found = Counter(one.category for one in suspects.named(suspect) if one.settled)
    for batch in suspects.batches(suspect):
        behind = lookup.behind(machine.session, batch, lambda _, kind: staged[kind], LATE_AFTER_MS)
        late = [row for row in behind.untimely if places.is_late(row, LATE_AFTER_MS)]
        moved_ms = lookup.moved_into_the_past(late, lambda _: lambda _, kind: staged[kind], rules)
        found.update(one.category for one in suspects.judged_behind(behind, rules, moved_ms) if one.settled)
        named = [one for one in map(places.named_by, behind.given_way) if one]
        known = lookup.accepted_among(machine.session, named, accepted)
        found.update(one.category for one in places.for_none_accepted(behind.given_way, known, rules) if one.settled)
    mortal = [cell for cell in suspect if cell.is_mortal]
    ends = lookup.with_deadlines(machine.session, mortal, lambda _, kind: staged[kind])
    found.update(one.category for row, expires_ms in ends if (one := places.against_deadline(row, expires_ms)))
    return found


def _pair(machine: Measured, folder: Path, truths: dict[tuple[str, int], Truth]) -> Counter[str]:
    """The same of what operations did."""
    from pyspark.sql import functions as F

    from reconcile.frames.tables import rows_of
    from reconcile.logic import acts
    from reconcile.logic.testimony import Row
    from reconcile.spark import pairing

    accepted, done = _rows(machine, folder)
    rows = (Row(*row) for row in rows_of(done.where(pairing.is_act()).select(*Row._fields).toArrow()))
    sides = ((row, acts.side_of(row)) for row in rows)
    staged = [acts.Act(row, *side, 0, True, False) for row, side in sides if side]
    operations = accepted.where(F.col("kind") == "operation").select("topic", "shard", "offset", *acts.Asked._fields)
    asked = {(row[0], row[1], row[2]): acts.Asked(*row[3:]) for row in rows_of(operations.toArrow())}
    shards = {shard: acts.Coverage(truth.settled, 0, -1) for shard, truth in truths.items()}
    return Counter(one.category for one in acts.paired(staged, shards, asked, acts.last_purges(staged)).found)
