"""The proof's judge finds each kind of wrong, and nothing where nothing is wrong."""

from dataclasses import replace

import pytest

from tests.fault.rocketmq.judge import Delivered, Row
from tests.fault.rocketmq_proxy.judge import (
    LATER_OK,
    REPEATS,
    Answered,
    Buffered,
    Direct,
    Found,
    Note,
    Recall,
    judge,
)

LATER, SOON, PLAIN = Note("a", "ms", delay_ms=10), Note("b", "moment", deliver_ms=20), Note("c", "plain")
A, B, C = Buffered("a", "x:0", 0, 5), Buffered("b", "x:0", 1, 6), Direct("c", 7)
A_DELIVERED, B_DELIVERED = Delivered("a", 16, 15, "x:0", 0), Delivered("b", 20, 20, "x:0", 1)
ROWS = [Row("x:0", offset, "delivered") for offset in range(3)]
AGAIN = Buffered("a", "x:0", 2, 8)
"""A second record of the first message, as a client's repeat makes it."""
AGAIN_DELIVERED = Delivered("a", 30, 18, "x:0", 2)


def rules(found: Found, *notes: Note, recalls: tuple[Recall, ...] = ()) -> set[str]:
    verdict = judge(notes or (LATER, SOON, PLAIN), found, recalls)
    return {rule for rule, _ in verdict.broken}


def there(
    buffered: tuple[Buffered, ...] = (A, B),
    direct: tuple[Direct, ...] = (C,),
    delivered: tuple[Delivered, ...] = (A_DELIVERED, B_DELIVERED),
    rows: tuple[Row, ...] = tuple(ROWS),
) -> Found:
    return Found(list(buffered), list(direct), list(delivered), list(rows))


def test_what_is_in_its_place_once_and_in_time_breaks_nothing() -> None:
    assert rules(there()) == set()


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (there(buffered=(B,), delivered=(B_DELIVERED,)), "lost"),
        (there(direct=()), "lost"),
        (there(delivered=(B_DELIVERED,)), "lost"),
        (there(direct=(C, C)), "twice"),
        (there(delivered=(A_DELIVERED, A_DELIVERED, B_DELIVERED)), "twice"),
        (there(buffered=(A, B, AGAIN), delivered=(A_DELIVERED, B_DELIVERED, AGAIN_DELIVERED)), "twice"),
        (there(delivered=(replace(A_DELIVERED, stored_ms=14), B_DELIVERED)), "early"),
        (there(delivered=(replace(A_DELIVERED, due_ms=14), B_DELIVERED)), "due"),
        (there(delivered=(replace(A_DELIVERED, tag="b"), B_DELIVERED)), "due"),
        (there(direct=(C, Direct("b", 19))), "misplaced"),
        (there(direct=(C, Direct("a", 99))), "misplaced"),
        (there(buffered=(A, B, Buffered("c", "x:0", 2, 9)), direct=()), "misplaced"),
        (there(direct=(C, Direct("z", 7))), "unexpected"),
        (there(buffered=(A, B, Buffered("z", "x:0", 2, 9))), "unexpected"),
        (there(delivered=(A_DELIVERED, B_DELIVERED, Delivered("z", 9, 9, "x:0", 2))), "strange"),
        (there(delivered=(B_DELIVERED, replace(A_DELIVERED, stored_ms=21))), "passed"),
        (there(rows=tuple(ROWS[1:])), "without_row"),
    ],
)
def test_each_wrong_is_called_by_its_name(found: Found, rule: str) -> None:
    delayed_before = {"passed": (replace(LATER, delay_ms=5), SOON, PLAIN)}
    assert rule in rules(found, *delayed_before.get(rule, ()))


def test_a_moment_that_has_passed_is_no_delay() -> None:
    assert rules(there(buffered=(A,), direct=(C, Direct("b", 21)), delivered=(A_DELIVERED,))) == set()


def test_a_second_record_is_right_where_its_client_sent_twice_and_each_is_delivered_once() -> None:
    repeated = replace(LATER, attempts=2)
    both = there(buffered=(A, B, AGAIN), delivered=(A_DELIVERED, B_DELIVERED, AGAIN_DELIVERED))
    verdict = judge((repeated, SOON, PLAIN), both)
    assert (verdict.broken, verdict.chances[REPEATS]) == ([], 1)
    assert rules(replace(both, delivered=[A_DELIVERED, B_DELIVERED]), repeated, SOON, PLAIN) == {"lost"}


@pytest.mark.parametrize("note", [replace(LATER, failure="timeout"), replace(LATER, way="one-way")])
def test_what_was_not_acknowledged_may_be_there_or_not(note: Note) -> None:
    assert rules(there(), note, SOON, PLAIN) == set()
    assert rules(there(buffered=(B,), delivered=(B_DELIVERED,)), note, SOON, PLAIN) == set()


KEPT, GONE = there(), there(delivered=(B_DELIVERED,))


@pytest.mark.parametrize(
    ("answer", "found", "broken"),
    [
        (Answered.OK, GONE, set()),
        (Answered.OK, KEPT, {"lie"}),
        (Answered.TOO_LATE, KEPT, set()),
        (Answered.TOO_LATE, GONE, {"lie", "lost"}),
        (Answered.UNDECIDED, KEPT, set()),
        (Answered.UNDECIDED, GONE, set()),
        (Answered.NONE, KEPT, set()),
        (Answered.NONE, GONE, set()),
    ],
)
def test_a_recall_is_kept(answer: Answered, found: Found, broken: set[str]) -> None:
    assert rules(found, recalls=(Recall("a", answer, 1, 15),)) == broken


def test_a_message_that_is_not_due_yet_is_not_too_late() -> None:
    assert rules(KEPT, recalls=(Recall("a", Answered.TOO_LATE, 1, 14),)) == {"lie"}


def test_too_late_may_mean_that_an_earlier_ask_has_cancelled_it() -> None:
    cancelled = there(delivered=(B_DELIVERED,), rows=(Row("x:0", 0, "cancelled"), *ROWS[1:]))
    recall = Recall("a", Answered.TOO_LATE, 2, 40)
    verdict = judge((LATER, SOON, PLAIN), cancelled, (recall,))
    assert (verdict.broken, verdict.chances[LATER_OK]) == ([], 1)
    assert rules(cancelled, recalls=(replace(recall, asks=1),)) == {"lie", "lost"}
    assert rules(GONE, recalls=(recall,)) == {"lie", "lost"}
