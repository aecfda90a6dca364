"""The clocks that a client is handed, and the only place of this package that reads those of the machine."""

import time
from typing import Protocol


class RocketmqClock(Protocol):
    """Wall time may jump; monotonic time never goes back and means nothing by itself."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment."""


class MachineClock:
    """The machine's own."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
