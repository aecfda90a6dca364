"""What is remembered of ended messages."""

import gc
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from delay_service.core.events import OF_MESSAGE_MAX
from delay_service.core.history import History
from delayline.buffer.outcome import AuditRow, Outcome, PlainRows
from delayline.questions.inquiry import Ending, Event, Found, Query, State
from delayline.records.message import MessageId, Shard

ORDERS = Shard("orders", "3")


def row(offset: int, due_ms: int, outcome: Outcome = Outcome.DELIVERED, reason: str | None = None) -> AuditRow:
    return AuditRow(offset, f"orders.3.{offset}.{due_ms}", due_ms, 500, outcome, None, reason)


def test_a_delivery_is_found_with_its_lateness() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [row(7, 1000)], 1020)
    found = history.find(ORDERS, 7, 1000)
    assert found is not None
    assert found.ending == Ending(Outcome.DELIVERED, 1020, 20)
    assert (str(found.id), found.state, found.accepted_at_ms) == ("orders.3.7.1000", State.DELIVERED, 500)


def test_a_dead_message_is_found_with_its_reason() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [row(7, 1000, Outcome.DEAD, "invalid-schedule")], 1020)
    found = history.find(ORDERS, 7, 1000)
    assert found is not None
    assert found.ending == Ending(Outcome.DEAD, 1020, None, "invalid-schedule")


def test_a_message_whose_record_was_replaced_is_found_under_its_first_offset() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [AuditRow(90, "orders.3.7.1000", 1000, 500, Outcome.DELIVERED)], 1020)
    assert history.find(ORDERS, 7, 1000) is not None


def test_a_replaced_record_has_not_ended_its_message() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [row(7, 1000, Outcome.SUPERSEDED)], 1020)
    assert history.find(ORDERS, 7, 1000) is None


def test_a_message_that_was_replaced_under_its_own_id_has_ended_as_superseded() -> None:
    history = History(10, 60_000)
    replaced = AuditRow(7, "orders.3.7.1000", 1000, 500, Outcome.SUPERSEDED, "orders.3.9.2000", "replaced")
    carried_on = AuditRow(8, "orders.3.8.1000", 1000, 500, Outcome.SUPERSEDED, "orders.3.8.1000~2", "rescheduled")
    history.record(ORDERS, [replaced, carried_on], 1020)
    found = history.find(ORDERS, 7, 1000)
    assert found is not None
    assert (found.state, found.ending) == (State.SUPERSEDED, Ending(Outcome.SUPERSEDED, 1020, None, "replaced"))
    rows, _, _ = history.newest([ORDERS], Query(state=State.SUPERSEDED), 100)
    assert [str(row.found.id) for row in rows] == ["orders.3.7.1000"]
    assert history.find(ORDERS, 8, 1000) is None


def test_an_id_with_another_due_time_is_not_found() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [row(7, 1000)], 1020)
    assert history.find(ORDERS, 7, 1001) is None


def test_beyond_the_limit_the_oldest_are_forgotten() -> None:
    history = History(2, 60_000)
    history.record(ORDERS, [row(n, 1000) for n in range(3)], 1020)
    assert [history.find(ORDERS, n, 1000) is not None for n in range(3)] == [False, True, True]


def test_what_is_older_than_the_retention_is_forgotten() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [row(1, 1000)], 1020)
    history.record(ORDERS, [row(2, 70_000)], 70_000)
    assert history.find(ORDERS, 1, 1000) is None


def test_a_limit_of_none_keeps_nothing() -> None:
    history = History(0, 60_000)
    history.record(ORDERS, [row(1, 1000)], 1020)
    assert history.find(ORDERS, 1, 1000) is None


def plain(offsets: Iterable[int], due_ms: int = 1000) -> PlainRows:
    """Accepted at 500, 501 and so on."""
    offsets = list(offsets)
    places = [b"%d.%d" % (offset, due_ms) for offset in offsets]
    accepted = b",".join(b"%d" % (500 + number) for number in range(len(offsets)))
    return PlainRows(offsets, [due_ms] * len(offsets), places, accepted)


def test_a_plain_delivery_is_found_as_any_other() -> None:
    by_column, by_row = History(10, 60_000), History(10, 60_000)
    block = plain([9, 7, 8])
    by_column.record(ORDERS, [], 1020, plain=[block])
    by_row.record(ORDERS, list(block.rows(ORDERS)), 1020)
    for offset in (7, 8, 9, 10):
        assert by_column.find(ORDERS, offset) == by_row.find(ORDERS, offset)
        assert by_column.find(ORDERS, offset, 1001) is None
    assert by_column.find(Shard("orders", "4"), 7) is None


@given(st.lists(st.integers(0, 1 << 62) | st.integers(10**12, 10**13 - 1) | st.integers(10**19, 10**20), min_size=1))
@example([10**11, 10**13, 10**12])
@example([10**19, 10**19, 7, 8, 10**12])
def test_a_plain_delivery_is_found_with_its_own_moment_whatever_those_beside_it_are(moments: list[int]) -> None:
    history = History(100, 60_000)
    block = replace(plain(range(len(moments))), accepted=b",".join(b"%d" % moment for moment in moments))
    history.record(ORDERS, [], 1020, plain=[block])
    found = [history.find(ORDERS, offset) for offset in range(len(moments))]
    assert [one.accepted_at_ms for one in found if one] == moments


DELIVERED = Query(state=State.DELIVERED)


def test_plain_deliveries_are_listed_as_any_others() -> None:
    by_column, by_row = History(4, 60_000), History(4, 60_000)
    for at_ms, block in ((2000, plain([3, 1, 2])), (2001, plain([6, 5]))):
        by_column.record(ORDERS, [], at_ms, plain=[block])
        by_row.record(ORDERS, list(block.rows(ORDERS)), at_ms)
    found = by_column.newest([ORDERS], DELIVERED, 100)
    assert found == by_row.newest([ORDERS], DELIVERED, 100)
    assert [row.place.offset for row in found[0]] == [5, 6, 1, 2]


def test_a_plain_delivery_whose_message_ended_again_in_the_same_moment_is_listed_once() -> None:
    history = History(10, 60_000)
    for offsets in ([7, 8], [9, 7]):
        history.record(ORDERS, [], 2000, plain=[plain(offsets)])
    rows, _, _ = history.newest([ORDERS], DELIVERED, 100)
    assert [(row.place.offset, row.found.accepted_at_ms) for row in rows] == [(7, 501), (8, 501), (9, 500)]


def test_a_message_that_ended_again_leaves_nothing_behind() -> None:
    history = History(10, 1000)
    for at_ms in (1000, 1001):
        history.record(ORDERS, [], at_ms, plain=[plain([7])])
    history.record(ORDERS, [], 9000)
    assert (len(history), history.find(ORDERS, 7), history.endings, history.plain) == (0, None, {}, {})


def test_what_is_kept_of_plain_deliveries_is_no_work_for_the_garbage_collector() -> None:
    history = History(10, 1000)
    history.record(ORDERS, [row(3, 900)], 1000, plain=[plain([7, 8])])
    assert not gc.is_tracked(history.endings[ORDERS])


def test_a_full_history_forgets_plain_deliveries_in_part() -> None:
    history = History(4, 60_000)
    history.record(ORDERS, [row(100, 900)], 1000, plain=[plain([5, 3, 4])])
    history.record(ORDERS, [], 1001, plain=[plain([8, 6])])
    found = [offset for offset in (3, 4, 5, 6, 8, 100) if history.find(ORDERS, offset)]
    assert (found, len(history)) == ([4, 6, 8, 100], 4)


def test_a_full_history_forgets_one_commit_bit_by_bit() -> None:
    history = History(4, 60_000)
    history.record(ORDERS, [], 1000, plain=[plain([1, 2, 3, 4])])
    for number in (5, 6, 7):
        history.record(ORDERS, [], 1000 + number, plain=[plain([number])])
    assert [offset for offset in range(1, 8) if history.find(ORDERS, offset)] == [4, 5, 6, 7]
    assert history.newest([ORDERS], DELIVERED, 100)[2] == 4 + 4  # a commit counts, and what is left of it


def test_a_limit_of_none_keeps_no_plain_deliveries() -> None:
    history = History(0, 60_000)
    history.record(ORDERS, [], 1000, plain=[plain([1])])
    assert (len(history), history.find(ORDERS, 1)) == (0, None)


# --- what happened before


def moved(offset: int, first: int, reason: str) -> AuditRow:
    name = f"orders.3.{first}.1000"
    return AuditRow(offset, name, 1000, 500, Outcome.SUPERSEDED, name, reason)


def story(history: History, offset: int = 7) -> list[tuple[str, str, int, int]]:
    found = history.with_events(Found(MessageId(ORDERS, offset, 1000), State.PENDING, 500, 1000))
    return [(event.what, event.by, event.version, event.at_ms) for event in found.history]


def test_moves_are_listed_between_the_beginning_and_the_end() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [moved(7, 7, "rescheduled")], 600, {"orders.3.7.1000": 1})
    history.record(ORDERS, [moved(20, 7, "roll")], 700, {"orders.3.7.1000": 2})
    history.record(ORDERS, [AuditRow(30, "orders.3.7.1000", 2000, 500, Outcome.DELIVERED)], 2020)
    found = history.find(ORDERS, 7, 1000)
    assert found is not None
    assert found.version == 2
    assert [(event.what, event.by, event.version, event.at_ms) for event in history.with_events(found).history] == [
        ("accepted", "client", 0, 500),
        ("rescheduled", "client", 1, 600),
        ("rolled", "worker", 2, 700),
        ("delivered", "worker", 2, 2020),
    ]


def test_a_cancel_is_a_clients_doing() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [row(7, 1000, Outcome.CANCELLED, "cancelled")], 600)
    found = history.find(ORDERS, 7)
    assert found is not None
    assert history.with_events(found).history[-1] == Event(600, "cancelled", "client", 0)


def test_a_record_that_another_message_replaced_has_not_moved() -> None:
    history = History(10, 60_000)
    history.record(ORDERS, [moved(7, 7, "replaced")], 600, {"orders.3.8.1000": 1})
    assert story(history) == [("accepted", "client", 0, 500)]


def test_the_newest_moves_of_a_message_are_kept() -> None:
    history = History(10_000, 60_000)
    for number in range(OF_MESSAGE_MAX + 3):
        history.record(ORDERS, [moved(number, 7, "roll")], 600 + number, {"orders.3.7.1000": number + 1})
    assert [version for _, _, version, _ in story(history)] == [0, *range(4, OF_MESSAGE_MAX + 4)]


def test_moves_are_forgotten_by_age_and_count_and_leave_nothing() -> None:
    history = History(3, 1000)
    for number in range(5):
        history.record(ORDERS, [moved(number, number, "roll")], 600, {f"orders.3.{number}.1000": 1})
    assert [len(story(history, number)) for number in range(5)] == [1, 1, 2, 2, 2]
    history.record(ORDERS, [], 1601)
    assert [len(story(history, number)) for number in range(5)] == [1] * 5
    assert not history.events.packed


def test_a_move_that_newer_ones_pushed_out_takes_no_other_with_it_when_it_is_forgotten() -> None:
    history = History(10_000, 1000)
    for number in range(OF_MESSAGE_MAX + 1):
        history.record(ORDERS, [moved(number, 7, "roll")], 600 + number, {"orders.3.7.1000": number + 1})
    history.record(ORDERS, [], 1601)
    assert len(story(history)) == 1 + OF_MESSAGE_MAX


# --- forgetting


def test_a_full_history_forgets_commits_in_part() -> None:
    history = History(4, 60_000)
    for at_ms in (1000, 1001, 1002):
        history.record(ORDERS, [row(at_ms * 10 + number, 900) for number in range(3)], at_ms)
    kept = [at_ms * 10 + number for at_ms in (1000, 1001, 1002) for number in range(3)]
    assert [history.find(ORDERS, offset) is not None for offset in kept] == [False] * 5 + [True] * 4


def test_what_is_forgotten_leaves_nothing_behind() -> None:
    history = History(1000, 60_000)
    for number in range(3000):
        history.record(ORDERS, [row(number, 900)], 1000)
    assert len(history.commits) == len(history) == 1000
