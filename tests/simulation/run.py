"""Search many seeds: `python -m tests.simulation.run`, or `make simulate`.

    SEEDS=20000 FIRST=0     how many runs, from which seed on
    MUTANTS=1               hunt every mutant as well
    ... run SEED            the trace of one run, and the checker's complaints about it
    ... run SEED MUTANT     the same with the mutant of that number

Exit code 1 when a promise was broken, when a situation of `habits.SITUATIONS` never occurred, or when a mutant
survived.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pool

from tests.simulation.checker import check
from tests.simulation.habits import SITUATIONS
from tests.simulation.mutants import MUTANTS, SEEDS_MAX, build, hunt
from tests.simulation.scene import REAL
from tests.simulation.world import World

SEEDS = 20_000
CHUNK = 100
SHOWN_MAX = 10


@dataclass
class Found:
    """What some runs came to: how often each situation occurred, and (seed, first violation) of those that failed."""

    runs: int = 0
    steps: int = 0
    facts: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.runs += other.runs
        self.steps += other.steps
        self.facts += other.facts
        self.seen += other.seen
        self.failures += other.failures


def run_seeds(seeds: range) -> Found:
    """Run these seeds in this process."""
    found = Found()
    for seed in seeds:
        world = World(seed)
        history = world.run()
        violations = check(history)
        failures = [(seed, str(violations[0]))] if violations else []
        found.add(Found(1, world.scene.habits.steps, len(history), world.scene.seen, failures))
    return found


def _chunks(first: int, seeds: int) -> Iterator[range]:
    for start in range(first, first + seeds, CHUNK):
        yield range(start, min(start + CHUNK, first + seeds))


def search(first: int, seeds: int) -> Found:
    """Run the seeds on every core."""
    found = Found()
    with Pool() as pool:
        for part in pool.imap_unordered(run_seeds, _chunks(first, seeds)):
            found.add(part)
    return found


def report(found: Found, seconds: float) -> bool:
    """Print what was found; whether it is all that was hoped for."""
    rate = found.runs / seconds
    print(f"{found.runs} runs, {found.steps} steps, {found.facts} facts in {seconds:.1f} s ({rate:.0f}/s)")
    for situation in sorted({*SITUATIONS, *found.seen}):
        print(f"{found.seen[situation]:>10}  {situation}")
    for seed, violation in sorted(found.failures)[:SHOWN_MAX]:
        print(f"BROKEN  seed {seed}: {violation}\n        python -m tests.simulation.run {seed}")
    missing = [situation for situation in SITUATIONS if not found.seen[situation]]
    for situation in missing:
        print(f"NEVER OCCURRED  {situation}")
    print(f"{len(found.failures)} runs broke a promise")
    return not (found.failures or missing)


def hunt_mutants() -> bool:
    """Print how each mutant was caught; whether all were."""
    survivors = 0
    for number, mutant in enumerate(MUTANTS):
        caught = hunt(mutant)
        if caught is None:
            survivors += 1
            print(f"SURVIVED {SEEDS_MAX} seeds  {number}: {mutant.broken}")
        else:
            seed, violation = caught
            print(f"{seed - mutant.first + 1:>6} seeds  {number}: {mutant.broken} -> {violation}")
    print(f"{len(MUTANTS)} mutants, {survivors} survived")
    return survivors == 0


def trace(seed: int, mutant: int | None) -> bool:
    """Print one run step by step; whether it kept every promise."""
    core = REAL if mutant is None else build(MUTANTS[mutant])
    violations = check(World(seed, core, print).run())
    for violation in violations:
        print(f"BROKEN  {violation}")
    return not violations


def main(arguments: list[str]) -> int:
    if arguments:
        seed, *mutant = map(int, arguments)
        return 0 if trace(seed, mutant[0] if mutant else None) else 1
    started = time.monotonic()
    found = search(int(os.environ.get("FIRST", 0)), int(os.environ.get("SEEDS", SEEDS)))
    good = report(found, time.monotonic() - started)
    if os.environ.get("MUTANTS"):
        good &= hunt_mutants()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
