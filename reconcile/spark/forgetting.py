"""Rows of old hours, dropped (logic/forgetting.py): which cells keep theirs, and what is written of both.

merged/run=<run>/forgotten/hour=<hour>   cells that agree, summed; their rows go
merged/run=<run>/cells/hour=<hour>       the other cells, and `accepted`, `links`, `done`: their rows
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from reconcile.errors import BadInput
from reconcile.frames.schemas import FINDINGS
from reconcile.logic import whereabouts as where
from reconcile.logic.manifest import Spans, runs_in
from reconcile.logic.whereabouts import Merged
from reconcile.spark import cells as ledger_cells
from reconcile.spark.cells import CELL
from reconcile.spark.merging import SCHEMAS
from reconcile.spark.parquet_store import HOUR, ParquetStore

_ROWS = (where.ACCEPTED, where.LINKS, where.DONE)


def forget(rooms: ParquetStore, wanted: Sequence[Merged], judged: Mapping[int, Spans], run: int) -> None:
    """`judged` by hour: the runs that have judged windows there. To be done before anything else is written below the
    run's `merged/`. Raises BadInput."""
    if not wanted:
        return
    parts = _sources(rooms, wanted, where.CELLS)
    kept = _kept(rooms, parts, _runs_of(judged, wanted)).localCheckpoint()  # worked out once, and read five times
    _write(rooms, parts.join(kept, list(CELL), "left_semi"), where.CELLS, run)
    _write(rooms, ledger_cells.summed(parts.join(kept, list(CELL), "left_anti")), where.FORGOTTEN, run)
    if not kept.isEmpty():
        for kind in _ROWS:
            placed = ledger_cells.in_cell(_sources(rooms, wanted, kind), _moment(kind))
            _write(rooms, placed.join(kept, list(CELL), "left_semi"), kind, run)
    _check(rooms, parts, run)


def _sources(rooms: ParquetStore, wanted: Sequence[Merged], kind: str) -> DataFrame:
    return rooms.read(SCHEMAS[kind], [source for one in wanted for source in one.sources(kind)])


def _runs_of(judged: Mapping[int, Spans], wanted: Sequence[Merged]) -> list[int]:
    return sorted({run for one in wanted for run in runs_in(judged.get(one.hour, []))})


def _kept(rooms: ParquetStore, parts: DataFrame, judged: Sequence[int]) -> DataFrame:
    """Cells, by `CELL`: those that are suspect, and those with a finding, which may be of rows that agree."""
    found = rooms.read(FINDINGS, [f"findings/run={run}" for run in judged])
    named = found.withColumn("bucket", ledger_cells.bucket(ledger_cells.position()))
    return ledger_cells.suspects(parts).select(*CELL).unionByName(named.select(*CELL)).distinct()


def _moment(kind: str) -> Column:
    return F.col("due_ms") if kind == where.LINKS else ledger_cells.moment_ms()


def _write(rooms: ParquetStore, rows: DataFrame, kind: str, run: int) -> None:
    columns = SCHEMAS.get(kind, ledger_cells.CELLS).fieldNames()
    placed = rows.withColumn(HOUR, ledger_cells.hour(F.col("window_ms"))).select(*columns, HOUR)
    rooms.write(placed, f"merged/run={run}/{kind}", HOUR)


def _check(rooms: ParquetStore, parts: DataFrame, run: int) -> None:
    """Nothing that was counted is gone, and each kept cell has its rows. Raises BadInput."""
    folders = [f"merged/run={run}/{kind}" for kind in (where.CELLS, where.FORGOTTEN)]
    kept, dropped = (ledger_cells.counted_rows(rooms.read(ledger_cells.CELLS, [name])) for name in folders)
    before = ledger_cells.counted_rows(parts)
    there = [rooms.rows(f"merged/run={run}/{kind}") for kind in _ROWS]
    if before != [one + other for one, other in zip(kept, dropped, strict=True)] or there != kept:
        raise BadInput(
            f"cells of old hours have {before} records, links and outcome rows, and {kept} of {there} would be kept "
            f"and {dropped} dropped: nothing was dropped. Run again"
        )
