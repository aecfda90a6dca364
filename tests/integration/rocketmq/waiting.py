"""Waiting for what a broker shows a moment later."""

from collections.abc import Callable
from typing import Any

from delayline.clock import SystemClock

CLOCK = SystemClock()
PATIENCE_S = 60.0


def soon(what: Callable[[], Any]) -> Any:
    """The first true answer."""
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while not (answer := what()):
        assert CLOCK.monotonic_s() < until_s, "it did not happen"
    return answer
