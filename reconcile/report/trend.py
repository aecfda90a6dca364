"""How runs have gone, one beside the other: findings, lateness, volumes, as small pictures.

A summary carries the line of runs on from the one before it, so nothing is read that grows with the history.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from reconcile.exits import Exit
from reconcile.logic.ledger import LATENESS_BINS
from reconcile.report.labels import about, minute
from reconcile.report.lateness import quantile_ms
from reconcile.report.summary import Point, Summary, TopicSummary, WindowSummary

POINTS_MAX = 50
"""Runs: a day of one in half an hour, and what has room in a third of the page."""

SLOT_PX, HEIGHT_PX = 6, 60
_LEAST_PX = 2.0
"""What is not nothing can be seen."""


class ChartBar(NamedTuple):
    """`kind`: a class of the style."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


class Chart(NamedTuple):
    """`caption` of the last run; `legend`: class and name of what is drawn."""

    title: str
    caption: str
    legend: Sequence[tuple[str, str]]
    bars: Sequence[ChartBar]


class Trend(NamedTuple):
    first: int  # run
    last: int
    width: int
    height: int
    charts: Sequence[Chart]
    points: Sequence[Point]


def point_of(
    run: int,
    at_ms: int,
    exit_code: int,
    topics: Sequence[TopicSummary],
    windows: Iterable[WindowSummary],
    before: Summary | None,
) -> Point:
    """Of a run, with the summary of the run `before` it; None where that is not known."""
    accepted, delivered = _volumes(topics)
    known = (0, 0) if run == 1 else None if before is None else _volumes(before.topics)
    judged = [window for window in windows if window.run == run]
    counts = [sum(column) for column in zip_longest(*(window.lateness for window in judged), fillvalue=0)]
    return Point(
        run=run,
        at_ms=at_ms,
        exit_code=int(exit_code),
        findings=sum(sum(topic.fresh.values()) for topic in topics),
        accepted=None if known is None else accepted - known[0],
        delivered=None if known is None else delivered - known[1],
        half_ms=quantile_ms(counts, 0.5),
        nearly_all_ms=quantile_ms(counts, 0.99),
    )


def _volumes(topics: Iterable[TopicSummary]) -> tuple[int, int]:
    ledgers = [topic.ledger for topic in topics]
    return sum(ledger.accepted for ledger in ledgers), sum(ledger.delivered for ledger in ledgers)


def extended(before: Summary | None, point: Point) -> list[Point]:
    """The newest runs, in their order."""
    earlier = [one for one in before.trend if one.run < point.run] if before else []
    return [*earlier, point][-POINTS_MAX:]


def draw(points: Sequence[Point]) -> Trend | None:
    """None where there is nothing to compare."""
    points = points[-POINTS_MAX:]
    if len(points) < 2:
        return None
    charts = [_findings(points), _lateness(points), _volumes_chart(points)]
    return Trend(points[0].run, points[-1].run, len(points) * SLOT_PX, HEIGHT_PX, charts, points)


def _findings(points: Sequence[Point]) -> Chart:
    most = max(point.findings for point in points)
    bars = []
    for slot, point in enumerate(points):
        if point.findings:
            bars.append(_bar(slot, point.findings / most, "lost", f"{_named(point)}: {point.findings:,} findings"))
        elif point.exit_code == Exit.CANNOT_JUDGE:
            bars.append(_bar(slot, 0.25, "unknown", f"{_named(point)}: something could not be judged"))
    caption = f"{points[-1].findings:,} in the last run, {most:,} at most"
    return Chart("Findings", caption, [("lost", "findings"), ("unknown", "could not be judged")], bars)


def _lateness(points: Sequence[Point]) -> Chart:
    """By powers of two, as the histogram has them: each doubling is one step up."""
    bars = []
    for slot, point in enumerate(points):
        for kind, name, below_ms in (("second", "99 %", point.nearly_all_ms), ("bar", "half", point.half_ms)):
            if below_ms is not None:
                title = f"{_named(point)}: {name} less than {about(below_ms)} late"
                bars.append(_bar(slot, below_ms.bit_length() / LATENESS_BINS, kind, title))
    last = points[-1]
    caption = "nothing was delivered in the windows of the last run"
    if last.half_ms is not None and last.nearly_all_ms is not None:
        caption = f"in the last run half less than {about(last.half_ms)}, 99 % less than {about(last.nearly_all_ms)}"
    return Chart(
        "Lateness, in doublings", caption, [("bar", "half of the messages"), ("second", "99 % of them")], bars
    )


def _volumes_chart(points: Sequence[Point]) -> Chart:
    most = max(count or 0 for point in points for count in (point.accepted, point.delivered))
    bars = []
    for slot, point in enumerate(points):
        sides = ((0.0, "second", "accepted", point.accepted), (0.5, "bar", "delivered", point.delivered))
        for side, kind, name, count in sides:
            if count:
                title = f"{_named(point)}: {count:,} {name}"
                bars.append(_bar(slot + side, count / most, kind, title, SLOT_PX / 2 - 0.5))
    caption = (
        f"{_counted(points[-1].accepted)} accepted and {_counted(points[-1].delivered)} delivered in the last run"
    )
    return Chart("Messages of each run", caption, [("second", "accepted"), ("bar", "delivered")], bars)


def _bar(slot: float, share: float, kind: str, title: str, width: float = SLOT_PX - 1) -> ChartBar:
    height = round(min(max(share * HEIGHT_PX, _LEAST_PX), HEIGHT_PX), 2)
    return ChartBar(slot * SLOT_PX, round(HEIGHT_PX - height, 2), width, height, kind, title)


def _named(point: Point) -> str:
    return f"run {point.run}, {minute(point.at_ms)}"


def _counted(count: int | None) -> str:
    return "an unknown number" if count is None else f"{count:,}"
