"""The memory that the job has on one machine: what it reads goes through the heap, where there is a bound and the
rest is spilled."""

import subprocess
import sys
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest

LONGS = 6_000_000
ROOM = "-XX:MaxDirectMemorySize=16m"
WITHIN_S = 120.0
SUM = """
import sys
from reconcile.spark.session import open_session

spark = open_session("local[2]", java_options=" " + sys.argv[2])
(row,) = spark.read.parquet(sys.argv[1]).selectExpr("sum(n % 1000)").collect()
print(row[0])
(spark.read.parquet(sys.argv[1]).coalesce(1).write.parquet(sys.argv[1] + "-again"))
"""


@pytest.mark.thorough
def test_files_with_large_groups_of_rows_are_read_within_the_heap_and_written_in_small_ones(tmp_path: Path) -> None:
    """Vectored reads need as much memory outside the heap, and a run of 17 million rows had not enough of it."""
    numbers = numpy.random.default_rng(7).integers(0, 1 << 62, LONGS)
    file = tmp_path / "large"
    table = pyarrow.table({"n": numbers})
    pyarrow.parquet.write_table(table, file, row_group_size=LONGS, compression="none", use_dictionary=False)
    assert pyarrow.parquet.ParquetFile(file).num_row_groups == 1
    command = [sys.executable, "-c", SUM, str(file), ROOM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [str((numbers % 1000).sum())]), done.stderr
    (written,) = Path(f"{file}-again").glob("*.parquet")
    assert pyarrow.parquet.ParquetFile(written).num_row_groups > 1
