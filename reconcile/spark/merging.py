"""Small folders of many runs, put together: what `whereabouts.to_merge` wants, where it is little enough to be done
here."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.types import StructType

from reconcile.frames import schemas
from reconcile.logic import whereabouts as where
from reconcile.logic.whereabouts import Merged
from reconcile.spark import cells
from reconcile.spark.parquet_store import FEW, ParquetStore

SCHEMAS: dict[str, StructType] = {
    where.CELLS: cells.CELLS,
    where.ACCEPTED: schemas.ACCEPTED,
    where.LINKS: cells.LINKS,
    where.DONE: schemas.DONE,
}


def merge(rooms: ParquetStore, wanted: Iterable[Merged], run: int) -> list[Merged]:
    """Those that are merged. Folders that hold more than `FEW` rows together are large enough as they are. Raises
    BadInput."""
    done = []
    for one in wanted:
        if all(sum(map(rooms.rows, one.sources(kind))) <= FEW for kind in where.KINDS):
            for kind in where.KINDS:
                _merge(rooms, one, kind, run)
            done.append(one)
    return done


def _merge(rooms: ParquetStore, one: Merged, kind: str, run: int) -> None:
    table: pa.Table = rooms.get_table(SCHEMAS[kind], one.sources(kind))
    rooms.put_table(table, where.merged_folder(kind, run, one.hour))


def leftovers(done: Iterable[Merged]) -> list[str]:
    """Folders that are not read any more."""
    return [source for one in done for kind in where.KINDS for source in one.sources(kind)]
