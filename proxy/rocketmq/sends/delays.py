"""RocketMQ's own delays: from a message's properties to one of our directives (`HookUtils.handleScheduleMessage`).

    DELAY                  a level above 0 wins over all others; above the last level it is the last one
    TIMER_DELAY_SEC        then, in this order, a delay in seconds,
    TIMER_DELAY_MS         one in milliseconds,
    TIMER_DELIVER_MS       or a moment, epoch ms; what is not above now is no delay
    __STARTDELIVERTIME     a moment as well: other vendors' (`ali-ons`); RocketMQ itself passes over it

A message with TIMER_OUT_MS has waited already, and one with TIMER_DEL_UNIQKEY cancels another in the broker's own
timer: both are left alone. A value that is no number gets the code that RocketMQ gives: 1 for a level, 13 for a time.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from delayline.records.message import Header
from delayline.schedule.rules import Rules
from proxy.rocketmq.sends.request import RemotingRefusal
from rocketmq.wire.codes import Answer

LEVEL = "DELAY"
WAITED, CANCELS = "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY"
START_DELIVER_TIME = "__STARTDELIVERTIME"
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class _Timer(NamedTuple):
    name: str
    is_delay: bool
    unit_ms: int = 1


_TIMERS = (
    _Timer("TIMER_DELAY_SEC", True, 1000),
    _Timer("TIMER_DELAY_MS", True),
    _Timer("TIMER_DELIVER_MS", False),
    _Timer(START_DELIVER_TIME, False),
)
NAMES = frozenset({LEVEL, *(timer.name for timer in _TIMERS)})

NO_DELAY: Header = (b"delay-ms", b"0")


def delay_of(
    properties: Mapping[str, str], now_ms: int, rules: Rules, horizon_max_ms: int
) -> Header | RemotingRefusal | None:
    """The directive that means the same; None where the message asks for none. Hot: once per message with one."""
    level = _number(properties.get(LEVEL, "0"), _INT32_MAX)
    if level is None:
        return RemotingRefusal(Answer.SYSTEM_ERROR, f'{LEVEL}: For input string: "{properties[LEVEL][:40]}"')
    if level > 0:
        return b"delay-ms", b"%d" % rules.levels_ms[min(level, len(rules.levels_ms)) - 1]
    if WAITED not in properties and CANCELS not in properties:
        for timer in _TIMERS:
            if (text := properties.get(timer.name)) is not None:
                return _timer(timer, _number(text, _INT64_MAX), now_ms, horizon_max_ms)
    return NO_DELAY if LEVEL in properties else None


def _timer(timer: _Timer, value: int | None, now_ms: int, horizon_max_ms: int) -> Header | RemotingRefusal:
    """Judged here, so that a delay has RocketMQ's code where it is too long."""
    if value is None:
        return RemotingRefusal(Answer.MESSAGE_ILLEGAL, f"timer message illegal: {timer.name} is no number of 64 bits")
    left_ms = value * timer.unit_ms - (0 if timer.is_delay else now_ms)
    if left_ms > horizon_max_ms:
        return RemotingRefusal(
            Answer.MESSAGE_ILLEGAL,
            f"timer message illegal, the delay time should not be bigger than the max delay {horizon_max_ms}ms",
        )
    if left_ms <= 0:
        return NO_DELAY
    return (b"delay-ms", b"%d" % left_ms) if timer.is_delay else (b"deliver-at", b"%d" % value)


def _number(text: str, most: int) -> int | None:
    """As Java's parseInt and parseLong read it."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -most - 1 <= number <= most else None
