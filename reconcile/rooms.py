"""Parquet below the output directory: `<room>/run=<run>/...`, by hour where rows of an hour are read together.

Every read names its folders and its schema: nothing is listed that grows with the history, and a folder without
rows, which Spark does not write, is no error."""

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from reconcile.files import Files
from reconcile.manifest import Spans, runs_in
from reconcile.small import small

HOUR = "hour"


class Rooms:
    """The directory as Spark sees it."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self.spark = spark
        self._files = files
        self._is_adaptive = spark.conf.get("spark.sql.adaptive.enabled") == "true"

    def write(self, rows: DataFrame, name: str, *by: str) -> None:
        """Replace a folder; rows that agree in the columns `by` stand below one folder. With adaptive execution an
        hour that has many rows is spread over several tasks, and the few rows of many hours share one."""
        if by:
            rows = rows.hint("rebalance", *by) if self._is_adaptive else rows.repartition(*by)
        writer = rows.write.mode("overwrite")
        (writer.partitionBy(*by) if by else writer).parquet(self._uri(name))
        if not self._files.exists(name):
            raise OSError(f"what Spark has written to {self._uri(name)} is not there")

    def read(self, schema: StructType, names: Sequence[str]) -> DataFrame:
        """Rows of all these folders; no rows of those that do not exist. Without the names of folders, which Spark
        adds as columns."""
        found = [self._uri(name) for name in names if self._files.exists(name)]
        if not found:
            return small(self.spark, [], schema)
        return self.spark.read.schema(schema).parquet(*found).select(*schema.fieldNames())

    def exists(self, name: str) -> bool:
        """Whether anything has been written there."""
        return self._files.exists(name)

    def hours(self, name: str) -> list[int]:
        """The hours below a folder."""
        prefix = f"{HOUR}="
        return sorted(
            int(found.removeprefix(prefix)) for found in self._files.names(name) if found.startswith(prefix)
        )

    def _uri(self, name: str) -> str:
        return f"{self._files.root}/{name}"


def folders(room: str, hours: Iterable[int], runs: Mapping[int, Spans], below: str = "") -> list[str]:
    """Those of these hours, of every run that has any."""
    middle = f"{below}/" if below else ""
    return [f"{room}/run={run}/{middle}{HOUR}={hour}" for hour in hours for run in runs_in(runs.get(hour, []))]
