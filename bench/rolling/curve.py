"""Samples of a buffer's size as a table and a small plot, and how flat they are."""

from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from bench.report import Report, Target
from delay_service.core.roller import SPAN_MIN

PLOT_ROWS = 12
COLUMN_CHARS = 3
_MB = 1e6


class Sample(NamedTuple):
    """When so many messages had passed: the buffer on disk, the shard's low offset L, the offset behind all that was
    read, and how many records were rolled so far."""

    passed: int
    disk_bytes: int
    low_offset: int
    next_offset: int
    rolled: int

    @property
    def kept(self) -> int:
        """Records of the log that cannot be trimmed."""
        return self.next_offset - self.low_offset


def add_figures(report: Report, span_min: int, rolled: Sequence[Sample], kept: Sequence[Sample]) -> None:
    """The report of a run with rolling beyond `span_min` records, and one without rolling."""
    share = rolled[-1].disk_bytes / max(1, kept[-1].disk_bytes)
    report.add("rolling: size at the end, in that without", share, "", Target("<=", 0.5))
    report.add("rolling: last quarter in second quarter", growth(rolled))
    report.add("off: last quarter in second quarter", growth(kept))
    report.add("rolling: largest", max(sample.disk_bytes for sample in rolled) / _MB, "MB")
    report.add("off: largest", max(sample.disk_bytes for sample in kept) / _MB, "MB")
    report.add("rolling: most records kept", max(sample.kept for sample in rolled))
    report.add("records rolled, per message passed", rolled[-1].rolled / rolled[-1].passed)
    report.notes.append(f"Rolling beyond {span_min:,} records of log (the worker's own bound: {SPAN_MIN:,}).")
    report.drawings.append(_drawn(rolled, kept))


def growth(samples: Sequence[Sample]) -> float:
    """The mean size on disk in the last quarter, in that of the second one: about 1 where it stays flat."""
    quarter = len(samples) // 4
    sizes = [sample.disk_bytes for sample in samples]
    return mean(sizes[-quarter:]) / max(1, mean(sizes[quarter : 2 * quarter]))


def _drawn(rolled: Sequence[Sample], kept: Sequence[Sample]) -> str:
    """The table, and the plot: `o` with rolling, `x` without, `*` both."""
    return "\n".join([*_table(rolled, kept), "", *_plot(rolled, kept)])


def _table(rolled: Sequence[Sample], kept: Sequence[Sample]) -> list[str]:
    heads = f"{'messages':>12} |{'rolling: MB':>12}{'L':>12}{'kept':>12}{'rolled':>10} |{'off: MB':>12}{'L':>12}"
    return [heads, *(_row(on, off) for on, off in zip(rolled, kept, strict=False))]


def _row(on: Sample, off: Sample) -> str:
    with_rolling = f"{on.disk_bytes / _MB:>12,.0f}{on.low_offset:>12,}{on.kept:>12,}{on.rolled:>10,}"
    return f"{on.passed:>12,} |{with_rolling} |{off.disk_bytes / _MB:>12,.0f}{off.low_offset:>12,}"


def _plot(rolled: Sequence[Sample], kept: Sequence[Sample]) -> list[str]:
    top = max(sample.disk_bytes for sample in (*rolled, *kept)) or 1
    rows = []
    for row in range(PLOT_ROWS, 0, -1):
        cells = (_cell(on, off, top, row) for on, off in zip(rolled, kept, strict=False))
        rows.append(f"{top * row / PLOT_ROWS / _MB:>8,.0f} MB |" + "".join(cells).rstrip())
    axis = "-" * COLUMN_CHARS * min(len(rolled), len(kept))
    return [*rows, f"{'':>11} +{axis}> messages passed (o rolling, x off, * both)"]


def _cell(on: Sample, off: Sample, top: int, row: int) -> str:
    is_on, is_off = (_height(sample, top) == row for sample in (on, off))
    mark = "*" if is_on and is_off else "o" if is_on else "x" if is_off else " "
    return mark.rjust(COLUMN_CHARS)


def _height(sample: Sample, top: int) -> int:
    return max(1, round(sample.disk_bytes / top * PLOT_ROWS))
