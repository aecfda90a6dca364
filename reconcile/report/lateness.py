"""How late messages were: a histogram in powers of two."""

from collections.abc import Iterable
from itertools import accumulate, zip_longest
from typing import NamedTuple

from reconcile.report.labels import about
from reconcile.report.summary import WindowSummary


class Bar(NamedTuple):
    """`label`: a range of lateness; `percent`: of the longest bar."""

    label: str
    messages: int
    percent: float


class Lateness(NamedTuple):
    """Of messages delivered in the windows that the report knows. Quantiles are upper bounds, as the histogram has
    them."""

    delivered: int
    half: str
    nearly_all: str  # 99 %
    longest: str
    bars: list[Bar]


def lateness(windows: Iterable[WindowSummary]) -> Lateness | None:
    """None where nothing was delivered."""
    windows = list(windows)
    counts = [sum(column) for column in zip_longest(*(window.lateness for window in windows), fillvalue=0)]
    total = sum(counts)
    if not total:
        return None
    longest_ms = max((window.late_max_ms for window in windows if window.late_max_ms is not None), default=0)
    half, nearly_all = (_below(_quantile(counts, share)) for share in (0.5, 0.99))
    return Lateness(total, half, nearly_all, about(max(longest_ms, 0)), _bars(counts))


def quantile_ms(counts: list[int], share: float) -> int | None:
    """An upper bound; None where nothing was delivered."""
    return 2 ** _quantile(counts, share) if any(counts) else None


def _quantile(counts: list[int], share: float) -> int:
    """The first bin below whose upper bound this share lies."""
    running = list(accumulate(counts))
    return next(index for index, count in enumerate(running) if count >= share * running[-1])


def _below(index: int) -> str:
    return f"less than {about(2**index)}"


def _bars(counts: list[int]) -> list[Bar]:
    """From the first bin that is not empty to the last one."""
    filled = [index for index, count in enumerate(counts) if count]
    most = max(counts)
    return [
        Bar(_range(index), counts[index], round(100 * counts[index] / most, 2))
        for index in range(filled[0], filled[-1] + 1)
    ]


def _range(index: int) -> str:
    return _below(0) if index == 0 else f"{about(2 ** (index - 1))} to {about(2**index)}"
