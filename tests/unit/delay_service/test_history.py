"""What is remembered of ended messages."""

from delay_service.history import History
from delayline.inquiry import Ending, State
from delayline.message import Shard
from delayline.outcome import AuditRow, Outcome

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
