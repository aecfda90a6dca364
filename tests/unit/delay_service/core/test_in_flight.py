"""What a batch in flight ends, and what a re-append that is read meanwhile makes of it."""

import pytest

from delay_service.core.batch_draft import BatchDraft
from delay_service.core.in_flight import InFlightBatch
from delay_service.core.operations import Decided
from delay_service.core.pending_record import Move
from delayline.buffer.cursor import Cursor
from delayline.records.message import Key, Shard
from mq.contract import ShardBatch

DELIVERED, MOVED, CANCELLED, OTHER = (Key(10 * n, n) for n in range(4))


def batch() -> InFlightBatch:
    moved = {MOVED: Move("orders.0.1.10", 99)}
    part = ShardBatch(Shard("orders", "0"), Cursor(topic_id=b"t"))
    return InFlightBatch(part, [DELIVERED], moved, Decided(ended={CANCELLED}), BatchDraft(), 0, None)


@pytest.mark.parametrize(
    ("key", "ends"), [(DELIVERED, True), (MOVED, True), (CANCELLED, True), (OTHER, False)], ids=lambda one: str(one)
)
def test_a_batch_ends_what_it_delivers_moves_or_decides_and_nothing_else(key: Key, ends: bool) -> None:
    assert batch().ends(key) is ends


def test_a_re_append_of_what_the_batch_itself_carries_on_is_not_surplus() -> None:
    """It is the batch's own record, read back before the commit was known to have succeeded."""
    taken = batch()
    taken.replaced = [(MOVED, Key(99, 8)), (DELIVERED, Key(99, 9))]
    assert taken.surplus == [Key(99, 9)]
