"""What seems to be missing, and where it may be all the same."""

from typing import Any

import pytest

from reconcile.logic.ledger import Category
from reconcile.logic.manifest import Shard
from reconcile.logic.plan import Range
from reconcile.logic.testimony import Found
from reconcile.logic.unread import doubted

AT_MS = 1_767_225_600_000
SHARD = Shard(start=0, position=40, lost=[Range(10, 20)], lost_until_ms=AT_MS, untold_from=30, untold_below=35)


def found(offset: int, **fields: Any) -> Found:
    known = {"topic": "orders", "window_ms": 0, "category": Category.MISSING.value, "id": "m", "shard": 0}
    times = {"due_ms": AT_MS, "accepted_ms": AT_MS, "done_ms": None, "lateness_ms": None}
    return Found(**{**known, **times, "offset": offset, "surplus": 0, "detail": None, **fields})


@pytest.mark.parametrize(
    ("offset", "done_ms", "category"),
    [
        (9, AT_MS - 1, Category.UNAUDITABLE),
        (9, AT_MS, Category.MISSING),  # appended when the loss was known
        (18, AT_MS - 1, Category.UNAUDITABLE),
        (19, AT_MS - 1, Category.MISSING),  # what carries it on stands at offset 20 or behind
        (25, AT_MS - 1, Category.MISSING),
    ],
)
def test_a_lost_successor_is_doubted_where_a_loss_behind_its_record_may_hold_it(
    offset: int, done_ms: int, category: Category
) -> None:
    assert doubted(found(offset, done_ms=done_ms), SHARD).category == category


@pytest.mark.parametrize(
    ("offset", "category"),
    [(29, Category.MISSING), (30, Category.UNAUDITABLE), (34, Category.UNAUDITABLE), (35, Category.MISSING)],
)
def test_a_record_without_an_outcome_is_doubted_where_an_unreadable_row_may_hold_it(
    offset: int, category: Category
) -> None:
    assert doubted(found(offset), SHARD).category == category


def test_only_what_is_missing_in_a_shard_that_is_read_is_doubted() -> None:
    orphan = found(9, category=Category.ORPHAN.value, done_ms=1)
    assert doubted(orphan, SHARD) is orphan
    assert doubted(found(30), None).category == Category.MISSING
