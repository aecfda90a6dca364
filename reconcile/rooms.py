"""Parquet below the output directory: `<room>/run=<run>/...`, by hour where rows of an hour are read together.

Every read names its folders and its schema: nothing is listed that grows with the history, and a folder without
rows, which Spark does not write, is no error.

Rows are counted while they are written, and what is there afterwards must be as many. A run's manifest keeps the
numbers, folder by folder, and whoever reads folders of that run must get as many: rows that are lost on the way would
make a ledger that finds nothing wrong.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from reconcile.errors import BadInput
from reconcile.files import Files
from reconcile.manifest import Spans, runs_in
from reconcile.readers.work import first_sentence
from reconcile.runs import read_manifest
from reconcile.small import small

HOUR = "hour"

_RUN = re.compile(r"/run=(\d+)(?:/|$)")
_GLOB = re.compile(r"[{}\[\]*?\\]")
"""What in a path that Spark is to read stands for other characters (`SparkHadoopUtil.isGlobPath`). To switch that off
(`__globPaths__`) does not help: of n such paths each one is read n times (Spark 4.2, DataSource.scala)."""


class Rooms:
    """The directory as Spark sees it. `written`: the rows that it has written, by folder, where there are any."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self.spark = spark
        self.written: dict[str, int] = {}
        self._files = files
        self._own: set[int] = set()
        self._earlier: dict[int, Mapping[str, int]] = {}
        self._is_adaptive = spark.conf.get("spark.sql.adaptive.enabled") == "true"

    def write(self, rows: DataFrame, name: str, *by: str) -> None:
        """Replace a folder; rows that agree in the columns `by` stand below one folder. With adaptive execution an
        hour that has many rows is spread over several tasks, and the few rows of many hours share one. Raises
        OSError."""
        self._own.add(_run_of(name))
        if by:
            rows = rows.hint("rebalance", *by) if self._is_adaptive else rows.repartition(*by)
        seen = Observation()
        writer = rows.observe(seen, F.count(F.lit(1)).alias("rows")).write.mode("overwrite")
        (writer.partitionBy(*by) if by else writer).parquet(self._uri(name))
        if not self._files.exists(name):
            raise OSError(f"what Spark has written to {self._uri(name)} is not there")
        found = self._count(rows.schema, name, by)
        if (there := sum(found.values())) != seen.get["rows"]:
            raise OSError(f"{self._uri(name)}: Spark has written {seen.get['rows']} rows, and {there} are there")
        self.written = {folder: count for folder, count in self.written.items() if not _is_below(folder, name)}
        self.written.update(found)

    def _count(self, schema: StructType, name: str, by: Sequence[str]) -> dict[str, int]:
        """The rows that are there, by folder: what stands in the footers of the files."""
        rows = self._stored(schema, [name])
        if not by:
            return {name: count} if (count := rows.count()) else {}
        return {
            "/".join([name, *(f"{column}={row[column]}" for column in by)]): row["count"]
            for row in rows.groupBy(*by).count().collect()
        }

    def read(self, schema: StructType, names: Sequence[str]) -> DataFrame:
        """Rows of all these folders; no rows of those that do not exist, if nothing was written there. Without the
        names of folders, which Spark adds as columns. Raises BadInput."""
        found = [name for name in names if self._files.exists(name)]
        written = {name: self._written(name) for name in names}
        rows = self._rows(schema, found)
        try:
            there = rows.count()
        except (PySparkException, Py4JError) as error:
            why = f"what runs have written cannot be read: {first_sentence(error)}"
            raise BadInput(f"{why} Put it back as it was, or use another --output") from error
        if there != sum(written.values()):
            raise BadInput(self._difference(schema, found, written))
        return rows

    def _rows(self, schema: StructType, found: Sequence[str]) -> DataFrame:
        if not found:
            return small(self.spark, [], schema)
        rows = self._stored(schema, found)
        return rows.select(*schema.fieldNames())

    def _difference(self, schema: StructType, found: Sequence[str], written: Mapping[str, int]) -> str:
        for name, expected in written.items():
            there = self._rows(schema, [name]).count() if name in found else 0
            if there != expected:
                return (
                    f"{self._uri(name)}: {expected} rows were written, and {there} are there: put the folder back "
                    "as it was, or use another --output"
                )
        return f"{self._files.root}: another process has changed what is there; repeat this"

    def _written(self, name: str) -> int:
        """Raises BadInput: the manifest of the run is not there, or cannot be read."""
        run = _run_of(name)
        folders = self.written if run in self._own or not run else self._of_earlier(run)
        own = folders.get(name)
        return own if own is not None else sum(count for one, count in folders.items() if _is_below(one, name))

    def _of_earlier(self, run: int) -> Mapping[str, int]:
        if run not in self._earlier:
            self._earlier[run] = read_manifest(self._files, run).written
        return self._earlier[run]

    def exists(self, name: str) -> bool:
        """Whether anything has been written there."""
        return self._files.exists(name)

    def hours(self, name: str) -> list[int]:
        """The hours below a folder."""
        prefix = f"{HOUR}="
        return sorted(
            int(found.removeprefix(prefix)) for found in self._files.names(name) if found.startswith(prefix)
        )

    def _stored(self, schema: StructType, names: Sequence[str]) -> DataFrame:
        return self.spark.read.schema(schema).parquet(*(_GLOB.sub(r"\\\g<0>", self._uri(name)) for name in names))

    def _uri(self, name: str) -> str:
        return f"{self._files.root}/{name}"


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Worked out once, however often it is read in between."""
    rows = rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()


def _run_of(name: str) -> int:
    """0 where the folder is no run's."""
    found = _RUN.search(name)
    return int(found[1]) if found else 0


def _is_below(folder: str, name: str) -> bool:
    return folder == name or folder.startswith(f"{name}/")


def folders(room: str, hours: Iterable[int], runs: Mapping[int, Spans], below: str = "") -> list[str]:
    """Those of these hours, of every run that has any."""
    middle = f"{below}/" if below else ""
    return [f"{room}/run={run}/{middle}{HOUR}={hour}" for hour in hours for run in runs_in(runs.get(hour, []))]
