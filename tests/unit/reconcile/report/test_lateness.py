"""The histogram of lateness."""

import pytest

from reconcile.report.labels import about
from reconcile.report.lateness import Bar, lateness
from reconcile.report.summary import WindowSummary


def of(*counts: int, late_max_ms: int | None = None) -> WindowSummary:
    return WindowSummary(topic="t", window_ms=0, lateness=list(counts), late_max_ms=late_max_ms)


def test_nothing_delivered_is_no_histogram() -> None:
    assert lateness([]) is None
    assert lateness([of(), of(0, 0)]) is None


def test_windows_add_up_whatever_their_length() -> None:
    figures = lateness([of(0, 1, 2, late_max_ms=3), of(0, 3), of(0, 0, 0, 0, 6, late_max_ms=15)])
    assert figures is not None
    assert figures.delivered == 12
    assert figures.longest == "15 ms"
    assert figures.bars == [
        Bar("1 ms to 2 ms", 4, 66.67),
        Bar("2 ms to 4 ms", 2, 33.33),
        Bar("4 ms to 8 ms", 0, 0.0),
        Bar("8 ms to 16 ms", 6, 100.0),
    ]


def test_shares_are_known_by_the_bin_in_which_they_are_reached() -> None:
    figures = lateness([of(50, 48, 1, 0, 0, 1)])
    assert figures is not None
    assert (figures.half, figures.nearly_all) == ("less than 1 ms", "less than 4 ms")
    assert figures.bars[0].label == "less than 1 ms"


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1024, "1.02 s"), (2**20, "17.5 min"), (2**24, "4.66 h"), (2**37, "1,590 d")],
)
def test_a_duration_is_shown_in_the_largest_unit(duration_ms: int, text: str) -> None:
    assert about(duration_ms) == text
