"""How runs have gone, one beside the other."""

import pytest
from msgspec.structs import replace

from reconcile.errors import BadInput
from reconcile.report.page import render_page
from reconcile.report.summary import (
    Ledger,
    Point,
    Summary,
    TopicSummary,
    WindowSummary,
    decode_summary,
    encode_summary,
)
from reconcile.report.trend import HEIGHT_PX, POINTS_MAX, SLOT_PX, draw, extended, point_of
from tests.unit.reconcile.made_up import AT_MS, CLUSTER, summary, trend
from tests.unit.reconcile.markup import Markup


def topic(accepted: int, delivered: int, name: str = "orders", **fresh: int) -> TopicSummary:
    return TopicSummary(topic=name, ledger=Ledger(accepted=accepted, delivered=delivered), fresh=fresh)


def summary_of(run: int, *topics: TopicSummary, line: list[Point] | None = None) -> Summary:
    return Summary(
        cluster=CLUSTER, run=run, at_ms=AT_MS, exit_code=0, seconds=1, topics=list(topics), trend=line or []
    )


def window(run: int, *lateness: int) -> WindowSummary:
    return WindowSummary(topic="orders", window_ms=AT_MS, run=run, lateness=list(lateness))


def test_a_run_is_what_it_has_added_to_the_run_before() -> None:
    before = summary_of(4, topic(100, 90), topic(5, 5, "mail"))
    topics = [topic(130, 95, late=2, missing=1), topic(5, 5, "mail"), topic(7, 1, "new")]
    windows = [window(5, 0, 1, 96), window(5, 0, 1, 0, 0, 2), window(4, 0, 0, 0, 0, 0, 0, 900)]
    assert point_of(5, AT_MS, 2, topics, windows, before) == Point(
        run=5,
        at_ms=AT_MS,
        exit_code=2,
        findings=3,
        accepted=37,
        delivered=6,
        half_ms=4,  # 96 of 100 less than that
        nearly_all_ms=16,  # 98 less than 4 ms, and 2 less than 16 ms
    )


def test_the_first_run_has_no_run_before_it() -> None:
    point = point_of(1, AT_MS, 0, [topic(130, 95)], [], None)
    assert (point.accepted, point.delivered, point.half_ms, point.nearly_all_ms) == (130, 95, None, None)


def test_what_is_not_known_is_not_guessed() -> None:
    point = point_of(9, AT_MS, 0, [topic(130, 95)], [], None)
    assert (point.accepted, point.delivered) == (None, None)


def test_the_line_of_runs_goes_on_and_is_bounded() -> None:
    line: list[Point] = []
    for run in range(1, 2 * POINTS_MAX + 1):
        line = extended(summary_of(run - 1, line=line), Point(run=run, at_ms=0, exit_code=0))
    assert [point.run for point in line] == list(range(POINTS_MAX + 1, 2 * POINTS_MAX + 1))


def test_the_line_of_runs_begins_anew_without_a_summary() -> None:
    point = Point(run=9, at_ms=0, exit_code=0)
    assert extended(None, point) == [point]
    assert extended(summary_of(8), point) == [point]  # of a version that had no line


def test_a_run_stands_in_the_line_once() -> None:
    """A run that was killed behind its report is repeated."""
    point = Point(run=8, at_ms=0, exit_code=0)
    line = extended(summary_of(8, line=[point]), replace(point, findings=1))
    assert line == [replace(point, findings=1)]


def test_a_summary_without_a_line_can_be_read() -> None:
    data = encode_summary(summary_of(3)).replace(b',\n  "trend": []', b"")
    assert b"trend" not in data
    assert decode_summary(data).trend == []


def test_a_line_that_is_none_makes_a_summary_unreadable() -> None:
    with pytest.raises(BadInput):
        decode_summary(encode_summary(summary_of(3)).replace(b'"trend": []', b'"trend": [{"run": "x"}]'))


@pytest.mark.parametrize("points", [[], trend(1)])
def test_there_is_nothing_to_compare_one_run_with(points: list[Point]) -> None:
    assert draw(points) is None
    page = render_page(summary_of(3, topic(1, 1), line=points)).decode()
    assert 'id="trend"' not in page


def test_every_bar_lies_in_its_picture() -> None:
    points = [*trend(60), Point(run=8, at_ms=AT_MS, exit_code=2, findings=10**9, half_ms=2**40, nearly_all_ms=2**50)]
    drawn = draw(points)
    assert drawn is not None
    assert (drawn.first, drawn.last, drawn.width) == (8 - POINTS_MAX + 1, 8, POINTS_MAX * SLOT_PX)
    for chart in drawn.charts:
        assert chart.bars
        for bar in chart.bars:
            assert bar.x >= 0
            assert bar.x + bar.width <= drawn.width
            assert bar.y >= 0
            assert bar.height >= 2
            assert bar.y + bar.height == pytest.approx(HEIGHT_PX)
            assert bar.kind in [kind for kind, _ in chart.legend]


def test_the_pictures_agree_with_the_numbers() -> None:
    points = [
        Point(run=1, at_ms=AT_MS, exit_code=2, findings=4, accepted=10, delivered=5, half_ms=8, nearly_all_ms=1024),
        Point(run=2, at_ms=AT_MS, exit_code=3),
        Point(run=3, at_ms=AT_MS, exit_code=2, findings=2, accepted=0, delivered=5),
    ]
    drawn = draw(points)
    assert drawn is not None
    findings, lateness, volumes = drawn.charts
    assert [(bar.x, bar.height, bar.kind) for bar in findings.bars] == [
        (0, 60, "lost"),
        (SLOT_PX, 15, "unknown"),
        (2 * SLOT_PX, 30, "lost"),
    ]
    assert findings.bars[0].title == "run 1, 2026-01-01 00:00: 4 findings"
    assert [bar.title.partition(": ")[2] for bar in lateness.bars] == [
        "99 % less than 1.02 s late",
        "half less than 8 ms late",
    ]
    assert lateness.caption == "nothing was delivered in the windows of the last run"
    assert [(bar.x, bar.height, bar.kind) for bar in volumes.bars] == [
        (0, 60, "second"),
        (SLOT_PX / 2, 30, "bar"),
        (2 * SLOT_PX + SLOT_PX / 2, 30, "bar"),
    ]
    assert volumes.caption == "0 accepted and 5 delivered in the last run"


def test_the_page_has_the_pictures_and_the_numbers() -> None:
    page = Markup(render_page(summary()).decode())
    heading, *rows = page.tables["trend"]
    assert (heading[0], len(rows), rows[0][:4]) == ("Run", 7, ["7", "2026-01-01 00:00", "2", "20"])
    assert "script" not in page.tags
    assert "Runs 1 to 7, the newest on the right." in page.text
