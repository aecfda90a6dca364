"""What is looked for in a message's properties."""

import pytest

from delayline.records.headers import RESERVED, SENT
from delayline.schedule.directives import directive_names
from delayline.schedule.rules import DEFAULT_RULES, Rules
from proxy.rocketmq.sends import delays
from proxy.rocketmq.sends.screen import SendScreen, has_hint
from rocketmq.wire.properties import encode_properties

ALL = ("rocketmq", "rabbitmq", "etf1")
SCREEN = SendScreen(lambda _: DEFAULT_RULES, 40 * 86_400_000)


def test_every_name_that_means_something_holds_a_hint() -> None:
    names = {name.decode() for name in directive_names(ALL) | RESERVED | {SENT}} | delays.NAMES
    assert [name for name in names if not has_hint(name)] == []


@pytest.mark.parametrize(
    ("properties", "is_looked_at"),
    [
        ({}, False),
        ({"KEYS": "k1", "TAGS": "a", "UNIQ_KEY": "7F00", "WAIT": "true"}, False),
        ({"src": "delayed by rain"}, False),
        ({"relay": "1"}, False),
        ({"DELAY": "0"}, True),
        ({"TIMER_DELIVER_MS": "1"}, True),
        ({"__STARTDELIVERTIME": "1"}, True),
        ({"delay-cron": "* * * * *"}, True),
        ({"Delay": "1s"}, True),
        ({"delay-foo": "1s"}, True),
        ({"delayline-sent": "0 1"}, True),
        ({"x-delay": "5"}, False),
    ],
)
def test_only_messages_that_may_be_delayed_or_refused_are_looked_at(
    properties: dict[str, str], is_looked_at: bool
) -> None:
    assert SCREEN.concerns("orders", encode_properties(properties)) is is_looked_at


def test_aliases_and_a_default_delay_are_looked_at_where_they_hold() -> None:
    aliased = SendScreen(lambda _: Rules(aliases=ALL), 1)
    assert aliased.concerns("orders", encode_properties({"x-delay": "5"}))
    assert aliased.concerns("orders", encode_properties({"scheduler-epoch": "5"}))
    assert SendScreen(lambda _: Rules(default_delay_ms=1), 1).concerns("orders", "")
