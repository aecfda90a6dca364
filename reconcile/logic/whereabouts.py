"""In which folders the rows of an hour lie.

cells/run=<run>/hour=<hour>           and stage/run=<run>/<kind>/hour=<hour>, as a run has written them
merged/run=<run>/<kind>/hour=<hour>   what that run has put together of small folders of earlier ones, or has kept of
                                      an hour whose other rows it has dropped (forgetting.py)

An hour far ahead gets a few rows from each of many runs: without merging, a month of runs would leave thousands of
files for it. Folders are merged by levels, as a log-structured merge tree does (O'Neil et al., 1996): `MERGE_AT`
folders of runs make one of the first level, as many of those one of the second, so that a row is written again once
or twice in its life. Of the hours a run looks at one in `MERGE_AT` only: no run pays for all of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from reconcile.logic.manifest import Manifest, Merge, Spans, runs_in

CELLS, ACCEPTED, LINKS, DONE = "cells", "accepted", "links", "done"
KINDS = (CELLS, ACCEPTED, LINKS, DONE)
"""Of rows. `done`: those that were counted."""

FORGOTTEN = "forgotten"
"""Cells whose rows were dropped. All of them agree."""

COUNTED = "counted"
"""The lot of those."""

MERGE_AT = 16


class Whereabouts(NamedTuple):
    """By hour: the runs that have rows there, but for what is merged; what is; and the runs that have dropped rows
    there."""

    rows: Mapping[int, Spans]
    merged: Mapping[int, Sequence[Merge]]
    forgotten: Mapping[int, Sequence[int]] = MappingProxyType({})

    @property
    def hours(self) -> list[int]:
        """Those that have any."""
        return sorted({*self.rows, *self.merged, *self.forgotten})

    def runs_of(self, hour: int) -> list[int]:
        """Those with rows there that are not merged."""
        return runs_in(self.rows.get(hour, []))

    def folders(self, kind: str, hours: Iterable[int]) -> list[str]:
        """All of these hours. Some may not exist: not each run has rows of each kind."""
        return [folder for hour in hours for folder in self._of_hour(kind, hour)]

    def _of_hour(self, kind: str, hour: int) -> Iterator[str]:
        if kind == FORGOTTEN:
            yield from (merged_folder(kind, run, hour) for run in self.forgotten.get(hour, ()))
            return
        yield from (merged_folder(kind, merge.run, hour) for merge in self.merged.get(hour, ()))
        yield from (folder(kind, run, hour) for run in self.runs_of(hour))


def where_of(manifest: Manifest | None) -> Whereabouts:
    return Whereabouts(manifest.rows, manifest.merged, manifest.forgotten) if manifest else Whereabouts({}, {})


class Merged(NamedTuple):
    """What is merged of an hour: folders of `runs`, and earlier `merges`, into one of `level`."""

    hour: int
    level: int
    runs: list[int]
    merges: list[Merge]

    def sources(self, kind: str) -> list[str]:
        own = [folder(kind, run, self.hour) for run in self.runs]
        return [*(merged_folder(kind, merge.run, self.hour) for merge in self.merges), *own]


def folder(kind: str, run: int, hour: int) -> str:
    if kind == CELLS:
        return f"cells/run={run}/hour={hour}"
    below = f"{DONE}/lot={COUNTED}" if kind == DONE else kind
    return f"stage/run={run}/{below}/hour={hour}"


def merged_folder(kind: str, run: int, hour: int) -> str:
    return f"merged/run={run}/{kind}/hour={hour}"


def to_merge(where: Whereabouts, run: int) -> Iterator[Merged]:
    """What a run merges before it ends."""
    for hour, spans in where.rows.items():
        runs = runs_in(spans)
        if (hour + run) % MERGE_AT or len(runs) < MERGE_AT:
            continue  # most hours, in most runs
        level, merges = 1, list[Merge]()
        known = where.merged.get(hour, ())
        while len(same := [merge for merge in known if merge.level == level]) >= MERGE_AT - 1:
            merges += same
            level += 1
        yield Merged(hour, level, runs, merges)


def after(where: Whereabouts, done: Iterable[Merged], run: int) -> Whereabouts:
    """Where everything is when `run` has merged that."""
    rows, merged = dict(where.rows), dict(where.merged)
    for one in done:
        rows.pop(one.hour, None)
        kept = [merge for merge in merged.get(one.hour, ()) if merge not in one.merges]
        merged[one.hour] = [*kept, Merge(run, one.level)]
    return where._replace(rows=rows, merged=merged)
