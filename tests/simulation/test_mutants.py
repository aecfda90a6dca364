"""Every rule of the core has a breakage that the simulation notices."""

import sys

import pytest

from tests.mutation.mutant import Mutant
from tests.simulation.mutants import MUTANTS, SEEDS_MAX, SHARD, build, hunt
from tests.tiers import sample


@pytest.mark.parametrize(
    "mutant", sample([(mutant,) for mutant in MUTANTS], every=5), ids=[mutant.broken for mutant in MUTANTS]
)
def test_the_checker_catches_a_core_that(mutant: Mutant) -> None:
    caught = hunt(mutant)

    assert caught is not None, f"survived {SEEDS_MAX} seeds"
    print(f"caught by seed {caught[0]}: {caught[1]}")


def test_building_a_mutant_leaves_the_real_core_in_place() -> None:
    before = sys.modules[SHARD]

    build(MUTANTS[0])

    assert sys.modules[SHARD] is before
