"""What has been taken in and not answered: bounded, in requests and in bytes, in all and for each address.

A body that never ends holds its place until `body_timeout_s`. Without the second bound one client could hold all of
them.
"""

from api.http.problems import LIMIT_EXCEEDED, Refusal
from delayline.http.places import share_of


class InFlight:
    """Counts on the event loop's thread only. One address gets `share_percent` of both."""

    def __init__(self, requests_max: int, bytes_max: int, share_percent: int = 100) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._share_requests_max = share_of(requests_max, share_percent)
        self._share_bytes_max = share_of(bytes_max, share_percent)
        self._of_address: dict[str, list[int]] = {}  # requests, bytes
        self.requests = 0
        self.bytes = 0

    def enter(self, address: str = "") -> "Ticket":
        """Raises Refusal (503, or 429 where it is the client's address): come back a little later."""
        held = self._of_address.get(address)
        if self.requests >= self._requests_max:
            raise Refusal(LIMIT_EXCEEDED, f"{self._requests_max} requests are in flight already", status=503)
        if held is not None and held[0] >= self._share_requests_max:
            detail = f"{self._share_requests_max} requests from your address are in flight already"
            raise Refusal(LIMIT_EXCEEDED, detail, status=429, close=True)
        if held is None:
            held = self._of_address[address] = [0, 0]
        held[0] += 1
        self.requests += 1
        return Ticket(self, address)

    def grow(self, address: str, count: int) -> None:
        """Raises Refusal (503 or 429)."""
        held = self._of_address[address]
        if self.bytes + count > self._bytes_max:
            detail = f"requests in flight hold {self._bytes_max} bytes already"
            raise Refusal(LIMIT_EXCEEDED, detail, status=503, close=True)
        if held[1] + count > self._share_bytes_max:
            detail = f"requests from your address hold {self._share_bytes_max} bytes already"
            raise Refusal(LIMIT_EXCEEDED, detail, status=429, close=True)
        held[1] += count
        self.bytes += count

    def leave(self, address: str, count: int) -> None:
        """One request less, which held `count` bytes."""
        held = self._of_address[address]
        held[0] -= 1
        held[1] -= count
        if held[0] == 0:
            del self._of_address[address]
        self.requests -= 1
        self.bytes -= count


class Ticket:
    """One request's share; given back when everybody who holds it has let go."""

    __slots__ = ("_address", "_bytes", "_holders", "_in_flight")

    def __init__(self, in_flight: InFlight, address: str) -> None:
        self._in_flight = in_flight
        self._address = address
        self._bytes = 0
        self._holders = 1

    def grow(self, count: int) -> None:
        """The request holds `count` more bytes. Raises Refusal (503 or 429)."""
        self._in_flight.grow(self._address, count)
        self._bytes += count

    def hold(self) -> None:
        """One holder more: an append that goes on after its request has been answered."""
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._in_flight.leave(self._address, self._bytes)
