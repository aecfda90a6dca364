"""The sequencer under every single fault at every point of small runs, and under many in random long ones."""

from collections import Counter

import pytest

from tests.proxy_model.explore import Explored, explore, wander
from tests.proxy_model.log import Appended, Log
from tests.proxy_model.mutants import MUTANTS, QUICKLY_CAUGHT, hunt
from tests.proxy_model.scope import ONE_CONNECTION, Fault, Habit, Scope
from tests.proxy_model.scopes import BOTH, QUICK, REFUSALS, SMALL, random_scope, refusing_scope

SEEDS = 600


@pytest.mark.parametrize("scope", QUICK, ids=str)
def test_one_fault_anywhere_neither_loses_repeats_nor_reorders(scope: Scope) -> None:
    explored = explore(scope)

    print(explored)
    assert explored.states > 500
    assert explored.points[Fault.CRASH.name] >= 15
    assert explored.points[Fault.LEAVE.name] >= 15
    assert explored.endings > 0


@pytest.mark.parametrize("habit", Habit)
@pytest.mark.parametrize("script", REFUSALS, ids=" ".join)
def test_a_batch_refused_for_good_costs_none_of_the_others(script: tuple[str, ...], habit: Habit) -> None:
    explored = explore(Scope(script, habit, budget=0))

    print(explored)
    assert explored.endings > 0


@pytest.mark.parametrize("habit", BOTH)
def test_two_faults_anywhere_in_one_batch_neither_lose_nor_repeat(habit: Habit) -> None:
    explored = explore(Scope(SMALL[0], habit, budget=2))

    print(explored)
    assert explored.points[Fault.CRASH.name] > 100


def test_many_faults_in_long_runs_neither_lose_repeat_nor_reorder() -> None:
    found = Explored()
    for seed in range(SEEDS):
        found.add(wander(random_scope(seed), seed))

    print(found)
    assert found.endings == SEEDS
    assert set(found.points) == {fault.name for fault in ONE_CONNECTION}
    assert found.points[Fault.CRASH.name] > SEEDS


def test_refusals_and_new_epochs_in_random_runs_lose_and_repeat_nothing() -> None:
    found = Explored()
    for seed in range(2 * SEEDS):
        found.add(wander(refusing_scope(seed), seed))

    print(found)
    assert found.endings == 2 * SEEDS
    assert found.points[Fault.CRASH.name] > SEEDS
    assert found.points[Fault.MOVE.name] > 10


def test_without_faults_there_is_one_ending() -> None:
    assert explore(Scope(("id", "di"), budget=0)).endings == 1


@pytest.mark.parametrize("broken", sorted(QUICKLY_CAUGHT))
def test_the_judge_catches_a_gate_in_which(broken: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.broken == broken)

    caught = hunt(mutant)

    assert caught is not None
    print(caught)


# --- the model's own logs keep Kafka's rules


def appended(*batches: tuple[int, int, int]) -> Log:
    log = Log()
    for epoch, base, count in batches:
        log = log.appended(Appended(epoch, base, count, ()))
    return log


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ((0, 6, 1), 0),  # next
        ((0, 7, 1), 45),  # a gap
        ((0, 5, 1), 46),  # the last again
        ((0, 1, 1), 46),  # the last but four again
        ((0, 0, 1), 45),  # the last but five: no longer remembered
        ((0, 4, 2), 45),  # other bounds
        ((1, 0, 1), 0),  # a new epoch at 0
        ((1, 6, 1), 45),  # a new epoch elsewhere
        ((-1, 6, 1), 47),  # an old epoch
    ],
)
def test_a_log_takes_recognises_or_refuses(batch: tuple[int, int, int], code: int) -> None:
    log = appended(*((0, base, 1) for base in range(6)))

    assert log.check(Appended(*batch, ())) == code


def test_a_log_that_has_forgotten_takes_any_sequence() -> None:
    assert appended((0, 0, 1)).expired().check(Appended(0, 77, 1, ())) == 0


def test_a_log_that_was_restarted_recognises_only_the_last_batch() -> None:
    log = appended((0, 0, 1), (0, 1, 1)).restarted()

    assert Counter(int(log.check(Appended(0, base, 1, ()))) for base in (0, 1, 2)) == {45: 1, 46: 1, 0: 1}
