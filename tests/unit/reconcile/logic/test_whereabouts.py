"""Where the rows of an hour lie, over many runs: in few folders, and each row is written a few times at most."""

from collections import Counter

from reconcile.logic.manifest import with_run
from reconcile.logic.whereabouts import CELLS, DONE, MERGE_AT, Whereabouts, after, folder, to_merge

RUNS = 3_000
HOURS = [490_896, 490_897, 490_911]


def test_an_hour_has_few_folders_however_many_runs_have_added_to_it() -> None:
    where, most, rewritten = Whereabouts({}, {}), 0, Counter[int]()
    held: dict[str, int] = {}  # rows by folder
    for run in range(1, RUNS + 1):
        where = where._replace(rows=with_run(dict(where.rows), HOURS, run))
        held |= {folder(CELLS, run, hour): 1 for hour in HOURS}
        done = list(to_merge(where, run))
        where = after(where, done, run)
        for one in done:
            rows = sum(held.pop(source) for source in one.sources(CELLS))
            held[where.folders(CELLS, [one.hour])[len(where.merged[one.hour]) - 1]] = rows
            rewritten[one.hour] += rows
        most = max([most, *(len(where.folders(CELLS, [hour])) for hour in HOURS)])
        assert sorted(held) == sorted(where.folders(CELLS, HOURS))
    assert sum(held.values()) == RUNS * len(HOURS)
    assert MERGE_AT < most <= 4 * MERGE_AT
    assert max(rewritten.values()) <= 3 * RUNS


def test_no_run_merges_every_hour() -> None:
    hours = range(490_000, 490_000 + 720)
    spans = {hour: [(1, 40)] for hour in hours}
    assert [len(list(to_merge(Whereabouts(spans, {}), run))) for run in (40, 41)] == [720 // MERGE_AT] * 2


def test_folders_are_those_of_runs_and_of_merges() -> None:
    where = Whereabouts({7: [(3, 4)]}, {})
    assert where.folders(DONE, [7, 8]) == [f"stage/run={run}/done/lot=counted/hour=7" for run in (3, 4)]
    merged = after(Whereabouts({7: [(1, 16)]}, {}), to_merge(Whereabouts({7: [(1, 16)]}, {}), 9), 9)
    assert merged.folders(CELLS, [7]) == ["merged/run=9/cells/hour=7"]
