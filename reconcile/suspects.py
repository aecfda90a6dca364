"""Cells in which something may be wrong, and what is wrong in them. Pure: Spark finds the cells (cells.py) and the
rows behind them (lookup.py).

A cell is clean when its counts agree and its XORs are zero; XORs alone would not do, being blind to what comes twice.
Where exactly one record of a cell was accepted and not done, the XORs are that record's own: it is named without
looking at any row. Everything else that is dirty is looked up.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reconcile.ledger import NO_OUTCOME, POSITION_BITS, Category
from reconcile.places import Rules, against_deadlines, judged, places, untimely
from reconcile.testimony import Found, Link, Record, Row

DIRTY, NAMED, UNTIMELY, MORTAL, GIVES_WAY = 1, 2, 4, 8, 16
"""Why a cell is suspect: somebody says what nobody else says, and then, whether the cell alone tells what is missing;
something was early or late; a deadline may have been missed, or something has expired; something has ended for
another message."""


AT_ONCE = 200_000
"""Rows that are held in memory: some 100 MB."""


class Suspect(NamedTuple):
    """A cell, as `cells.suspects` gives it."""

    topic: str
    window_ms: int
    bucket: int
    flags: int
    accepted: int
    links: int
    done: int
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
        """Whether all that is said in it is to be held together."""
        return self.is_dirty and not self.names_its_record

    @property
    def is_mortal(self) -> bool:
        return bool(self.flags & MORTAL)

    @property
    def is_untimely(self) -> bool:
        return bool(self.flags & UNTIMELY)

    @property
    def gives_way(self) -> bool:
        return bool(self.flags & GIVES_WAY)

    @property
    def wanted(self) -> tuple[int, int, int]:
        """How many of its records, links and outcome rows are needed."""
        needs_rows = self.looks or bool(self.flags & (UNTIMELY | MORTAL | GIVES_WAY))
        needs_records = self.looks or self.is_mortal
        return self.accepted * needs_records, self.links * self.looks, self.done * needs_rows


class Behind(NamedTuple):
    """What stands in the cells of a batch, each with the cell's flags."""

    accepted: list[tuple[Suspect, Record]]
    links: list[tuple[Suspect, Link]]
    rows: list[tuple[Suspect, Row]]


def batches(suspects: Iterable[Suspect]) -> Iterator[list[Suspect]]:
    """Those of which rows are needed, so many that these can be held in memory."""
    batch: list[Suspect] = []
    size = 0
    for one in suspects:
        if rows := sum(one.wanted):
            if batch and size + rows > AT_ONCE:
                yield batch
                batch, size = [], 0
            batch.append(one)
            size += rows
    if batch:
        yield batch


def named(suspects: Iterable[Suspect]) -> Iterator[Found]:
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
            id=f"{cell.topic}.{shard}.{offset}.{moment_ms}" if cell.is_message else None,
            shard=shard,
            offset=offset,
            due_ms=moment_ms if cell.is_message else None,
            accepted_ms=None if cell.is_message else moment_ms,
            done_ms=None,
            lateness_ms=None,
            surplus=0,
            detail=NO_OUTCOME,
        )


def judged_behind(behind: Behind, rules: Rules) -> Iterator[Found]:
    """What is wrong in these cells, but for what ended for another message (`places.for_nobody`)."""
    for place in places(
        (record for cell, record in behind.accepted if cell.looks),
        (link for _, link in behind.links),
        (row for cell, row in behind.rows if cell.looks),
    ):
        yield from judged(place, rules)
    late = (untimely(row, rules.late_after_ms) for cell, row in behind.rows if cell.is_untimely)
    yield from (found for found in late if found is not None)
    mortal = (record for cell, record in behind.accepted if cell.is_mortal)
    yield from against_deadlines(mortal, (row for cell, row in behind.rows if cell.is_mortal))
