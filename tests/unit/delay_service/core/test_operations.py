"""What the log asks of a shard is decided in the log's order, once, and waits where it must."""

from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.batch_draft import BatchDrafter
from delay_service.core.operations import BEHIND_ALL, DECIDED_MAX, NOT_PENDING, Decided, Operations
from delay_service.core.pending_messages import PendingMessages
from delay_service.core.pending_reappends import PendingReappend
from delayline.buffer.outcome import CANCELLED, FORWARDED, PURGED, RESCHEDULED, Outcome
from delayline.buffer.record import Control, Operation, encode_value
from delayline.questions.inquiry import VERSION_MISMATCH
from delayline.records.message import Key, MessageId, Shard
from delayline.records.record import encode_body, pack, split_directives
from mq.contract import Append
from store.index import Entry
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import NAMES

ORDERS = Shard("orders", "0")
DUE_MS, MANY = 5000, 1 << 20
FIRST_OPERATION = 100
"""Offset of the first one: messages stand below it."""


def pending(*offsets: int, cross_partition: Append | None = None) -> PendingMessages:
    index = MemoryIndex().shard(ORDERS)
    index.reset()
    packed = pack(split_directives(encode_body(None, b"x"), set()), 7)
    index.put([Entry(DUE_MS, offset, encode_value(None, packed)) for offset in offsets], None)
    return PendingMessages(ORDERS, index, BatchDrafter(ORDERS, NAMES, "delivery"), lambda _: cross_partition, 1000)


def message_id(offset: int) -> MessageId:
    return MessageId(ORDERS, offset, DUE_MS)


def cancel(offset: int, version: int | None = None) -> Operation:
    return Operation(message_id(offset), None, version)


def asking(*wanted: Operation | Control) -> Operations:
    operations = Operations()
    for number, what in enumerate(wanted):
        operations.ask(FIRST_OPERATION + number, 9, what)
    return operations


def decide(operations: Operations, view: PendingMessages, *, before: int = BEHIND_ALL, room: int = MANY) -> Decided:
    return operations.decide(before, view, room)


def answers(decided: Decided) -> list[tuple[Outcome, str | None]]:
    return [(resolution.outcome, resolution.reason) for _, resolution in decided.resolved]


MOVES = st.one_of(
    st.builds(cancel, st.integers(0, 4)),
    st.builds(lambda offset, due_ms: Operation(message_id(offset), due_ms), st.integers(0, 4), st.integers(1, 9)),
)


@given(st.sets(st.integers(0, 3)), st.lists(MOVES, max_size=8))
def test_operations_are_decided_in_log_order_up_to_the_first_whose_message_has_just_been_moved(
    offsets: set[int], wanted: list[Operation]
) -> None:
    """The model: what ends is pending no more; what is moved is in no index until it is read back, and who asks for
    it waits, with all that follow."""
    waiting, moved, expected = set(offsets), set(), []
    for operation in wanted:
        assert isinstance(operation.ref, MessageId)
        offset = operation.ref.offset
        if offset in moved:
            break
        if offset not in waiting:
            expected.append((Outcome.UNMATCHED, NOT_PENDING))
            continue
        waiting.remove(offset)
        if operation.due_ms is None:
            expected.append((Outcome.APPLIED, CANCELLED))
        else:
            moved.add(offset)
            expected.append((Outcome.APPLIED, RESCHEDULED))
    decided = decide(asking(*wanted), pending(*offsets))
    assert answers(decided) == expected
    assert decided.ended == {Key(DUE_MS, offset) for offset in offsets - waiting}
    assert {key.offset for key in decided.moved} == moved
    assert decided.undecided == (BEHIND_ALL if len(expected) == len(wanted) else FIRST_OPERATION + len(expected))


def test_what_is_not_committed_is_decided_again_as_before() -> None:
    operations, view = asking(cancel(1)), pending(1)
    assert decide(operations, view) == decide(operations, view)


def test_what_is_committed_is_decided_no_more() -> None:
    operations = asking(cancel(1))
    operations.forget(decide(operations, pending(1)))
    assert not operations


def test_an_operation_behind_a_late_record_waits_with_all_that_follow() -> None:
    decided = decide(asking(cancel(1), cancel(2)), pending(1, 2), before=FIRST_OPERATION - 1)
    assert (decided.count, decided.undecided, decided.ended) == (0, FIRST_OPERATION, set())


def test_an_operation_waits_for_a_message_that_was_carried_on_and_is_not_read_back() -> None:
    view = pending()
    view.moving.add(str(message_id(1)), PendingReappend(Key(DUE_MS, 1), encode_value(None, b"x"), ()))
    assert decide(asking(cancel(1)), view).undecided == FIRST_OPERATION


def test_an_operation_on_another_version_changes_nothing() -> None:
    decided = decide(asking(cancel(1, version=1)), pending(1))
    assert (answers(decided), decided.ended) == ([(Outcome.UNMATCHED, VERSION_MISMATCH)], set())


def test_an_operation_on_a_message_that_came_after_it_meets_nothing() -> None:
    decided = decide(asking(cancel(FIRST_OPERATION + 5)), pending(FIRST_OPERATION + 5))
    assert answers(decided) == [(Outcome.UNMATCHED, NOT_PENDING)]


def test_an_operation_for_another_partition_is_passed_on() -> None:
    append = Append("delayline.buffer.orders", "1", b"body")
    decided = decide(asking(cancel(1)), pending(1, cross_partition=append))
    assert (decided.cross_partition, answers(decided)) == ([append], [(Outcome.APPLIED, FORWARDED)])
    assert decided.ended == set()


def test_one_commit_decides_a_bounded_number() -> None:
    decided = decide(asking(*[cancel(99)] * (DECIDED_MAX + 1)), pending())
    assert (decided.count, decided.undecided) == (DECIDED_MAX, FIRST_OPERATION + DECIDED_MAX)


def test_what_a_batch_has_no_room_for_waits_but_one_is_always_decided() -> None:
    decided = decide(asking(cancel(1), cancel(2)), pending(1, 2), room=1)
    assert (decided.count, decided.ended) == (1, {Key(DUE_MS, 1)})


def test_of_pauses_and_resumes_the_last_one_holds() -> None:
    decided = decide(asking(Control("pause"), Control("resume"), Control("pause")), pending())
    assert (decided.paused, answers(decided)[-1]) == (True, (Outcome.APPLIED, "paused"))


@given(st.sets(st.integers(0, FIRST_OPERATION + 20), max_size=12))
def test_a_purge_cancels_what_was_accepted_before_it_and_counts_that(offsets: set[int]) -> None:
    decided = decide(asking(Control("purge")), pending(*offsets))
    before = {Key(DUE_MS, offset) for offset in offsets if offset < FIRST_OPERATION}
    assert (decided.ended, answers(decided)) == (before, [(Outcome.APPLIED, PURGED)])
    assert decided.resolved[0][1].count == len(before)


def test_a_purge_waits_while_any_message_is_in_no_index() -> None:
    view = pending(1)
    view.moving.add(str(message_id(2)), PendingReappend(Key(DUE_MS, 2), encode_value(None, b"x"), ()))
    decided = decide(asking(Control("purge")), view)
    assert (decided.count, decided.ended) == (0, set())
