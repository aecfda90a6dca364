"""How often an address may present a key that is none, or come back from a login that was none."""

from collections import OrderedDict
from math import ceil

from api.http.problems import LIMIT_EXCEEDED, Refusal
from delayline.clock import Clock

BURST = 10
EVERY_S = 6.0
"""An address that has used up its burst may try once in so many seconds."""

ADDRESSES_MAX = 10_000


class Attempts:
    """A token bucket for each address. A key that is right costs nothing, so clients behind one address of which one
    has an old key are not held up once their own keys are known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full_at_s: OrderedDict[str, float] = OrderedDict()  # by address: when its bucket will be full again

    def take(self, address: str) -> None:
        """A try before it is known whether it is right. Raises Refusal (429)."""
        self.check(address)
        self.spend(address)

    def check(self, address: str) -> None:
        """Raises Refusal (429) where the address has no try left."""
        if self._after(address) > self._clock.monotonic_s() + BURST * EVERY_S:
            detail = "too many wrong keys, or logins, from your address: try again later"
            raise Refusal(LIMIT_EXCEEDED, detail, status=429, retry_after_s=ceil(EVERY_S))

    def spend(self, address: str) -> None:
        """A try that was wrong."""
        self._put(address, self._after(address))

    def _after(self, address: str) -> float:
        """When the bucket will be full again after one more."""
        now_s = self._clock.monotonic_s()
        return max(self._full_at_s.get(address, now_s), now_s) + EVERY_S

    def give_back(self, address: str) -> None:
        """What was tried was right."""
        if (full_at_s := self._full_at_s.get(address)) is not None:
            self._put(address, full_at_s - EVERY_S)

    def _put(self, address: str, full_at_s: float) -> None:
        self._full_at_s[address] = full_at_s
        self._full_at_s.move_to_end(address)
        if len(self._full_at_s) > ADDRESSES_MAX:
            self._full_at_s.popitem(last=False)
