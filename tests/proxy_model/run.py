"""Search long: `python -m tests.proxy_model.run`.

    PARTS=runs,refusals,scopes,mutants   what of it; by default these, minutes; `double`, two faults anywhere, an hour
    SEEDS=50000 FIRST=0                  how many random runs of each kind, from which seed on
    ... run SEED                         one random run; its trace if it breaks a promise
    ... run refusals SEED                the same with refusals

Exit code 1 when a promise was broken or a mutant survived.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import Pool
from typing import TypeVar

from tests.proxy_model.explore import Broken, Explored, explore, wander
from tests.proxy_model.mutants import MUTANTS, hunt
from tests.proxy_model.scope import Scope
from tests.proxy_model.scopes import DOUBLE, LONG, random_scope, refusing_scope

SEEDS = 50_000
CHUNK = 250
SHOWN_MAX = 3
PARTS = ("runs", "refusals", "scopes", "mutants")
"""By default."""

Work = TypeVar("Work")


def _all_of(scope: Scope) -> Explored | str:
    try:
        return explore(scope)
    except Broken as broken:
        return str(broken)


def _some_of(seeds: range, scope_of: Callable[[int], Scope] = random_scope) -> Explored | str:
    found = Explored()
    try:
        for seed in seeds:
            found.add(wander(scope_of(seed), seed))
    except Broken as broken:
        return str(broken)
    return found


def _some_refusals_of(seeds: range) -> Explored | str:
    return _some_of(seeds, refusing_scope)


def _search(name: str, look: Callable[[Work], Explored | str], work: Iterable[Work]) -> bool:
    """Whether nothing was broken."""
    found, broken, started = Explored(), [], time.monotonic()
    with Pool() as pool:
        for part in pool.imap_unordered(look, work):
            if isinstance(part, str):
                broken.append(part)
            else:
                found.add(part)
    print(f"{name}: {found}; {len(broken)} broke a promise, {time.monotonic() - started:.0f} s", flush=True)
    print(*broken[:SHOWN_MAX], sep="\n")
    return not broken


def _hunted(number: int) -> str | None:
    return hunt(MUTANTS[number])


def _hunt_all() -> bool:
    with Pool() as pool:
        traces = pool.map(_hunted, range(len(MUTANTS)), chunksize=1)
    for mutant, trace in zip(MUTANTS, traces, strict=True):
        print(f"{'SURVIVED' if trace is None else 'caught  '}  {mutant.broken}")
    return None not in traces


def _chunks() -> tuple[int, list[range]]:
    first, seeds = int(os.environ.get("FIRST", 0)), int(os.environ.get("SEEDS", SEEDS))
    chunks = [range(start, min(start + CHUNK, first + seeds)) for start in range(first, first + seeds, CHUNK)]
    return seeds, chunks


def _wander_all() -> bool:
    seeds, chunks = _chunks()
    return _search(f"{seeds} random runs", _some_of, chunks)


def _wander_refusals() -> bool:
    seeds, chunks = _chunks()
    return _search(f"{seeds} random runs with refusals", _some_refusals_of, chunks)


def _explore_all() -> bool:
    return _search(f"{len(LONG)} scopes, every state", _all_of, LONG)


def _explore_double() -> bool:
    return _search(f"{len(DOUBLE)} scopes with two faults, every state", _all_of, DOUBLE)


_PLAY: dict[str, Callable[[], bool]] = {
    "runs": _wander_all,
    "refusals": _wander_refusals,
    "scopes": _explore_all,
    "mutants": _hunt_all,
    "double": _explore_double,
}


def main(arguments: list[str]) -> int:
    if arguments:
        *kind, seed = arguments
        look = _some_refusals_of if kind == ["refusals"] else _some_of
        print(look(range(int(seed), int(seed) + 1)))
        return 0
    parts = (os.environ.get("PARTS") or ",".join(PARTS)).split(",")
    good = [play() for part, play in _PLAY.items() if part in parts]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
