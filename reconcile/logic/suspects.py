"""Cells in which something may be wrong, and what is wrong in them. Pure: Spark finds the cells (cells.py) and the
rows behind them (lookup.py).

A cell is clean when its counts agree and its XORs are zero; XORs alone would not do, being blind to what comes twice.
Where exactly one record of a cell was accepted and not done, the XORs are that record's own: it is named without
looking at any row. Everything else that is dirty is looked up.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from reconcile.logic.ledger import NO_OUTCOME, POSITION_BITS, Category
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.logic.places import Rules, judged, places, untimely
from reconcile.logic.testimony import Found, Link, Record, Row

DIRTY, NAMED, UNTIMELY, MORTAL, GIVES_WAY, UNKEPT, DEADLINES = 1, 2, 4, 8, 16, 32, 64
"""Why a cell is suspect: its sides differ, and then, whether the cell alone shows what is missing;
something was early or late; a deadline may have been missed, or something has expired; something has ended for
another message; something was to be carried on at the time that it had; it has both deadlines and re-appends."""


AT_ONCE = 200_000
"""Rows that are held in memory: some 100 MB."""

Offset = tuple[str, int, int]
"""Topic, shard and offset of a record."""


class Suspect(NamedTuple):
    """A cell, as `cells.suspects` gives it."""

    topic: str
    window_ms: int
    bucket: int
    flags: int
    accepted: int
    links: int
    done: int
    untimely: int
    given_way: int
    slack_min_ms: int | None
    xor_position: int
    xor_moment: int
    is_message: bool

    @property
    def is_dirty(self) -> bool:
        return bool(self.flags & DIRTY)

    @property
    def names_its_record(self) -> bool:
        return bool(self.flags & NAMED)

    @property
    def looks(self) -> bool:
        """Whether all its rows are to be compared."""
        return self.is_dirty and not self.names_its_record

    @property
    def is_mortal(self) -> bool:
        return bool(self.flags & MORTAL)

    @property
    def is_unkept(self) -> bool:
        return bool(self.flags & UNKEPT)

    @property
    def carries_deadlines(self) -> bool:
        return bool(self.flags & DEADLINES)

    @property
    def rows_max(self) -> int:
        """So many of its rows may be needed, but for deadlines."""
        if self.looks:
            return self.accepted + self.links + self.done
        return self.untimely + self.given_way


class Behind(NamedTuple):
    """Of cells: all rows of those that are looked into, outcome rows that were `untimely`, and those that
    have ended for another message (`given_way`)."""

    accepted: list[Record]
    links: list[Link]
    rows: list[Row]
    untimely: list[Row]
    given_way: list[Row]


def batches(suspects: Iterable[Suspect]) -> Iterator[list[Suspect]]:
    """Those of which rows are needed, so many that these can be held in memory."""
    batch: list[Suspect] = []
    size = 0
    for one in suspects:
        if one.rows_max:
            if batch and size + one.rows_max > AT_ONCE:
                yield batch
                batch, size = [], 0
            batch.append(one)
            size += one.rows_max
    if batch:
        yield batch


def named(suspects: Iterable[Suspect], partitions: Partitions = NUMBERS) -> Iterator[Found]:
    """What is missing, of cells that name it by themselves."""
    for cell in suspects:
        if not cell.names_its_record:
            continue
        shard, offset = cell.xor_position >> POSITION_BITS, cell.xor_position & ((1 << POSITION_BITS) - 1)
        moment_ms = cell.xor_moment
        yield Found(
            topic=cell.topic,
            window_ms=cell.window_ms,
            category=Category.MISSING.value,
            id=f"{cell.topic}.{partitions.name(shard)}.{offset}.{moment_ms}" if cell.is_message else None,
            shard=shard,
            offset=offset,
            due_ms=moment_ms if cell.is_message else None,
            accepted_ms=None if cell.is_message else moment_ms,
            done_ms=None,
            lateness_ms=None,
            surplus=0,
            detail=NO_OUTCOME,
        )


def judged_behind(behind: Behind, rules: Rules, moved_ms: Mapping[Offset, int]) -> Iterator[Found]:
    """What is wrong in these cells, but for deadlines and what ended for another message (`places.against_deadline`,
    `for_none_accepted`). `moved_ms`: of records that a client's move appended when they were due already, when that
    was."""
    for place in places(behind.accepted, behind.links, behind.rows):
        yield from judged(place, rules)
    for row in behind.untimely:
        found = untimely(row, rules.late_after_ms, moved_ms.get((row.topic, row.shard, row.offset)))
        if found is not None:
            yield found
