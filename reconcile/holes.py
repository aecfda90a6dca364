"""Stretches of a buffer of which nothing is known: what was deleted before it could be read, and what lies before
the first run. What the audit says of such records is left out of the ledger, and counted by the caller."""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


class Hole(NamedTuple):
    """Offsets `[start, end)` of a shard."""

    topic: str
    shard: int
    start: int
    end: int


def outside(rows: DataFrame, holes: Sequence[Hole]) -> DataFrame:
    """Those that say something of a record (`topic`, `shard`, `offset`) in no hole."""
    return _joined(rows, holes, "left_anti") if holes else rows


def inside(rows: DataFrame, holes: Sequence[Hole]) -> DataFrame:
    """Those that say something of a record in a hole."""
    return _joined(rows, holes, "left_semi") if holes else rows.limit(0)


def _joined(rows: DataFrame, holes: Sequence[Hole], how: str) -> DataFrame:
    schema = "hole_topic string, hole_shard int, hole_start long, hole_end long"
    table = F.broadcast(rows.sparkSession.createDataFrame(holes, schema))
    same = (F.col("topic") == F.col("hole_topic")) & (F.col("shard") == F.col("hole_shard"))
    within = (F.col("offset") >= F.col("hole_start")) & (F.col("offset") < F.col("hole_end"))
    return rows.join(table, same & within, how)
