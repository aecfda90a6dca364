"""The only place that reads the time of this machine; everything else is handed a `Clock`."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time. Wall time may jump; monotonic time never goes back and means nothing by itself."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment, never going back."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when it is advanced: for tests, simulations and users' own experiments."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = now_ms
        self._started_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return (self._now_ms - self._started_ms) / 1000

    def advance(self, ms: int) -> None:
        """Move forward by `ms` milliseconds."""
        self._now_ms += ms
