"""The picture of topics and windows: a strip for each topic, time from the left to the right.

So many windows become one column that a day or a year has the same width; a column is as bad as the worst of its
windows. Neighbours that are clean are one rectangle, so that a page stays small.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from reconcile.logic.ledger import WINDOW_MS
from reconcile.report.labels import LETTERS, SEVERITIES, counted, minute, urgency, worst
from reconcile.report.summary import TopicSummary, WindowSummary

COLUMNS_MAX = 96
STRIP_PX = 18
COLUMN_MIN_PX, COLUMN_MAX_PX, WIDTH_PX = 10, 60, 960

STRIPS_MAX = 40
"""Of topics; those in which something was found come first."""

_STEPS = (1, 2, 3, 4, 6, 12, 24, 36, 72, 144, 288)
"""Windows in a column: five minutes to a day; longer times take a multiple of a day."""


class Block(NamedTuple):
    """Columns beside each other that look the same. `severity` is a class of the style: clean, off, wrong, lost or
    unknown."""

    x: int
    width: int
    severity: str
    letter: str
    title: str


class Strip(NamedTuple):
    topic: str
    label: str  # for those who do not see it
    blocks: Sequence[Block]


class Picture(NamedTuple):
    """`left_out`: topics beyond those that have a strip."""

    start: str
    end: str
    step_ms: int
    column_px: int
    width: int
    strips: Sequence[Strip]
    left_out: int


def draw(topics: Iterable[TopicSummary], windows: Iterable[WindowSummary]) -> Picture | None:
    """None where nothing has been judged."""
    by_topic: dict[str, list[WindowSummary]] = defaultdict(list)
    for window in windows:
        by_topic[window.topic].append(window)
    names = [topic.topic for topic in sorted(topics, key=urgency) if topic.topic in by_topic]
    if not names:
        return None
    shown = names[:STRIPS_MAX]
    moments = [window.window_ms for name in shown for window in by_topic[name]]
    axis = _axis(min(moments), max(moments) + WINDOW_MS)
    strips = [_strip(name, by_topic[name], axis) for name in shown]
    return Picture(
        minute(axis.start_ms),
        minute(axis.end_ms),
        axis.step_ms,
        axis.column_px,
        axis.columns * axis.column_px,
        strips,
        len(names) - len(shown),
    )


class _Axis(NamedTuple):
    start_ms: int
    step_ms: int
    columns: int

    @property
    def column_px(self) -> int:
        return min(max(WIDTH_PX // self.columns, COLUMN_MIN_PX), COLUMN_MAX_PX)

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.columns * self.step_ms

    def moment_ms(self, column: int) -> int:
        return self.start_ms + column * self.step_ms


def _axis(start_ms: int, end_ms: int) -> _Axis:
    """At most `COLUMNS_MAX` columns, each beginning at a multiple of its width."""
    needed = -(-(end_ms - start_ms) // (COLUMNS_MAX - 1) // WINDOW_MS)
    day = _STEPS[-1]
    step = next((step for step in _STEPS if step >= needed), -(-needed // day) * day) * WINDOW_MS
    first, last = start_ms // step, (end_ms - 1) // step
    return _Axis(first * step, step, last - first + 1)


def _strip(name: str, windows: Sequence[WindowSummary], axis: _Axis) -> Strip:
    columns: dict[int, dict[str, int]] = defaultdict(dict)
    for window in windows:
        _add(columns[(window.window_ms - axis.start_ms) // axis.step_ms], window.findings)
    dirty = sum(1 for window in windows if worst(window.findings))
    label = f"{name}: {len(windows):,} windows, {dirty:,} of them not clean"
    return Strip(name, label, [_block(run, columns, axis) for run in _runs(columns)])


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for category, count in more.items():
        counts[category] = counts.get(category, 0) + count


def _runs(columns: Mapping[int, dict[str, int]]) -> list[list[int]]:
    """Neighbours that are all clean, or one that is not."""
    ordered = sorted(columns)
    keyed = ((column, n - column if worst(columns[column]) is None else None) for n, column in enumerate(ordered))
    runs: list[list[int]] = []
    for key, group in groupby(keyed, lambda pair: pair[1]):
        members = [column for column, _ in group]
        runs += [[column] for column in members] if key is None else [members]
    return runs


def _block(run: Sequence[int], columns: Mapping[int, dict[str, int]], axis: _Axis) -> Block:
    found = columns[run[0]]
    category = worst(found)
    severity, letter = ("clean", "") if category is None else (SEVERITIES[category], LETTERS[category])
    title = f"{minute(axis.moment_ms(run[0]))} to {minute(axis.moment_ms(run[-1] + 1))}: {counted(found) or 'clean'}"
    return Block(run[0] * axis.column_px, len(run) * axis.column_px, severity, letter, title)
