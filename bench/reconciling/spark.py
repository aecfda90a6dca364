"""Spark on two cores of this machine, with its JVM as a process that is measured from outside."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from bench.report import Lap, cpu_s, cpu_s_of, measured

HEAP = "1200m"
OPTIONS = {
    "spark.driver.memory": HEAP,
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


class Measured:
    """A session, and what it and this process have used."""

    def __init__(self, folder: Path) -> None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        options = {**OPTIONS, "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        self.session = SparkSession.Builder().master("local[2]").config(map=dict(options)).getOrCreate()
        self._pid: int = self.session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]

    def cpu_s(self) -> float:
        """User and system time of the JVM, of the Python workers that it has seen end, and of this process."""
        return cpu_s_of(self._pid, with_children=True) + cpu_s()

    def peak_resident_bytes(self) -> int:
        """Of the JVM and this process, each at its own peak."""
        return sum(_peak_bytes(pid) for pid in (self._pid, os.getpid()))

    @contextmanager
    def lap(self) -> Iterator[Lap]:
        before = self.cpu_s()
        with measured() as lap:
            yield lap
        lap.cpu_s = self.cpu_s() - before


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


@contextmanager
def spark(folder: Path) -> Iterator[Measured]:
    """`folder` for what Spark spills."""
    measured_spark = Measured(folder)
    try:
        yield measured_spark
    finally:
        measured_spark.session.stop()
