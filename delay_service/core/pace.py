"""How much is done at once, so that nothing else waits long behind it.

A plain message costs some 10 us, one that repeats fifty times as much: it is decoded, delivered, written again and
read again. A bound in records would be too high for the one or too low for the other, so it follows from what the
last ones did cost. Pure; the clock is handed in.
"""

from collections.abc import Callable, Sequence

from mq.contract import Event, Fetched

AT_ONCE_S = 0.05
"""Of reading, and of taking: a message of another topic waits for one of each, and for a commit."""

LEAST = 16
FIRST = 500
"""Before anything is known."""


class Pace:
    """For one kind of work. Slower records count at once, quicker ones by halves: the next may be slow again."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._each_s = AT_ONCE_S / FIRST
        self._began_s = 0.0

    def bound(self, most: int, spent_s: float = 0.0) -> int:
        """How many may be done now, `most` at most, where so much of the time is spent already."""
        if self._each_s == 0:
            return most
        return min(most, max(LEAST, int((AT_ONCE_S - spent_s) / self._each_s)))

    def begin(self) -> None:
        self._began_s = self._now_s()

    def did(self, count: int) -> None:
        """So many have been done since `begin`. A few are a weak measure, and none where they were quick."""
        if count == 0:
            return
        each_s = max((self._now_s() - self._began_s) / count, self._each_s / 2)
        if count >= LEAST or each_s > self._each_s:
            self._each_s += min(1.0, count / LEAST) * (each_s - self._each_s)


class Reading(Pace):
    """What is read from the source is taken in before more is read."""

    def take_in(self, events: Sequence[Event], handle: Callable[[Event], None]) -> None:
        self.begin()
        for event in events:
            handle(event)
        self.did(sum(len(event.records) for event in events if isinstance(event, Fetched)))
