"""Directives of RocketMQ, RabbitMQ and etf1's scheduler: off unless the rules name their family."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.records.message import Header
from delayline.schedule.directives import directive_names
from delayline.schedule.rules import ALIASES, DAY_MS, Rules
from delayline.schedule.verdict import Immediate, Invalid, Reason, Schedule, Verdict, read_directives

NOW_MS = 1_767_225_600_000
RULES = Rules(aliases=ALIASES)
HORIZON_MS = 3650 * DAY_MS


def read(*headers: Header) -> Verdict:
    return read_directives(headers, NOW_MS, RULES, HORIZON_MS)


def test_names_of_a_family_count_only_where_the_rules_name_it() -> None:
    assert b"x-delay" not in directive_names(())
    assert directive_names(("rabbitmq",)) == directive_names(()) | {b"x-delay"}


@pytest.mark.parametrize("name", [b"DELAY", b"x-delay", b"scheduler-epoch"])
def test_a_foreign_header_is_the_applications_own_while_its_family_is_off(name: bytes) -> None:
    assert read_directives([(name, b"nonsense")], NOW_MS, Rules()) == Immediate()


@pytest.mark.parametrize(
    ("headers", "verdict"),
    [
        ([(b"DELAY", b"3")], Schedule(NOW_MS + 10_000)),
        ([(b"DELAY", b"99")], Schedule(NOW_MS + 7_200_000)),
        ([(b"DELAY", b"0")], Immediate()),
        ([(b"DELAY", b"-1")], Immediate()),
        ([(b"TIMER_DELAY_SEC", b"5")], Schedule(NOW_MS + 5000)),
        ([(b"TIMER_DELAY_MS", b"5")], Schedule(NOW_MS + 5)),
        ([(b"TIMER_DELIVER_MS", b"1767225605000")], Schedule(NOW_MS + 5000)),
        ([(b"TIMER_DELIVER_MS", b"5")], Schedule(5)),
        ([(b"TIMER_DELAY_SEC", b"-5")], Immediate()),
        ([(b"TIMER_DELIVER_MS", b"-5")], Immediate()),
        ([(b"DELAY", b"1"), (b"TIMER_DELAY_SEC", b"soon")], Schedule(NOW_MS + 1000)),
        ([(b"DELAY", b"0"), (b"TIMER_DELAY_MS", b"7")], Schedule(NOW_MS + 7)),
        ([(b"TIMER_DELIVER_MS", b"1"), (b"TIMER_DELAY_MS", b"7")], Schedule(NOW_MS + 7)),
        ([(b"TIMER_DELAY_MS", b"7"), (b"TIMER_DELAY_SEC", b"8")], Schedule(NOW_MS + 8000)),
    ],
)
def test_rocketmq_properties_follow_rocketmqs_own_precedence(headers: list[Header], verdict: Verdict) -> None:
    assert read(*headers) == verdict


@pytest.mark.parametrize("name", [b"DELAY", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TIMER_DELIVER_MS"])
def test_a_rocketmq_property_that_is_no_integer_is_invalid(name: bytes) -> None:
    verdict = read((name, b"abc"))
    assert isinstance(verdict, Invalid)
    assert (verdict.reason, verdict.directive) == (Reason.INVALID, name.decode())


@pytest.mark.parametrize("name", [b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TIMER_DELIVER_MS"])
def test_a_rocketmq_timer_beyond_the_horizon_is_refused_by_its_name(name: bytes) -> None:
    verdict = read((name, b"9" * 18))
    assert isinstance(verdict, Invalid)
    assert (verdict.reason, verdict.directive) == (Reason.BEYOND_HORIZON, name.decode())


@pytest.mark.parametrize(
    ("value", "verdict"), [(b"5000", Schedule(NOW_MS + 5000)), (b"0", Immediate()), (b"-5000", Immediate())]
)
def test_rabbitmqs_delay_is_milliseconds_and_negative_once_it_was_served(value: bytes, verdict: Verdict) -> None:
    assert read((b"x-delay", value)) == verdict


def test_etf1s_epoch_is_seconds() -> None:
    assert read((b"scheduler-epoch", b"1767225605")) == Schedule(NOW_MS + 5000)


@pytest.mark.parametrize("name", [b"scheduler-target-topic", b"scheduler-target-key"])
def test_etf1s_other_targets_are_refused(name: bytes) -> None:
    verdict = read((b"scheduler-epoch", b"1767225605"), (name, b"elsewhere"))
    assert isinstance(verdict, Invalid)
    assert (verdict.reason, verdict.directive) == (Reason.NOT_SUPPORTED, name.decode())


def test_a_foreign_time_and_one_of_ours_may_agree() -> None:
    assert read((b"x-delay", b"1000"), (b"DELAY", b"1"), (b"delay", b"1s")) == Schedule(NOW_MS + 1000)


def test_a_foreign_time_and_one_of_ours_may_contradict() -> None:
    verdict = read((b"x-delay", b"1000"), (b"delay", b"2s"))
    assert isinstance(verdict, Invalid)
    assert verdict.reason == Reason.CONTRADICTORY


FOREIGN = st.tuples(
    st.sampled_from([*sorted(directive_names(ALIASES) - directive_names(())), b"delay-ms"]),
    st.one_of(st.integers(-(1 << 65), 1 << 65).map(lambda number: b"%d" % number), st.binary(max_size=8)),
)


@given(st.lists(FOREIGN, max_size=3))
def test_every_set_of_foreign_headers_has_a_verdict(headers: list[Header]) -> None:
    match read(*headers):
        case Schedule(due_ms):
            assert 0 <= due_ms <= NOW_MS + HORIZON_MS
        case verdict:
            assert isinstance(verdict, Immediate | Invalid)
