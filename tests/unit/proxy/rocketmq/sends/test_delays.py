"""RocketMQ's own delays, as its broker reads them (`HookUtils.handleScheduleMessage`)."""

import pytest

from delayline.records.message import Header
from delayline.schedule.rules import DEFAULT_RULES
from proxy.rocketmq.sends.delays import NO_DELAY, delay_of
from proxy.rocketmq.sends.request import RemotingRefusal

NOW_MS = 1_767_225_600_000
DAY_MS = 86_400_000
HORIZON_MS = 40 * DAY_MS


def read(**properties: str) -> Header | RemotingRefusal | None:
    return delay_of(properties, NOW_MS, DEFAULT_RULES, HORIZON_MS)


@pytest.mark.parametrize(
    ("properties", "directive"),
    [
        ({}, None),
        ({"DELAY": "1"}, (b"delay-ms", b"1000")),
        ({"DELAY": "+3"}, (b"delay-ms", b"10000")),
        ({"DELAY": "18"}, (b"delay-ms", b"7200000")),
        ({"DELAY": "99"}, (b"delay-ms", b"7200000")),
        ({"DELAY": "0"}, NO_DELAY),
        ({"DELAY": "-1"}, NO_DELAY),
        ({"DELAY": "2", "TIMER_DELAY_SEC": "60"}, (b"delay-ms", b"5000")),
        ({"DELAY": "0", "TIMER_DELAY_SEC": "60"}, (b"delay-ms", b"60000")),
        ({"TIMER_DELAY_SEC": "60", "TIMER_DELAY_MS": "1"}, (b"delay-ms", b"60000")),
        ({"TIMER_DELAY_MS": "1", "TIMER_DELIVER_MS": str(NOW_MS + 9)}, (b"delay-ms", b"1")),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 9)}, (b"deliver-at", b"%d" % (NOW_MS + 9))),
        ({"TIMER_DELIVER_MS": str(NOW_MS)}, NO_DELAY),
        ({"TIMER_DELIVER_MS": "1"}, NO_DELAY),
        ({"TIMER_DELAY_SEC": "0"}, NO_DELAY),
        ({"TIMER_DELAY_SEC": "-5"}, NO_DELAY),
        ({"TIMER_DELAY_SEC": str(40 * 86_400)}, (b"delay-ms", b"%d" % HORIZON_MS)),
        ({"__STARTDELIVERTIME": str(NOW_MS + 9)}, (b"deliver-at", b"%d" % (NOW_MS + 9))),
        ({"__STARTDELIVERTIME": str(NOW_MS + 9), "TIMER_DELAY_MS": "7"}, (b"delay-ms", b"7")),
        ({"TIMER_DELAY_SEC": "60", "TIMER_OUT_MS": "5"}, None),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 9), "TIMER_DEL_UNIQKEY": "k"}, None),
        ({"DELAY": "1", "TIMER_OUT_MS": "5"}, (b"delay-ms", b"1000")),
    ],
)
def test_a_delay_becomes_a_directive_by_rocketmqs_precedence(
    properties: dict[str, str], directive: Header | None
) -> None:
    assert read(**properties) == directive


@pytest.mark.parametrize("value", ["abc", "", "1.5", " 1", "1_000", "٣", "2147483648", "9" * 30])
def test_a_level_that_is_no_number_gets_code_1(value: str) -> None:
    found = read(DELAY=value)
    assert isinstance(found, RemotingRefusal)
    assert found.code == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "abc"},
        {"TIMER_DELAY_MS": ""},
        {"TIMER_DELIVER_MS": "9223372036854775808"},
        {"TIMER_DELAY_SEC": "9223372036854775807"},
        {"TIMER_DELAY_MS": str(HORIZON_MS + 1)},
        {"TIMER_DELIVER_MS": str(NOW_MS + HORIZON_MS + 1)},
        {"__STARTDELIVERTIME": "soon"},
    ],
)
def test_a_time_that_is_no_number_or_beyond_the_horizon_gets_code_13(properties: dict[str, str]) -> None:
    found = read(**properties)
    assert isinstance(found, RemotingRefusal)
    assert found.code == 13


def test_a_time_behind_the_one_that_counts_is_not_looked_at() -> None:
    assert read(DELAY="1", TIMER_DELAY_SEC="abc") == (b"delay-ms", b"1000")
