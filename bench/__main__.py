"""`python -m bench [names]`: run the named benches (all where none is named; BENCH=store,kafka-deliver picks too).

SCALE multiplies their sizes. Each report is printed as a table and written to bench/results/<name>.json.
Exit 1 when a figure missed its target.
"""

import os
import pkgutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from bench.report import machine, run_bench

_HERE = Path(__file__).parent
_FRAME = {"__main__", "report"}


def benches() -> list[str]:
    """Modules only: a package is what several benches share. People write `kafka-deliver` for kafka_deliver.py."""
    found = (module.name for module in pkgutil.iter_modules([str(_HERE)]) if not module.ispkg)
    return sorted(name.replace("_", "-") for name in found if name not in _FRAME)


def _chosen(arguments: Sequence[str], environment: str) -> list[str]:
    """Raises SystemExit (2) for a name that is no bench."""
    known = benches()
    names = list(arguments) or [name for name in environment.split(",") if name]
    if unknown := [name for name in names if name not in known]:
        sys.stderr.write(f"no such bench: {', '.join(unknown)}; there are: {', '.join(known)}\n")
        raise SystemExit(2)
    return names or known


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 100:
        sys.stderr.write(f"SCALE must be a number above 0 and up to 100, not {text!r}\n")
        raise SystemExit(2)
    return scale


def main() -> int:
    console = Console()
    names = _chosen(sys.argv[1:], os.environ.get("BENCH", ""))
    scale = _scale(os.environ.get("SCALE", "1"))
    console.print(f"{machine()}, SCALE={scale:g}")
    met = True
    for name in names:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            report = process.submit(run_bench, name.replace("-", "_"), scale).result()
        report.save(_HERE / "results" / f"{name}.json", scale=scale)
        console.print(report.table())
        for drawing in report.drawings:
            console.out(drawing, highlight=False)
        met = met and report.met
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
