"""One-line breakages of the core, each of which the checker must notice.

A mutant replaces exact source lines of one module, compiles the result, and builds a core from it; nothing on disk
changes. A line that is no longer there (or there twice) is an error: whoever rewrites a rule also looks at what
proves it. A rule whose mutant survives is a rule that the simulation does not test.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tests.simulation.breakages import BREAKAGES
from tests.simulation.breakages_of_skips import BREAKAGES_OF_SKIPS
from tests.simulation.breakages_of_wishes import BREAKAGES_OF_WISHES
from tests.simulation.checker import Violation, check
from tests.simulation.mutant import (
    DRAFT,
    FACTS,
    LOW_WATER,
    MOVING,
    OPERATIONS,
    RECORDS,
    REGISTER,
    RULES_LOG,
    SERIES,
    SHAPES,
    SHARD,
    SKIPPING,
    TAKEOVER,
    Mutant,
)
from tests.simulation.scene import Core
from tests.simulation.world import World

SEEDS_MAX = 6000
"""The most elusive mutant needs some two thousand."""
_IN_ORDER = (
    RECORDS,
    SHAPES,
    FACTS,
    RULES_LOG,
    TAKEOVER,
    SERIES,
    OPERATIONS,
    DRAFT,
    MOVING,
    REGISTER,
    LOW_WATER,
    SKIPPING,
    SHARD,
)
"""Each module may import those before it; all are built anew, so that the mutated one is the one they see."""


MUTANTS = BREAKAGES + BREAKAGES_OF_WISHES + BREAKAGES_OF_SKIPS


class LineIsGone(Exception):
    """The source no longer has the line that a mutant replaces, or has it more than once."""


def build(mutant: Mutant) -> Core:
    """A core with the mutant in it. Raises LineIsGone."""
    modules: dict[str, ModuleType] = {}
    with _restored(_IN_ORDER):
        for name in _IN_ORDER:
            changes = mutant.changes if name == mutant.module else ()
            modules[name] = sys.modules[name] = _compile(name, changes)
    return Core(modules[TAKEOVER].claim, modules[TAKEOVER].plan, modules[SHARD].Shard, modules[OPERATIONS])


@contextmanager
def _restored(names: tuple[str, ...]) -> Iterator[None]:
    """Whatever is put in the place of these modules is gone afterwards."""
    kept = {name: sys.modules[name] for name in names}
    try:
        yield
    finally:
        sys.modules.update(kept)


def _compile(name: str, changes: tuple[tuple[str, str], ...]) -> ModuleType:
    module = ModuleType(name)
    source = changed(name, changes)
    sys.modules[name] = module
    exec(compile(source, f"<mutant of {name}>", "exec"), module.__dict__)
    return module


def changed(name: str, changes: tuple[tuple[str, str], ...]) -> str:
    """The module's source with these lines replaced. Raises LineIsGone."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise LineIsGone(f"{name} has no source")
    source = Path(spec.origin).read_text()
    for line, replacement in changes:
        source = _replace_line(source, name, line, replacement)
    return source


def _replace_line(source: str, name: str, line: str, replacement: str) -> str:
    """Replace the one line that reads so; its indentation stays."""
    lines = source.split("\n")
    found = [number for number, text in enumerate(lines) if text.strip() == line]
    if len(found) != 1:
        raise LineIsGone(f"{name} has {len(found)} lines that read {line!r}")
    text = lines[found[0]]
    lines[found[0]] = text[: len(text) - len(text.lstrip())] + replacement
    return "\n".join(lines)


def hunt(mutant: Mutant) -> tuple[int, Violation] | None:
    """The first seed under which the checker catches the mutant, and what it says; None where it survives."""
    core = build(mutant)
    for seed in range(mutant.first, mutant.first + SEEDS_MAX):
        violations = check(World(seed, core).run())
        if violations:
            return seed, violations[0]
    return None
