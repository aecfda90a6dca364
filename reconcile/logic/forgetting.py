"""Of which hours a run drops the staged rows (`--keep-rows`). Pure.

A cell that agrees has given all that it can: of its rows only the counts are needed, which it holds. Cells in which
something was wrong, or was looked into, keep their rows: a late row may still set them right. So what is dropped
leaves nothing behind in any XOR, and a cell is judged by the rows that are kept and those that come.

What comes later for a record that was dropped finds nothing there. It cannot be known then whether it is a second
outcome or one of a record that was never accepted: it is `unauditable` (places.py).

A floor under due times would be wrong: a message may be sent with a due time of years ago. So rows count by when they
were read, and an hour that gets rows again has them dropped in their turn.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from reconcile.logic.advance import Judgement, Task
from reconcile.logic.ledger import HOUR_MS
from reconcile.logic.whereabouts import Merged, Whereabouts, after

HOURS_AT_ONCE = REPORTS_AT_ONCE = 100
"""So many in one run at most: a directory that gets the option late has thousands."""

_LEVEL = 1
"""Of what is kept, for later merging: it is little."""


def to_forget(task: Task, judgement: Judgement, keep_ms: int, read_at_ms: Callable[[int], int]) -> Iterator[Merged]:
    """Hours that are closed, settled and as old as that, and whose rows are. `read_at_ms` of a run: when it looked at
    the queue."""
    where, before_ms = task.where, task.at_ms - keep_ms
    closed_ms = min((min(one.until_ms, one.now_ms) for one in task.closings.values()), default=0)
    restless = _restless(task, judgement)
    for hour in sorted({*where.rows, *where.merged}):
        if (hour + 1) * HOUR_MS > min(before_ms, closed_ms) or hour in restless:
            continue
        one = Merged(hour, _LEVEL, where.runs_of(hour), list(where.merged.get(hour, ())))
        last = max(_runs(one))
        is_old = last < task.run and read_at_ms(last) <= before_ms
        if is_old and _is_fresh(one, where.forgotten.get(hour, ())):
            yield one


def reports_from(task: Task, keep_ms: int, read_at_ms: Callable[[int], int]) -> int:
    """The first run whose report is kept: the last one's always is, which the next run copies and goes on from."""
    first = task.reports_from
    last = min(first + REPORTS_AT_ONCE, task.run - 1)
    return next((run for run in range(first, last) if read_at_ms(run) > task.at_ms - keep_ms), max(first, last))


def reports_of(runs: Iterable[int]) -> list[str]:
    """What no later run reads of them."""
    return [name for run in runs for name in (f"runs/{run}", f"plan-{run}.json", f"reads-{run}.json")]


def _restless(task: Task, judgement: Judgement) -> set[int]:
    """Hours with windows that this run has judged, or that wait to be judged again."""
    waiting = [window for due in task.due.values() for window in (*due.again, *due.later)]
    waiting += [window for windows in judgement.unsettled.values() for window in windows]
    return {*judgement.hours, *(window // HOUR_MS for window in waiting)}


def _is_fresh(one: Merged, forgotten: Collection[int]) -> bool:
    """Whether it is more than what an earlier run has kept of the hour."""
    return bool(one.runs) or any(merge.run not in forgotten for merge in one.merges)


def _runs(one: Merged) -> list[int]:
    return [*one.runs, *(merge.run for merge in one.merges)]


def after_forgetting(where: Whereabouts, done: Iterable[Merged], run: int) -> Whereabouts:
    """Where everything is when `run` has dropped rows of these hours."""
    done = list(done)
    forgotten = {one.hour: [*where.forgotten.get(one.hour, ()), run] for one in done}
    return after(where, done, run)._replace(forgotten=dict(sorted({**where.forgotten, **forgotten}.items())))
