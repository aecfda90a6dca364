"""A short search in every test run; `make simulate` runs a long one."""

from random import Random

import pytest

from delayline.records.message import Key, Shard
from store.index import Checkpoint, Covered, Entry
from tests.simulation.checker import check
from tests.simulation.checker.known import Violation
from tests.simulation.disk import Disk
from tests.simulation.habits import SITUATIONS
from tests.simulation.history import Committed, Fact, NamesAnswered
from tests.simulation.mutants import MUTANTS, build
from tests.simulation.run import Found, report, run_seeds
from tests.simulation.world import World

SEEDS = 500
CLIENT_SEEDS = 100


@pytest.fixture(scope="module")
def found() -> Found:
    return run_seeds(range(SEEDS))


def test_no_seed_breaks_a_promise(found: Found) -> None:
    assert found.failures == []


def test_every_situation_has_occurred(found: Found) -> None:
    assert [situation for situation in SITUATIONS if not found.seen[situation]] == []


def test_the_same_seed_gives_the_same_run() -> None:
    assert World(7).run() == World(7).run()


def test_runs_under_different_seeds_differ() -> None:
    assert World(7).run() != World(8).run()


def as_clients_see_it(history: list[Fact]) -> list[Fact]:
    """Without cursors, outcome rows and clocks, and what owners were asked: what can be read from a buffer topic and
    from a target topic. Which names are in use follows from the rows."""
    facts = [fact for fact in history if not isinstance(fact, NamesAnswered)]
    return [_hidden(fact) if isinstance(fact, Committed) else fact for fact in facts]


def _hidden(fact: Committed) -> Committed:
    return fact._replace(before=None, after=None, rows=None, clock_ms=None, low_water=())


def test_what_clients_can_see_of_good_runs_is_judged_good() -> None:
    """But for those in which an operator had something skipped: which offsets that were stands in the cursor."""

    def judged(world: World) -> list[Violation]:
        history = world.run()
        return [] if world.stalls.happen else check(as_clients_see_it(history))

    assert [seed for seed in range(CLIENT_SEEDS) if judged(World(seed))] == []


def test_clients_alone_can_see_that_a_takeover_delivers_twice() -> None:
    core = build(next(mutant for mutant in MUTANTS if mutant.broken.startswith("dispatches before it has read")))

    histories = (as_clients_see_it(World(seed, core).run()) for seed in range(SEEDS))

    assert any(violation.rule == "duplicate" for history in histories for violation in check(history))


def test_a_search_in_which_a_situation_never_occurred_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    good = report(Found(runs=1), seconds=1.0)

    assert not good
    assert "NEVER OCCURRED  crash" in capsys.readouterr().out


def test_a_broken_promise_is_printed_with_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    good = report(Found(runs=1, failures=[(17, "early: by a day")]), seconds=1.0)

    assert not good
    assert "python -m tests.simulation.run 17" in capsys.readouterr().out


# --- the disk that the simulation is built on

SHARD = Shard("orders", "0")


def written(disk: Disk) -> None:
    index = disk.shard(SHARD)
    for offset in range(5):
        index.put([Entry(100 + offset, offset, b"")], None)
    index.remove([Key(100, 0)], Checkpoint(5, b"t"))


def test_a_crash_leaves_a_state_that_the_disk_once_had() -> None:
    states = set()
    for seed in range(60):
        disk = Disk()
        written(disk)
        disk.crash(Random(seed))
        index = disk.shard(SHARD)
        states.add((tuple(entry.offset for entry in index.scan(Key(-1, -1), 9)), index.checkpoint()))

    whole = [(tuple(range(count)), None) for count in range(6)]
    assert states == {*whole, ((1, 2, 3, 4), Checkpoint(5, b"t"))}


def test_a_crash_keeps_what_was_flushed() -> None:
    disk = Disk()
    written(disk)
    disk.flush()

    disk.crash(Random(0))

    assert disk.shard(SHARD).pending() == 4


def test_what_is_held_in_memory_is_gone_after_a_crash() -> None:
    disk = Disk()
    disk.shard(SHARD).put([Entry(100, 0, b""), Entry(900, 1, b"")], near_until_ms=100)
    disk.flush()

    disk.crash(Random(0))

    assert [entry.offset for entry in disk.shard(SHARD).scan(Key(-1, -1), 9)] == [1]


def test_retaining_drops_what_the_cursor_covers_and_what_will_be_read_again() -> None:
    disk = Disk()
    index = disk.shard(SHARD)
    index.put([Entry(100, 0, b""), Entry(100, 1, b""), Entry(900, 2, b""), Entry(900, 7, b"")], None)

    index.retain(1, 7, Covered(2, Key(100, 1)))

    assert [entry.offset for entry in index.scan(Key(-1, -1), 9)] == [2]
