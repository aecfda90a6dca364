"""The brokers' clocks: never run ahead of, and compared with our own.

A record's append time was the broker's time before we received it, so `append time + what has passed here since`
is never ahead of the broker's clock as long as both run equally fast: a lower bound, however old the record is. Of
a record that we sent ourselves we also know that it was stamped after it was sent: an upper bound (as in NTP, RFC
5905, but without the path back). Only both together are a measurement. A *leader* is a broker, by number or name.
The best bounds per leader, not older than a minute where there are newer ones, hold back our own clock; bounds
that contradict each other mean that the broker's clock was set, and the newer ones count.

A leader that has stamped nothing of ours is taken to be like those that have: brokers of one cluster keep one
time.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from threading import Lock

from delayline.clock import Clock
from mq.clock_offset import ClockOffset

WINDOW_S = 30.0
MEASURE_S = 5.0
"""Between two measurements of every leader that stamps our cursors."""


@dataclass(slots=True)
class _Estimate:
    """Milliseconds to add to monotonic milliseconds, at least and at most: of this window, and of the last one."""

    least: float
    most: float
    least_before: float
    most_before: float
    until_s: float

    @property
    def measured(self) -> bool:
        return min(self.most, self.most_before) < inf

    @property
    def bounds(self) -> tuple[float, float]:
        return max(self.least, self.least_before), min(self.most, self.most_before)

    def take(self, least: float, most: float, now_s: float) -> None:
        if now_s >= self.until_s:
            self.least_before, self.most_before = self.least, self.most
            self.least, self.most, self.until_s = least, most, now_s + WINDOW_S
        else:
            self.least, self.most = max(self.least, least), min(self.most, most)
        if self.bounds[0] > self.bounds[1]:
            self.least = self.least_before = least
            self.most = self.most_before = most


class BrokerClock:
    """A lower bound of every leader's clock. Any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._estimates: dict[Hashable, _Estimate] = {}  # bounded by the cluster's brokers

    def heard(self, leader: Hashable, appended_at_ms: int) -> None:
        """`leader` has stamped a record with this time, and we know it now."""
        now_s = self._clock.monotonic_s()
        self._take(leader, appended_at_ms - now_s * 1000, inf, now_s)

    def measured(self, leader: Hashable, appended_at_ms: int, sent_s: float) -> None:
        """`leader` has stamped a record that we sent at `sent_s` (monotonic), and we know it now."""
        now_s = self._clock.monotonic_s()
        # A stamp is cut to whole milliseconds: the broker's clock may have been almost one more.
        self._take(leader, appended_at_ms - now_s * 1000, appended_at_ms + 1 - sent_s * 1000, now_s)

    def _take(self, leader: Hashable, least: float, most: float, now_s: float) -> None:
        with self._lock:
            found = self._estimates.get(leader)
            if found is None:
                self._estimates[leader] = _Estimate(least, most, least, most, now_s + WINDOW_S)
            else:
                found.take(least, most, now_s)

    def now_ms(self, leader: Hashable) -> int:
        """Epoch ms, ahead neither of our clock nor of the leader's, as far as it is known."""
        local_ms = self._clock.now_ms()
        with self._lock:
            least = self._least(self._estimates.get(leader))
        return local_ms if least is None else min(local_ms, int(least + self._clock.monotonic_s() * 1000))

    def _least(self, found: _Estimate | None) -> float | None:
        """Of a leader that is not measured only what it stamped is known, which may have been long ago."""
        if found is not None and found.measured:
            return found.bounds[0]
        others = [other for other in self._estimates.values() if other.measured] or self._estimates.values()
        alike = min((other.bounds[0] for other in others), default=None)
        return alike if found is None or alike is None else max(alike, found.bounds[0])

    def offset(self, leader: Hashable) -> ClockOffset | None:
        """Our clock against the leader's; against the one that differs most where the leader is not measured, and
        None where none is."""
        ours = self._clock.now_ms() - self._clock.monotonic_s() * 1000
        with self._lock:
            offsets = {
                node: ClockOffset(str(node), round(ours - most), round(ours - least))
                for node, (least, most) in ((n, e.bounds) for n, e in self._estimates.items() if e.measured)
            }
        return offsets.get(leader) or max(offsets.values(), key=lambda offset: abs(offset.middle_ms), default=None)
