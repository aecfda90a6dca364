"""The outcome of a record is answered to callers, before and after."""

from delay_service.worker.decisions import KEPT_MAX, Decisions
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Resolution
from delayline.records.message import Shard

ORDERS = Shard("orders", "0")
APPLIED = Resolution(Outcome.APPLIED, "cancelled")


def test_the_outcome_of_a_record_is_answered_before_and_after() -> None:
    decisions = Decisions()
    before = decisions.ask(ORDERS, 5)
    assert not before.done()
    decisions.record(ORDERS, [(5, APPLIED)])
    assert (before.result(0), decisions.ask(ORDERS, 5).result(0)) == (APPLIED, APPLIED)
    assert not decisions.ask(ORDERS, 6).done()


def test_so_many_are_remembered_and_the_oldest_are_not() -> None:
    decisions = Decisions()
    for offset in range(KEPT_MAX + 1):
        decisions.record(ORDERS, [(offset, APPLIED)])
    assert not decisions.ask(ORDERS, 0).done()
    assert decisions.ask(ORDERS, KEPT_MAX).done()


def test_many_are_known_once_each_of_them_is() -> None:
    decisions = Decisions()
    decisions.record(ORDERS, [(3, Resolution(Outcome.UNMATCHED))])
    asked = decisions.ask_all(ORDERS, [5, 3, 4])
    decisions.record(ORDERS, [(4, Resolution(Outcome.APPLIED))])
    assert not asked.done()
    decisions.record(ORDERS, [(5, Resolution(Outcome.APPLIED))])
    assert [one.outcome for one in asked.result(0)] == [Outcome.APPLIED, Outcome.UNMATCHED, Outcome.APPLIED]
    assert decisions.ask_all(ORDERS, []).result(0) == []
