"""Rooms that say which part of the rows is being written: that is where the time of a run goes."""

from pyspark.sql import DataFrame, SparkSession

from reconcile.files import Files
from reconcile.manifest import Plan, Reads
from reconcile.progress import Say, Step
from reconcile.rooms import Rooms


class ToldRooms(Rooms):
    """`Rooms`, in which each folder of rows begins a step. Steps are told as they change."""

    def __init__(self, spark: SparkSession, files: Files, say: Say) -> None:
        super().__init__(spark, files)
        self._say = say
        self._steps: dict[str, Step] = {}
        self._last: Step | None = None

    def plan(self, plan: Plan, reads: Reads) -> None:
        """What is written from now on, and how much of it is known."""
        stage = f"stage/run={plan.run}"
        records = sum(part.end - part.start for part in plan.audit.values())
        rows = sum(read.end - read.start for read in reads.reads)
        self._steps = {
            f"{stage}/done": Step("reading the audit", records=records),
            f"{stage}/accepted": Step("reading the buffers", rows=rows),
            f"{stage}/links": Step("counting"),
        }

    def write(self, rows: DataFrame, name: str, *by: str) -> None:
        step = self._steps.get(name)
        if step is not None and step != self._last:
            self._last = step
            self._say(step)
        super().write(rows, name, *by)
