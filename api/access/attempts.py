"""How often an address may present a key that is none, or come back from a login that was none."""

from collections import OrderedDict

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
        """Raises Refusal (429)."""
        now_s = self._clock.monotonic_s()
        full_at_s = max(self._full_at_s.get(address, now_s), now_s) + EVERY_S
        if full_at_s > now_s + BURST * EVERY_S:
            raise Refusal(
                LIMIT_EXCEEDED, "too many wrong keys, or logins, from your address: try again later", status=429
            )
        self._put(address, full_at_s)

    def give_back(self, address: str) -> None:
        """What was tried was right."""
        if (full_at_s := self._full_at_s.get(address)) is not None:
            self._put(address, full_at_s - EVERY_S)

    def _put(self, address: str, full_at_s: float) -> None:
        self._full_at_s[address] = full_at_s
        self._full_at_s.move_to_end(address)
        if len(self._full_at_s) > ADDRESSES_MAX:
            self._full_at_s.popitem(last=False)
