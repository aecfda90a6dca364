"""The rows behind suspect cells, from what all runs have staged of their hours."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from reconcile.cells import CELL, LINKS, first_id, in_cell, moment_ms
from reconcile.errors import BadInput
from reconcile.places import Named
from reconcile.schemas import ACCEPTED, DONE
from reconcile.skips import Skipped
from reconcile.small import small
from reconcile.suspects import Behind, Suspect
from reconcile.tables import rows_of
from reconcile.testimony import Link, Record, Row

Of = Callable[[StructType, str], DataFrame]
"""Staged rows by a schema, of a kind: `accepted`, `links`, `done`."""


def behind(spark: SparkSession, batch: Sequence[Suspect], staged: Of) -> Behind:
    """Raises BadInput: there are not as many as the cells have counted."""
    numbers = [(one.topic, one.window_ms, one.bucket, i, *map(bool, one.wanted)) for i, one in enumerate(batch)]
    kinds = "topic string, window_ms long, bucket int, cell int, accepted boolean, links boolean, done boolean"
    table = F.broadcast(small(spark, numbers, kinds))
    sides = (
        _side("accepted", staged(ACCEPTED, "accepted"), moment_ms(), Record._fields, table),
        _side("links", staged(LINKS, "links"), F.col("due_ms"), Link._fields, table),
        _side("done", staged(DONE, "done"), moment_ms(), Row._fields, table),
    )
    wanted = [sum(one.wanted[i] for one in batch) for i in range(3)]
    asked = [side for side, rows in zip(sides, wanted, strict=True) if rows]
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), asked)
    whole = union.toArrow()

    def of(name: str, fields: Sequence[str]) -> Iterator[tuple[Suspect, list[Any]]]:
        if all(field in whole.column_names for field in fields):
            part = whole.filter(pc.equal(whole["side"], name)).select(["cell", *fields])
            yield from ((batch[cell], columns) for cell, *columns in rows_of(part))

    found = Behind(
        [(cell, Record(*columns)) for cell, columns in of("accepted", Record._fields)],
        [(cell, Link(*columns)) for cell, columns in of("links", Link._fields)],
        [(cell, Row(*columns)) for cell, columns in of("done", Row._fields)],
    )
    there = [len(found.accepted), len(found.links), len(found.rows)]
    if there != wanted:
        raise BadInput(
            f"stage: records, links and outcome rows of suspect cells are {wanted}, and {there} are there: what runs "
            "have written was changed. Put it back as it was, or use another --output"
        )
    return found


def _side(name: str, rows: DataFrame, moment: Column, columns: Sequence[str], table: DataFrame) -> DataFrame:
    here = in_cell(rows, moment).join(table.where(name).select(*CELL, "cell"), list(CELL))
    return here.select(F.lit(name).alias("side"), "cell", *columns)


def accepted_among(spark: SparkSession, named: Iterable[Named], others: DataFrame) -> set[tuple[str, int, int, str]]:
    """Those of these messages that stand among `others`, by `schemas.ACCEPTED`, as topic, shard, offset, id."""
    key = ("topic", "shard", "offset", "id")
    places = sorted({(one.topic, one.shard, one.offset, one.id) for one in named})
    table = F.broadcast(small(spark, places, "topic string, shard int, offset long, id string"))
    messages = others.where(F.col("kind").isin("message", "skipped")).withColumn("id", first_id(F.col("id")))
    return set(rows_of(messages.select(*key).join(table, list(key), "left_semi").toArrow()))


def skipped_rows(rows: DataFrame, skips: Sequence[Skipped]) -> Iterator[Row]:
    """Outcome rows of what was skipped, by `schemas.DONE`, that stand behind that."""
    conditions = (
        (F.col("topic") == skip.topic)
        & (F.col("shard") == skip.shard)
        & F.col("offset").between(skip.first, skip.end - 1)
        & (F.col("audit_offset") > skip.audit_offset)
        for skip in skips
    )
    found = rows.where(reduce(or_, conditions)).where(F.col("outcome") != "skipped")
    return (Row(*columns) for columns in rows_of(found.select(*Row._fields).toArrow()))


def kept_times(
    rows: DataFrame, places: Sequence[tuple[str, int, int, int]], reasons: Sequence[str]
) -> Mapping[tuple[str, int, int], int]:
    """Of these records (topic, shard, offset, due time), those whose row has one of these reasons, which keep the
    time: when they were due."""
    key = ["topic", "shard", "offset", "due_ms"]
    table = F.broadcast(small(rows.sparkSession, places, "topic string, shard int, offset long, due_ms long"))
    found = rows.where(F.col("reason").isin(*reasons)).select(*key).join(table, key, "left_semi")
    return {(topic, shard, offset): due_ms for topic, shard, offset, due_ms in rows_of(found.toArrow())}
