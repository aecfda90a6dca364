"""What has been taken in and not answered: bounded, in requests and in bytes."""

from api.problems import LIMIT_EXCEEDED, Refusal


class InFlight:
    """Counts on the event loop's thread only."""

    def __init__(self, requests_max: int, bytes_max: int) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self.requests = 0
        self.bytes = 0

    def enter(self) -> "Ticket":
        """Raises Refusal (503): the client should come back a little later."""
        if self.requests >= self._requests_max:
            raise Refusal(LIMIT_EXCEEDED, f"{self._requests_max} requests are in flight already", status=503)
        self.requests += 1
        return Ticket(self)

    def grow(self, count: int) -> None:
        """Raises Refusal (503)."""
        if self.bytes + count > self._bytes_max:
            detail = f"requests in flight hold {self._bytes_max} bytes already"
            raise Refusal(LIMIT_EXCEEDED, detail, status=503, close=True)
        self.bytes += count


class Ticket:
    """One request's share; given back when everybody who holds it has let go."""

    __slots__ = ("_bytes", "_holders", "_in_flight")

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._bytes = 0
        self._holders = 1

    def grow(self, count: int) -> None:
        """The request holds `count` more bytes. Raises Refusal (503)."""
        self._in_flight.grow(count)
        self._bytes += count

    def hold(self) -> None:
        """One holder more: an append that goes on after its request has been answered."""
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._in_flight.requests -= 1
            self._in_flight.bytes -= self._bytes
