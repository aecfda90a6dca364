"""What the produce splitter needs of the connection that it belongs to."""

from collections.abc import Coroutine
from typing import Any, Protocol

from delayline.access.ledger import Account
from kafkawire.protocol.primitives import Buffer
from proxy.kafka.produce.produces import UpstreamProduce
from proxy.kafka.produce.rights import RightsAsked
from proxy.kafka.response_order import Turn


class Upstream(Protocol):
    """Of one connection, in its event loop. The relay is one."""

    def ship(self, shipment: UpstreamProduce) -> None:
        """A Produce to the broker."""

    def ask(self, asked: RightsAsked) -> None:
        """A question of the proxy's that the broker answers for the client."""

    def join(self, turn: Turn) -> None:
        """A request of the client's that no broker will answer takes its place among the others."""

    def answer(self, turn: Turn, body: list[Buffer]) -> None:
        """To a request that has joined."""

    def release(self, turn: Turn) -> None:
        """Nothing is held of its request any more."""

    def grow(self, turn: Turn, size: int) -> None:
        """More is held for a request than what came."""

    def take_up(self) -> None:
        """Whatever held up the next request may be over."""

    @property
    def principal(self) -> str:
        """Who the client is, as far as it is known."""

    def mute(self, account: Account, wait_s: float) -> None:
        """Read nothing of the client for so long."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """In the background, for as long as the connection lasts. Failing, it ends the connection."""

    def end(self, reason: str) -> None:
        """Carry out what was taken up, and nothing that was read behind it."""

    def close(self, reason: str = "") -> None:
        """End the connection at once."""
