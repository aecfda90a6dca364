"""What a bench hands back, and the few measurements that every bench needs."""

import json
import os
import platform
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal

from rich import box
from rich.table import Table

from delayline.clock import SystemClock

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be."""

    bound: Literal[">=", "<=", "<"]
    value: float

    def met_by(self, value: float) -> bool:
        match self.bound:
            case ">=":
                return value >= self.value
            case "<=":
                return value <= self.value
            case "<":
                return value < self.value


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `unit` stands behind it in the table: `us`, `records/s`, `MB`, or nothing for a ratio."""

    name: str
    value: float
    unit: str = ""
    target: Target | None = None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.target.met_by(self.value)


@dataclass(slots=True)
class Report:
    """The figures of one bench, in the order in which they are to be read. `notes` list what the numbers depend on,
    `drawings` are lines of text for what figures do not show."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    drawings: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str = "", target: Target | None = None) -> None:
        self.figures.append(Figure(name, value, unit, target))

    @property
    def met(self) -> bool:
        """Whether no figure misses its target."""
        return all(figure.met is not False for figure in self.figures)

    def table(self) -> Table:
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE, caption="\n".join(self.notes))
        table.caption_justify = "left"
        for heading in ("figure", "value", "unit", "target"):
            table.add_column(heading, justify="right" if heading == "value" else "left")
        for figure in self.figures:
            table.add_row(figure.name, _rounded(figure.value), figure.unit, _verdict(figure))
        return table

    def save(self, file: Path, *, scale: float) -> None:
        """Write the report as JSON, with the machine that it was measured on."""
        content = {"machine": machine(), "scale": scale, "met": self.met, **asdict(self)}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=2) + "\n")


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _verdict(figure: Figure) -> str:
    if figure.target is None:
        return ""
    wanted = f"{figure.target.bound} {figure.target.value:g}"
    return f"{wanted} met" if figure.met else f"[bold]{wanted} MISSED[/bold]"


def run_bench(name: str, scale: float) -> Report:
    """What the module `bench.<name>` measures. Stands here because a process of its own cannot import `__main__`."""
    report: Report = import_module(f"bench.{name}").run(scale)
    return report


def machine() -> str:
    """One line about where the numbers come from."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {cores} cores, {memory_bytes / 2**30:.0f} GiB, Python {platform.python_version()}"


def resident_bytes() -> int:
    """Memory of this process that is in RAM now (Linux; elsewhere the peak, the nearest that the system reports)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        unit = 1 if platform.system() == "Darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return pages * os.sysconf("SC_PAGE_SIZE")


def disk_bytes(folder: Path) -> int:
    """Room of all files below, as `du` counts it; one that goes meanwhile counts nothing."""
    found = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found += file.lstat().st_blocks * 512
    return found


def cpu_s() -> float:
    """CPU seconds of all threads of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_s_of(pid: int, with_children: bool = False) -> float:
    """CPU seconds of all threads of another process so far, and of the children that it has waited for (proc(5),
    stat, fields 14 to 17; the name may hold spaces). Raises FileNotFoundError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Lap:
    """How long a measured block took, in seconds of wall time and of CPU over all threads."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def measured(lap: Lap | None = None) -> Iterator[Lap]:
    """Measure the block; with `lap`, add to it: for rounds that take turns."""
    lap = lap or Lap()
    wall_before, cpu_before = _CLOCK.monotonic_s(), cpu_s()
    yield lap
    lap.wall_s += _CLOCK.monotonic_s() - wall_before
    lap.cpu_s += cpu_s() - cpu_before
