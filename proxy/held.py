"""What is held of a connection's requests, paid for out of the process's budget (`proxy.limits.Budget`)."""

from typing import Protocol

from prometheus_client import Counter

from proxy.endpoint import Endpoint
from proxy.limits import SMALL_BYTES, Budget, Grant

NO_ROOM = "no room for a request"


class Payable(Protocol):
    """What a request is noted as; `grant` is its part of the budget, None where it takes none."""

    grant: Grant | None


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

    def pay(self, one: Payable, length: int) -> None:
        """For a frame that is gathered, unless it is small. Until it is granted, no more is read."""
        if length <= SMALL_BYTES:
            return
        grant = one.grant = self._budget.take(length, self._granted)
        self._grants.add(grant)
        if not grant.granted:
            self._limited.labels("held_bytes_max").inc()
            self._client.hold(NO_ROOM)

    def _granted(self) -> None:
        if all(grant.granted for grant in self._grants):
            self._client.release(NO_ROOM)

    def release(self, one: Payable) -> None:
        """Nothing is held of its request any more."""
        if one.grant is not None:
            self._grants.discard(one.grant)
            one.grant.release()
            one.grant = None

    def grow(self, one: Payable, size: int) -> None:
        """More is held for a request than what came."""
        if one.grant is None and size > SMALL_BYTES:
            one.grant = self._budget.take(0, self._granted)
            self._grants.add(one.grant)
        if one.grant is not None:
            self._budget.grow(one.grant, size)
