"""Late records hold O back until they end, and are forgotten with the batch that would have made them late."""

import pytest

from delay_service.core.late import LateRecords
from delayline.records.message import BEFORE_ALL, Key

DELIVERED = Key(100, 5)


@pytest.fixture
def late() -> LateRecords:
    found = LateRecords()
    found.read([(50, 7, b""), (100, 4, b""), (100, 6, b""), (200, 8, b"")], DELIVERED)
    return found


def test_a_record_is_late_at_or_below_the_delivered_key(late: LateRecords) -> None:
    assert late.below(99, Key(999, 0), ()) == [Key(50, 7), Key(100, 4)]


def test_nothing_is_late_while_all_keys_are_above_the_delivered_one() -> None:
    late = LateRecords()
    late.read([(101, 1, b"")], DELIVERED)
    assert not late
    assert late.lowest() is None


def test_the_lowest_offset_leaves_out_what_ends(late: LateRecords) -> None:
    assert [late.lowest(), late.lowest(without={4}), late.lowest(without={4, 7})] == [4, 7, None]


def test_a_record_that_has_ended_is_late_no_more(late: LateRecords) -> None:
    late.forget(4)
    late.forget(99)
    assert late.lowest() == 7


def test_an_aborted_batch_has_made_nothing_late(late: LateRecords) -> None:
    late.add([Key(150, 9)])
    late.keep_up_to(Key(50, 7))
    assert late.below(99, Key(999, 0), ()) == [Key(50, 7)]
    late.keep_up_to(BEFORE_ALL)
    assert not late


def test_an_operation_waits_for_late_records_before_it_that_are_due_and_have_not_ended(late: LateRecords) -> None:
    assert late.below(7, Key(999, 0), ()) == [Key(100, 4)]
    assert late.below(99, Key(60, 99), ()) == [Key(50, 7)]
    assert late.below(99, Key(999, 0), {Key(50, 7)}) == [Key(100, 4)]
