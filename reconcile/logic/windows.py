"""Windows as they are judged: what is in their cells, and what was found in them. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconcile.logic import row_kind
from reconcile.logic.ledger import INSTRUCTIONS, LATENESS_BINS, OUTCOMES, SKIPPED, Category
from reconcile.logic.manifest import Judged, Totals
from reconcile.logic.testimony import Found

COUNTS = ("accepted", "others", "done", "links", "carried", "given_way")
MESSAGE_OUTCOMES = tuple(name for name in OUTCOMES if name not in INSTRUCTIONS)
UNANSWERED = ("unanswered", "unanswered_unauditable", "unanswered_skipped", "surplus")

Place = tuple[str, int]
"""Topic and window."""


@dataclass
class Tally:
    """The counts of a window's cells: `COUNTS` (`others` of the `accepted` are no messages; `links` are counted from
    re-appends, `carried` by outcome rows; `given_way` have ended for another message), the outcomes, how late what
    was delivered was, by bin, and its cells as bits."""

    counts: Counter[str] = field(default_factory=Counter)
    lateness: list[int] = field(default_factory=lambda: [0] * LATENESS_BINS)
    late_max_ms: int | None = None
    buckets: int = 0

    def add(self, number: int, count: int, late_max_ms: int | None = None, buckets: int = 0) -> None:
        """`count` rows of the kind `number` (`row_kind.py`)."""
        one = row_kind.decoded(number)
        self.buckets |= buckets
        if late_max_ms is not None:
            self.late_max_ms = max(self.late_max_ms, late_max_ms) if self.late_max_ms is not None else late_max_ms
        if one.bin is not None:
            self.lateness[one.bin] += count
        for name in _counters(one):
            self.counts[name] += count

    @property
    def totals(self) -> Totals:
        counts = self.counts
        outcomes = {name: counts[name] for name in MESSAGE_OUTCOMES if counts[name]}
        return Totals(accepted=counts["accepted"] - counts["others"], others=counts["others"], outcomes=outcomes)


def _counters(one: row_kind.RowKind) -> Iterator[str]:
    if one.is_accepted:
        yield "accepted"
        if one.what == row_kind.OTHER:
            yield "others"
    elif one.what == row_kind.LINK:
        yield "links"
    else:
        yield "done"
        yield from [one.outcome] if one.outcome else []
    if one.is_carried:
        yield "carried"
    if one.gives_way:
        yield "given_way"


@dataclass
class Window:
    """One judgement of one window; columns as in `schemas.WINDOWS`."""

    topic: str
    window_ms: int
    tally: Tally
    run: int
    version: int = 1
    dirty_cells: int = 0
    found: Counter[str] = field(default_factory=Counter)  # categories, and UNANSWERED

    def add(self, one: Found) -> None:
        self.found[one.category] += 1
        is_absent = one.due_ms is not None and one.done_ms is None
        if (is_absent and one.category == Category.MISSING) or one.surplus < 0:
            self.found["unanswered"] += 1
        if is_absent and one.category == Category.UNAUDITABLE:
            self.found["unanswered_unauditable"] += 1
        if is_absent and one.category == SKIPPED:
            self.found["unanswered_skipped"] += 1
        self.found["surplus"] += max(one.surplus, 0)

    @property
    def row(self) -> dict[str, Any]:
        """By `schemas.WINDOWS`."""
        counts = self.tally.counts
        return {
            "topic": self.topic,
            "window_ms": self.window_ms,
            "version": self.version,
            "run": self.run,
            **{name: counts[name] for name in (*COUNTS, *OUTCOMES)},
            "lateness": self.tally.lateness,
            "late_max_ms": self.tally.late_max_ms,
            "cells": self.tally.buckets.bit_count(),
            "dirty_cells": self.dirty_cells,
            **{str(name): self.found[name] for name in (*Category, *UNANSWERED)},
        }


def sums(rows: Iterable[Mapping[str, Any]]) -> dict[str, Judged]:
    """By topic, of rows by `schemas.WINDOWS`."""
    found: dict[str, Judged] = {}
    for row in rows:
        found[row["topic"]] = found.get(row["topic"], Judged()) + _judged(row)
    return found


def _judged(row: Mapping[str, Any]) -> Judged:
    return Judged(
        windows=1,
        accepted=row["accepted"] - row["others"],
        done=sum(row[name] for name in MESSAGE_OUTCOMES),
        findings={category.value: row[category] for category in Category if row[category]},
        **{name: row[name] for name in UNANSWERED},
    )


def latest(rows: Iterable[Mapping[str, Any]]) -> dict[Place, Mapping[str, Any]]:
    """Of several judgements of a window, the last one."""
    found: dict[Place, Mapping[str, Any]] = {}
    for row in rows:
        place = row["topic"], row["window_ms"]
        if place not in found or found[place]["version"] < row["version"]:
            found[place] = row
    return found
