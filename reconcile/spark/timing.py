"""Re-appends that may have a wrong time (times.py): where they are, and all rows about those places.

roll, scheduled, repair    by cells: re-appends at the time that they had cancel out against rows with these reasons
deadlines                  where a cell has re-appends and deadlines, both are held together
rescheduled                what an operation asks for is in `moved` (pairing.py)
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delayline.times import MOMENT_MAX_MS
from reconcile.frames.local_frame import small
from reconcile.frames.schemas import ACCEPTED, DONE
from reconcile.frames.tables import rows_of
from reconcile.logic.ledger import HOUR_MS
from reconcile.logic.places import Place, places
from reconcile.logic.suspects import Suspect
from reconcile.logic.testimony import Found, Link, Record, Row
from reconcile.logic.times import mistimed
from reconcile.spark.cells import CELL, LINKS, in_cell, is_message, keeps_time, moment_ms
from reconcile.spark.lookup import Of, OfHours

Spot = tuple[str, int, int, int]
"""Topic, shard, offset and due time of the record that is carried on."""

AT_ONCE = 50_000
"""Places whose rows are held in memory."""

_SPOT = ["topic", "shard", "offset", "due_ms"]


def unkept(cells: Sequence[Suspect], staged: Of) -> Iterator[Spot]:
    """Of cells in which what keeps the time does not cancel out: re-appends that should, and do not."""
    links = _of_cells(staged(LINKS, "links"), F.col("due_ms"), cells).where("by_due_ms <> due_ms")
    rows = _of_cells(staged(DONE, "done"), moment_ms(), cells).where(keeps_time())
    yield from _spots(links.join(rows.select(*_SPOT), _SPOT, "left_semi"))


def unlike(cells: Sequence[Suspect], staged: Of) -> Iterator[Spot]:
    """Of cells that have re-appends and deadlines: re-appends with another deadline than the record before. As
    `times.mistimed` has it."""
    mortal = staged(ACCEPTED, "accepted").where(is_message() & F.col("expires_ms").isNotNull())
    links = _of_cells(staged(LINKS, "links"), F.col("due_ms"), cells)
    both = links.join(mortal.select(*_SPOT, "expires_ms"), _SPOT, "left")
    expires, by = F.col("expires_ms"), F.col("by_expires_ms")
    behind = F.least(F.col("by_due_ms") + expires - F.col("due_ms"), F.lit(MOMENT_MAX_MS))
    moved = F.when(expires.isNotNull(), behind)  # `least` skips nulls
    is_cut = F.coalesce(expires == MOMENT_MAX_MS, F.lit(False))
    yield from _spots(both.where(~by.eqNullSafe(expires) & ~by.eqNullSafe(moved) & ~is_cut))


def elsewhere(links: DataFrame, moved: DataFrame) -> Iterator[Spot]:
    """Re-appends of records that an operation has moved, and not to their time. Rows by `LINKS` and
    `pairing.MOVED`."""
    yield from _spots(links.join(moved, _SPOT).where("by_due_ms <> moves_to_ms"))


def judged(spots: Iterable[Spot], staged: OfHours, moved: DataFrame) -> Iterator[Found]:
    """What is wrong with the times there. `moved` has at least the rows of those places."""
    every = sorted(set(spots))
    for part in (every[start : start + AT_ONCE] for start in range(0, len(every), AT_ONCE)):
        of = staged(sorted({due_ms // HOUR_MS for *_, due_ms in part}))
        table = F.broadcast(small(moved.sparkSession, part, "topic string, shard int, offset long, due_ms long"))
        moves: dict[Spot, set[int]] = {}
        for *spot, to_ms in _rows(table, moved, (*_SPOT, "moves_to_ms")):
            moves.setdefault(tuple(spot), set()).add(to_ms)
        accepted = (Record(*columns) for columns in _rows(table, of(ACCEPTED, "accepted"), Record._fields))
        links = (Link(*columns) for columns in _rows(table, of(LINKS, "links"), Link._fields))
        rows = (Row(*columns) for columns in _rows(table, of(DONE, "done"), Row._fields))
        for place in places(accepted, links, rows):
            found = mistimed(place, moves.get(_spot(place), ()))
            if found is not None:
                yield found


def _spot(place: Place) -> Spot:
    return place.topic, place.shard, place.offset, place.moment_ms


def _spots(found: DataFrame) -> Iterator[Spot]:
    yield from rows_of(found.select(*_SPOT).toArrow())


def _rows(table: DataFrame, rows: DataFrame, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return rows_of(rows.join(table, _SPOT, "left_semi").select(*columns).toArrow())


def _of_cells(rows: DataFrame, moment: Column, cells: Sequence[Suspect]) -> DataFrame:
    table = small(rows.sparkSession, [one[:3] for one in cells], "topic string, window_ms long, bucket int")
    return in_cell(rows, moment).join(F.broadcast(table), list(CELL), "left_semi")
