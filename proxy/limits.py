"""What strangers may take of a proxy before any right is checked.

A frame that has to be gathered whole is paid for in advance, in full, from one `Budget` for all connections. A client
that finds it used up is not read until there is room, in the order of asking. That cannot deadlock: what holds a part
of the budget has all that it needs, and gives it back when the frame is dealt with, when its deadline has passed, or
with its connection.
"""

import resource
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import Gauge

SMALL_BYTES = 16 * 1024
"""Frames up to this length are not paid for: as much is read from a socket in one go anyway."""

DESCRIPTORS_KEPT = 256
"""For listeners, the proxy's own connections and libraries, out of RLIMIT_NOFILE."""

DESCRIPTORS_PER_CONNECTION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of all connections to a proxy; sizes in bytes. The idle timeout is above that of Kafka's brokers and clients:
    `connections.max.idle.ms`, 10 and 9 minutes."""

    held_bytes_max: int = 512 << 20
    frame_timeout_s: float = 60.0
    idle_timeout_s: float = 660.0
    connections_max: int = 10_000
    connections_per_address_max: int = 2_000

    @property
    def connections(self) -> int:
        """What the process' descriptors allow, too."""
        descriptors = _descriptors()
        return max(1, min(self.connections_max, (descriptors - DESCRIPTORS_KEPT) // DESCRIPTORS_PER_CONNECTION))

    @property
    def handshakes(self) -> int:
        """TLS handshakes at once, besides the connections: as many, where descriptors allow it."""
        left = _descriptors() - DESCRIPTORS_PER_CONNECTION * self.connections - DESCRIPTORS_KEPT // 2
        return max(1, min(self.connections, left))


def _descriptors() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


@dataclass(slots=True, eq=False)
class Grant:
    """A part of the budget, or a place in the queue for one. `release` may be called again."""

    _budget: "Budget"
    size: int
    ready: Callable[[], None]
    granted: bool = False
    released: bool = False

    def release(self) -> None:
        if not self.released:
            self.released = True
            self._budget.give_back(self)


class Budget:
    """Of bytes held for clients, on one event loop."""

    def __init__(self, bytes_max: int, gauge: Gauge | None = None) -> None:
        self._bytes_max = bytes_max
        self._gauge = gauge
        self._waiting: deque[Grant] = deque()
        self.used = 0
        self._peak = 0

    def take_peak(self) -> int:
        """The most that was used at once since the last call."""
        peak, self._peak = self._peak, self.used
        return peak

    def take(self, size: int, ready: Callable[[], None]) -> Grant:
        """Granted at once, or later, and then `ready` is called. The first one is granted whatever its size."""
        grant = Grant(self, size, ready)
        if not self._waiting and self._fits(size):
            self._give(grant)
        else:
            self._waiting.append(grant)
        return grant

    def grow(self, grant: Grant, size: int) -> None:
        """What is there already is counted, also beyond the budget: it makes others wait."""
        if not grant.released:
            grant.size += size
            self._use(size)

    def give_back(self, grant: Grant) -> None:
        if grant.granted:
            self._use(-grant.size)
        else:
            self._waiting.remove(grant)
        while self._waiting and self._fits(self._waiting[0].size):
            waiting = self._waiting.popleft()
            self._give(waiting)
            waiting.ready()

    def _fits(self, size: int) -> bool:
        return not self.used or self.used + size <= self._bytes_max

    def _give(self, grant: Grant) -> None:
        grant.granted = True
        self._use(grant.size)

    def _use(self, size: int) -> None:
        self.used += size
        self._peak = max(self._peak, self.used)
        if self._gauge is not None:
            self._gauge.set(self.used)


class Deadlines:
    """Of one connection, looked at from time to time: nothing is done per piece of data but setting `heard`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._frame: int | None = None
        self._frame_s: float | None = None
        self._heard_s: float | None = None
        self.heard = False

    def overdue(
        self, now_s: float, frame: int | None, *, excused: bool, login_timeout_s: float | None = None
    ) -> str | None:
        """The limit that is passed. `frame` numbers the one that has begun and is not complete, None where there is
        none; `excused` is a client that the proxy itself does not read, or owes an answer. `login_timeout_s` is the
        limit of silence for one that has to log in, and has not."""
        if self.heard or excused or self._heard_s is None:
            self.heard, self._heard_s = False, now_s
        if frame is None or excused or frame != self._frame or self._frame_s is None:
            self._frame, self._frame_s = frame, now_s
        if frame is not None and now_s - self._frame_s > self._limits.frame_timeout_s:
            return "frame_timeout"
        silent_s = now_s - self._heard_s
        if login_timeout_s is not None:
            return "login_timeout" if silent_s > login_timeout_s else None
        return "idle_timeout" if silent_s > self._limits.idle_timeout_s else None
