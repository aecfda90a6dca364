"""Every rule of the core has a breakage that the simulation notices."""

import sys

import pytest

from tests.simulation.mutants import MUTANTS, SEEDS_MAX, SHARD, LineIsGone, Mutant, build, changed, hunt
from tests.tiers import sample


@pytest.mark.parametrize(
    "mutant", sample([(mutant,) for mutant in MUTANTS], every=5), ids=[mutant.broken for mutant in MUTANTS]
)
def test_the_checker_catches_a_core_that(mutant: Mutant) -> None:
    caught = hunt(mutant)

    assert caught is not None, f"survived {SEEDS_MAX} seeds"
    print(f"caught by seed {caught[0]}: {caught[1]}")


def test_every_mutant_still_applies() -> None:
    """Also those that only the thorough run lets loose."""
    for mutant in MUTANTS:
        assert changed(mutant.module, mutant.changes) != changed(mutant.module, ())


def test_a_mutant_whose_line_is_gone_is_an_error() -> None:
    with pytest.raises(LineIsGone):
        build(Mutant("nothing", SHARD, (("no such line", "pass"),)))


def test_a_mutant_whose_line_occurs_twice_is_an_error() -> None:
    with pytest.raises(LineIsGone):
        build(Mutant("nothing", SHARD, (("self._taken = None", "pass"),)))


def test_building_a_mutant_leaves_the_real_core_in_place() -> None:
    before = sys.modules[SHARD]

    build(MUTANTS[0])

    assert sys.modules[SHARD] is before
