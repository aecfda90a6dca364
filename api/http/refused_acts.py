"""Which of the requests that no rule allows are written down: a principal without rights must not fill the log."""

from collections import OrderedDict

from prometheus_client import CollectorRegistry, Counter

from delayline.access.ledger import Bucket
from delayline.access.quotas import Rate
from delayline.clock import Clock

RATE = Rate(per_s=1, burst=10)
"""Of each principal: the first ten, then one a second. The others are counted."""

PRINCIPALS_MAX = 10_000
"""The one that was not refused for the longest time is forgotten."""


class _Refused:
    """Of one principal."""

    def __init__(self, now_s: float) -> None:
        self.bucket = Bucket(now_s)
        self.left_out = 0


class RefusedActs:
    """One thread at a time."""

    def __init__(self, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._principals: OrderedDict[str, _Refused] = OrderedDict()
        self._left_out = Counter(
            "delayline_access_acts_left_out",
            "Refused requests that are not written down: their principal has too many",
            registry=registry,
        )

    def left_out(self, principal: str) -> int | None:
        """How many of this principal were left out since the last one that was written down. None: this one is left
        out, too."""
        now_s = self._clock.monotonic_s()
        known = self._of(principal, now_s)
        if known.bucket.take(RATE, now_s) > 0:
            known.left_out += 1
            self._left_out.inc()
            return None
        count, known.left_out = known.left_out, 0
        return count

    def _of(self, principal: str, now_s: float) -> _Refused:
        known = self._principals.setdefault(principal, _Refused(now_s))
        self._principals.move_to_end(principal)
        if len(self._principals) > PRINCIPALS_MAX:
            self._principals.popitem(last=False)
        return known
