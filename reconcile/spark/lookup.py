"""The rows behind suspect cells, from what all runs have staged of their hours."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from delayline.buffer.outcome import LATE_MAX, MISSED, RESCHEDULED
from reconcile.errors import BadInput
from reconcile.frames.local_frame import small
from reconcile.frames.schemas import ACCEPTED, DONE
from reconcile.frames.tables import rows_of
from reconcile.logic.ledger import HOUR_MS, SKIPPED
from reconcile.logic.places import Named, Rules, is_untimely
from reconcile.logic.skips import Skipped
from reconcile.logic.suspects import Behind, Offset, Suspect
from reconcile.logic.testimony import Link, Record, Row
from reconcile.spark.cells import CELL, LINKS, first_id, gives_way, in_cell, is_message, lateness_ms, moment_ms

Of = Callable[[StructType, str], DataFrame]
"""Staged rows by a schema, of a kind: `accepted`, `links`, `done`."""

OfHours = Callable[[Iterable[int]], Of]

_CELL = "topic string, window_ms long, bucket int"


def behind(spark: SparkSession, batch: Sequence[Suspect], staged: Of, late_after_ms: int) -> Behind:
    """Raises BadInput: there are not as many as the cells have counted."""
    numbers = [(*one[:3], one.looks, one.untimely > 0, one.given_way > 0) for one in batch]
    table = F.broadcast(small(spark, numbers, f"{_CELL}, looks boolean, is_late boolean, gives boolean"))
    lateness = lateness_ms()
    is_late = (lateness < 0) | (lateness > late_after_ms)
    wanted = F.col("looks") | (F.col("is_late") & is_late) | (F.col("gives") & gives_way())
    sides = [_side("done", staged(DONE, "done"), moment_ms(), Row._fields, table, wanted)]
    if any(one.looks for one in batch):
        looks = F.col("looks")
        sides.append(_side("accepted", staged(ACCEPTED, "accepted"), moment_ms(), Record._fields, table, looks))
        sides.append(_side("links", staged(LINKS, "links"), F.col("due_ms"), Link._fields, table, looks))
    whole = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), sides).toArrow()

    def of(side: str, fields: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        if all(field in whole.column_names for field in fields):
            part = whole.filter(pc.equal(whole["side"], side)).select(["looks", *fields])
            yield from rows_of(part)

    done = [(looks, Row(*columns)) for looks, *columns in of("done", Row._fields)]
    found = Behind(
        accepted=[Record(*columns) for _, *columns in of("accepted", Record._fields)],
        links=[Link(*columns) for _, *columns in of("links", Link._fields)],
        rows=[row for looks, row in done if looks],
        untimely=[row for _, row in done if is_untimely(row, late_after_ms)],
        given_way=[row for _, row in done if row.gives_way],
    )
    _check(found, batch)
    return found


def _check(found: Behind, batch: Sequence[Suspect]) -> None:
    looks = [one for one in batch if one.looks]
    counted = [*(sum(getattr(one, name) for one in looks) for name in ("accepted", "links", "done"))]
    counted.append(sum(one.untimely for one in batch))
    there = [len(rows) for rows in found[:4]]
    if there != counted:
        raise BadInput(
            f"stage: suspect cells have {counted} records, links, outcome rows and untimely ones, and {there} can be "
            "read: what runs have written was changed. Put it back as it was, or use another --output"
        )


def _side(
    name: str, rows: DataFrame, moment: Column, columns: Sequence[str], table: DataFrame, wanted: Column
) -> DataFrame:
    here = in_cell(rows, moment).join(table, list(CELL)).where(wanted)
    return here.select(F.lit(name).alias("side"), "looks", *columns)


def with_deadlines(spark: SparkSession, cells: Iterable[Suspect], staged: Of) -> Iterator[tuple[Row, int | None]]:
    """What has expired in these cells, and what may have been delivered behind its deadline, with that; but for what
    has expired behind its own deadline, as it should."""
    numbers = [(*one[:3], one.slack_min_ms) for one in cells]
    table = F.broadcast(small(spark, numbers, f"{_CELL}, slack_min_ms long"))
    rows = in_cell(staged(DONE, "done"), moment_ms()).join(table, list(CELL))
    ended = rows.where((F.col("outcome") == "expired") | (lateness_ms() > F.col("slack_min_ms")))
    place = ["topic", "shard", "offset", "id"]
    records = staged(ACCEPTED, "accepted").where(is_message()).select(*place, "expires_ms")
    known = ended.join(records, place)
    is_behind = F.coalesce(F.col("done_ms") > F.col("expires_ms"), F.lit(False))
    by_deadline = ~F.coalesce(F.col("reason").isin(LATE_MAX, MISSED), F.lit(False))
    is_right = F.when(F.col("outcome") == "expired", is_behind & by_deadline).otherwise(~is_behind)
    for *columns, expires_ms in rows_of(known.where(~is_right).select(*Row._fields, "expires_ms").toArrow()):
        yield Row(*columns), expires_ms


def accepted_among(spark: SparkSession, named: Iterable[Named], others: DataFrame) -> set[tuple[str, int, int, str]]:
    """Those of these messages that stand among `others`, by `schemas.ACCEPTED`, as topic, shard, offset, id."""
    key = ("topic", "shard", "offset", "id")
    places = sorted({(one.topic, one.shard, one.offset, one.id) for one in named})
    table = F.broadcast(small(spark, places, "topic string, shard int, offset long, id string"))
    messages = others.where(is_message()).withColumn("id", first_id(F.col("id")))
    return set(rows_of(messages.select(*key).join(table, list(key), "left_semi").toArrow()))


def moved_into_the_past(late: Iterable[Row], staged: OfHours, rules: Rules) -> Mapping[Offset, int]:
    """Of these late deliveries, those whose record a client's move appended when it was due already: when that was
    (epoch ms). The record shows that it was appended late, and the row of the record before it that a client moved
    it: what a repair or a repeat appends late was late before, too. Where that row may be lost, a client may have
    moved it."""
    places = {(row.topic, row.shard, row.offset): row.moment_ms // HOUR_MS for row in late}
    if not places:
        return {}
    records = staged(sorted(set(places.values())))(ACCEPTED, "accepted")
    table = F.broadcast(small(records.sparkSession, sorted(places), "topic string, shard int, offset long"))
    overdue = records.where("replaces_offset is not null and appended_ms > due_ms")
    before = ("topic", "shard", "replaces_offset", "replaces_due_ms", "offset", "appended_ms")
    again = list(rows_of(overdue.join(table, ["topic", "shard", "offset"], "left_semi").select(*before).toArrow()))
    if not again:
        return {}
    rows = staged(sorted({due_ms // HOUR_MS for *_, due_ms, _, _ in again}))(DONE, "done")
    columns = "topic string, shard int, offset long, due_ms long, by_offset long, appended_ms long"
    key = ["topic", "shard", "offset", "due_ms"]
    moved = rows.where(F.col("reason") == RESCHEDULED).select(*key)
    found = F.broadcast(small(rows.sparkSession, again, columns)).join(moved, key, "left_semi")
    doubted = [one for one in again if rules.may_lack_row(one[0], one[1], one[2], one[3], done_ms=one[5])]
    every = [*rows_of(found.toArrow()), *doubted]
    return {(topic, shard, by_offset): at_ms for topic, shard, _, _, by_offset, at_ms in every}


def skipped_rows(rows: DataFrame, skips: Sequence[Skipped]) -> Iterator[Row]:
    """Outcome rows of what was skipped, by `schemas.DONE`, that stand behind that."""
    conditions = (
        (F.col("topic") == skip.topic)
        & (F.col("shard") == skip.shard)
        & F.col("offset").between(skip.first, skip.end - 1)
        & (F.col("audit_offset") > skip.audit_offset)
        for skip in skips
    )
    found = rows.where(reduce(or_, conditions)).where(F.col("outcome") != SKIPPED)
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
