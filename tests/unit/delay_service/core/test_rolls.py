"""Which of the records that are to be re-appended a commit takes."""

import pytest

from delay_service.core.batch_draft import ROLLED_BYTES_MAX, BatchDrafter
from delay_service.core.rolls import Rollable, Rolls
from delayline.names import Names
from delayline.records.message import BEFORE_ALL, Key, Shard
from store.memory import MemoryIndex

SHARD = Shard("orders", "0")
EARLY, LATER = Key(500, 1), Key(900, 2)
EVERYTHING = Rollable(100, BEFORE_ALL, ())
PLAIN = b"\x00" * 100


@pytest.fixture
def rolls() -> Rolls:
    index = MemoryIndex().shard(SHARD)
    index.put([(*EARLY, PLAIN), (*LATER, PLAIN)], None)
    found = Rolls(index, BatchDrafter(SHARD, Names("delayline"), "delivery"))
    found.ask([LATER, EARLY])
    return found


def chosen(rolls: Rolls, rollable: Rollable = EVERYTHING, bytes_left: int = ROLLED_BYTES_MAX) -> list[Key]:
    return [target.key for target in rolls.chosen(rollable, bytes_left, alone=False)]


def test_they_go_in_the_order_of_asking(rolls: Rolls) -> None:
    assert chosen(rolls) == [LATER, EARLY]


@pytest.mark.parametrize(
    "rollable",
    [Rollable(2, BEFORE_ALL, ()), Rollable(100, BEFORE_ALL, {LATER})],
    ids=["at O it is read again", "it ends in this commit"],
)
def test_a_record_stays_where_the_commit_does_not_let_it_go_on(rolls: Rolls, rollable: Rollable) -> None:
    assert chosen(rolls, rollable) == [EARLY]


def test_what_delivery_has_passed_is_not_rolled(rolls: Rolls) -> None:
    assert chosen(rolls, Rollable(100, EARLY, ())) == [LATER]


def test_a_batch_that_is_full_takes_none(rolls: Rolls) -> None:
    assert [chosen(rolls, bytes_left=0), chosen(rolls, bytes_left=100)] == [[], []]


def test_a_record_that_fits_no_batch_goes_alone(rolls: Rolls) -> None:
    assert [target.key for target in rolls.chosen(EVERYTHING, 1, alone=True)] == [LATER]


def test_a_commit_forgets_what_it_passes_and_what_has_ended(rolls: Rolls) -> None:
    rolls.committed(EARLY, {LATER})
    assert not rolls
