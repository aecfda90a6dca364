"""The brokers' clocks, never run ahead of.

A record's append time was the broker's time before we received it, so `append time + what has passed here since` is
never ahead of the broker's clock as long as both run equally fast. The best such estimate per leader, not older than
a minute where there are newer ones (a broker's clock may be set back), bounds our own clock from above.
"""

from dataclasses import dataclass
from threading import Lock

from delayline.clock import Clock

WINDOW_S = 30.0


@dataclass(slots=True)
class _Estimate:
    """Milliseconds to add to monotonic milliseconds: the best of this window, and of the last one that had any."""

    current: float
    previous: float
    until_s: float


class BrokerClock:
    """What every leader's clock says at least. Any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._estimates: dict[int, _Estimate] = {}

    def heard(self, leader: int, appended_at_ms: int) -> None:
        """`leader` has stamped a record with this time, and we know it now."""
        now_s = self._clock.monotonic_s()
        ahead_ms = appended_at_ms - now_s * 1000
        with self._lock:
            found = self._estimates.get(leader)
            if found is None:
                self._estimates[leader] = _Estimate(ahead_ms, ahead_ms, now_s + WINDOW_S)
            elif now_s < found.until_s:
                found.current = max(found.current, ahead_ms)
            else:
                self._estimates[leader] = _Estimate(ahead_ms, found.current, now_s + WINDOW_S)

    def now_ms(self, leader: int) -> int:
        """Epoch ms, ahead neither of our clock nor of the leader's; for a leader that was never heard, not ahead of
        any that was."""
        local_ms = self._clock.now_ms()
        with self._lock:
            found = self._estimates.get(leader)
            known = [found] if found else self._estimates.values()
            if not known:
                return local_ms
            ahead_ms = min(max(estimate.current, estimate.previous) for estimate in known)
        return min(local_ms, int(ahead_ms + self._clock.monotonic_s() * 1000))
