"""Breakages of the core, each of which the checker must notice.

A core is built from modules of which one has the mutant in it (`tests.mutation`). A rule whose mutant survives is a
rule that the simulation does not test.
"""

from tests.mutation.mutant import Mutant, load
from tests.simulation.breakages import BREAKAGES
from tests.simulation.breakages_of_skips import BREAKAGES_OF_SKIPS
from tests.simulation.breakages_of_wishes import BREAKAGES_OF_WISHES
from tests.simulation.checker import Violation, check
from tests.simulation.scene import Core
from tests.simulation.world import World

SEEDS_MAX = 6000
"""The most elusive mutant needs some two thousand."""
TAKEOVER, OPERATIONS, SHARD = (
    "delay_service.core.takeover",
    "delay_service.core.operations",
    "delay_service.core.shard",
)
_IN_ORDER = (
    "delayline.buffer.record",
    "delayline.buffer.undo",
    "delayline.buffer.shapes",
    "delayline.buffer.facts",
    "delay_service.core.rules_log",
    TAKEOVER,
    "delay_service.core.series",
    "delay_service.core.pending_record",
    OPERATIONS,
    "delay_service.core.batch_draft",
    "delay_service.core.pending_reappends",
    "delay_service.core.pending_messages",
    "delay_service.core.low_water",
    "delay_service.core.skipping",
    "delay_service.core.late",
    "delay_service.core.due",
    "delay_service.core.rolls",
    SHARD,
)
"""Each module may import those before it; all are built anew, so that the mutated one is the one they see."""


MUTANTS = BREAKAGES + BREAKAGES_OF_WISHES + BREAKAGES_OF_SKIPS


def build(mutant: Mutant) -> Core:
    """A core with the mutant in it. Raises TagError."""
    modules = load(mutant, _IN_ORDER)
    return Core(modules[TAKEOVER].claim, modules[TAKEOVER].plan, modules[SHARD].Shard, modules[OPERATIONS])


def hunt(mutant: Mutant) -> tuple[int, Violation] | None:
    """The first seed under which the checker catches the mutant, and its complaint; None where it survives."""
    core = build(mutant)
    for seed in range(mutant.first, mutant.first + SEEDS_MAX):
        violations = check(World(seed, core).run())
        if violations:
            return seed, violations[0]
    return None
