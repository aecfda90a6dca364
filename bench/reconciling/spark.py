"""Spark on two cores of this machine, with its JVM as a process that is measured from outside."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from bench.report import Lap, cpu_s, cpu_s_of, measured
from reconcile.spark.session import LOCAL, SETTINGS


class Measured:
    """A session, and what it and this process have used."""

    def __init__(self, folder: Path) -> None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        own = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        options = {**SETTINGS, **LOCAL, "spark.log.level": "ERROR", **own}
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
