"""What is held of a connection's requests, paid for out of the process's budget (`proxy.kafka.limits.Budget`)."""

from prometheus_client import Counter

from proxy.kafka.frontend.endpoint import Endpoint
from proxy.kafka.limits import SMALL_BYTES, Budget, Grant
from proxy.kafka.response_order import Turn

NO_ROOM = "no room for a request"


class HeldBytes:
    """Of one connection. The client is not read while a request waits for its grant."""

    def __init__(self, budget: Budget, client: Endpoint, limited: Counter) -> None:
        self._budget = budget
        self._client = client
        self._limited = limited
        self._grants: set[Grant] = set()

    def close(self) -> None:
        for grant in list(self._grants):
            grant.release()
        self._grants.clear()

    def pay(self, turn: Turn, length: int) -> None:
        """For a frame that is gathered. Until it is granted, no more is read."""
        grant = turn.grant = self._budget.take(length, self._granted)
        self._grants.add(grant)
        if not grant.granted:
            self._limited.labels("held_bytes_max").inc()
            self._client.hold(NO_ROOM)

    def _granted(self) -> None:
        if all(grant.granted for grant in self._grants):
            self._client.release(NO_ROOM)

    def release(self, turn: Turn) -> None:
        """Nothing is held of its request any more."""
        if turn.grant is not None:
            self._grants.discard(turn.grant)
            turn.grant.release()
            turn.grant = None

    def grow(self, turn: Turn, size: int) -> None:
        """More is held for a request than what came."""
        if turn.grant is None and size > SMALL_BYTES:
            turn.grant = self._budget.take(0, self._granted)
            self._grants.add(turn.grant)
        if turn.grant is not None:
            self._budget.grow(turn.grant, size)
