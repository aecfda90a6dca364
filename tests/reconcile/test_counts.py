"""Progress is computed from what Spark's driver counts of its stages."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from reconcile.progress import SparkCounts, Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_are_counted_as_they_are_sorted_and_as_they_are_written(spark: "SparkSession", tmp_path: Path) -> None:
    counts = SparkCounts(spark)
    while counts.look():
        pass  # other tests' stages
    spark.range(500).repartition(2).write.parquet(str(tmp_path / "rows"))
    seen: dict[int, Stage] = {}
    deadline = time.monotonic() + 30
    while sum(stage.written for stage in seen.values()) < 500 and time.monotonic() < deadline:
        seen |= {stage.number: stage for stage in counts.look()}  # Spark counts a little later
        time.sleep(0.05)
    assert (sum(stage.shuffled for stage in seen.values()), sum(stage.written for stage in seen.values())) == (
        500,
        500,
    )
