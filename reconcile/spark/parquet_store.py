"""Parquet below the output directory: `<room>/run=<run>/...`, by hour where rows of an hour are read together. Many
rows are written and read by Spark, a few by this process itself.

Every read names its folders and its schema: nothing is listed that grows with the history, and a folder without
rows, which Spark does not write, is no error.

Rows are counted while they are written, and the files that are there afterwards must have as many. A run's manifest
keeps the numbers, folder by folder, and a reader of that run's folders must find as many: rows that are lost on
the way would make a ledger that finds nothing wrong.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from reconcile.directory.files import Files
from reconcile.directory.runs import read_manifest
from reconcile.errors import BadInput
from reconcile.frames import tables
from reconcile.frames.local_frame import small
from reconcile.frames.paths import literal
from reconcile.spark.session import local_cores

HOUR = "hour"

FEW = 200_000
"""Rows that one task writes sooner than several."""

_RUN = re.compile(r"/run=(\d+)(?:/|$)")


class ParquetStore:
    """The directory. `written`: the rows that this run has written, by folder, where there are any."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self.spark = spark
        self.written: dict[str, int] = {}
        self._files = files
        self._own: set[int] = set()
        self._earlier: dict[int, Mapping[str, int]] = {}
        self._cores = local_cores(spark)

    def write(self, rows: DataFrame, name: str, *by: str, about: int | None = None) -> None:
        """Replace a folder; rows that agree in the columns `by` stand below one folder. `about`: how many rows there
        are; `FEW` are written by one task, more on one machine by as many as it has cores. In a cluster an hour that
        has many is spread over several tasks, and the few rows of many hours share one. Raises OSError."""
        self._own.add(_run_of(name))
        if about is not None and (about <= FEW or self._cores):
            rows = rows.coalesce(1 if about <= FEW else self._cores)
        elif by:
            rows = rows.hint("rebalance", *by)
        seen = Observation()
        writer = rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.mode("overwrite")
        (writer.partitionBy(*by) if by else writer).parquet(self._uri(name))
        self._note(name, seen.get["rows"])

    def put(self, rows: Sequence[Sequence[Any]], schema: StructType, name: str, part: int = 0) -> None:
        """A few rows, from here: into a file of the folder."""
        self.put_table(tables.table_of(rows, schema), name, part)

    def put_table(self, table: pa.Table, name: str, part: int = 0) -> None:
        """The same of a table."""
        self._own.add(_run_of(name))
        if table.num_rows:
            self._files.write(f"{name}/part-{part:05}.parquet", tables.encode(table))
            self.written[name] = self.written.get(name, 0) + table.num_rows

    def _note(self, name: str, rows: int) -> None:
        if not self._files.exists(name):
            raise OSError(f"what Spark has written to {self._uri(name)} is not there")
        found = self._count([name])
        if (there := sum(found.values())) != rows:
            raise OSError(f"{self._uri(name)}: Spark has written {rows} rows, and {there} are there")
        for folder in [folder for folder in self.written if _is_below(folder, name)]:
            del self.written[folder]
        self.written.update({folder: count for folder, count in found.items() if count})

    def _count(self, names: Iterable[str]) -> dict[str, int]:
        """The rows that are there, by the folder that has the files."""
        found: dict[str, int] = {}
        every = [path for name in names for path in tables.parquet_files(self._files, name)]
        for path, count in tables.count_rows(self._files, every).items():
            folder = path.rpartition("/")[0]
            found[folder] = found.get(folder, 0) + count
        return found

    def read(self, schema: StructType, names: Sequence[str]) -> DataFrame:
        """Rows of all these folders; no rows of those that do not exist, if nothing was written there. Without the
        names of folders, which Spark adds as columns. Raises BadInput."""
        wanted = self._checked(names)
        if not wanted:
            return small(self.spark, [], schema)
        uris = (literal(self._uri(name)) for name in wanted)
        return self.spark.read.schema(schema).parquet(*uris).select(*schema.fieldNames())

    def get(self, schema: StructType, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The same of a few rows, here."""
        return list(tables.rows_of(self.get_table(schema, names)))

    def get_table(self, schema: StructType, names: Sequence[str]) -> pa.Table:
        """The same as a table."""
        paths = [path for name in self._checked(names) for path in tables.parquet_files(self._files, name)]
        try:
            parts = [tables.decode(self._files.read(path) or b"", schema) for path in paths]
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{_cannot_be_read(error)} {_REMEDY}") from error
        return pa.concat_tables(parts) if parts else tables.table_of([], schema)

    def _checked(self, names: Sequence[str]) -> list[str]:
        """Those in which something was written, and is there still. Raises BadInput."""
        wanted = {name: rows for name in names if (rows := self.rows(name))}
        try:
            found = self._count(wanted)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(wanted, error) from error
        for name, rows in wanted.items():
            there = sum(count for folder, count in found.items() if _is_below(folder, name))
            if there != rows:
                raise BadInput(f"{self._uri(name)}: {rows} rows were written, and {there} are there. {_REMEDY}")
        return list(wanted)

    def _damaged(self, names: Iterable[str], error: Exception) -> BadInput:
        for name in names:
            try:
                self._count([name])
            except (pa.ArrowException, OSError) as own:
                return BadInput(f"{self._uri(name)}: {_cannot_be_read(own)} {_REMEDY}")
        return BadInput(f"{self._files.root}: {_cannot_be_read(error)} {_REMEDY}")

    def rows(self, name: str) -> int:
        """How many were written below a folder. Raises BadInput: the manifest of its run is not there, or cannot be
        read."""
        run = _run_of(name)
        folders = self.written if run in self._own or not run else self._of_earlier(run)
        own = folders.get(name)
        return own if own is not None else sum(count for one, count in folders.items() if _is_below(one, name))

    def _of_earlier(self, run: int) -> Mapping[str, int]:
        if run not in self._earlier:
            self._earlier[run] = read_manifest(self._files, run).written
        return self._earlier[run]

    def hours(self, name: str) -> list[int]:
        """The hours in which this run has written something, below a folder."""
        prefix = f"{name}/{HOUR}="
        return sorted(int(folder.removeprefix(prefix)) for folder in self.written if folder.startswith(prefix))

    def _uri(self, name: str) -> str:
        return f"{self._files.root}/{name}"


_REMEDY = "Put the folder back as it was, or use another --output"


def _cannot_be_read(error: Exception) -> str:
    return f"what runs have written cannot be read: {' '.join(str(error).split())}."


def _run_of(name: str) -> int:
    """0 where the folder is no run's."""
    found = _RUN.search(name)
    return int(found[1]) if found else 0


def _is_below(folder: str, name: str) -> bool:
    return folder == name or folder.startswith(f"{name}/")
