"""One end of a relay: a transport, and why it is not being read right now."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import cast

Buffer = bytes | bytearray | memoryview

WRITE_BYTES_HIGH = 1 << 20
"""Beyond it, the source that fills the transport is held: with what is read in one go, the memory of a direction."""

LINGER_S = 5.0
"""How long a peer may take to read what was still sent to it."""


class Endpoint(asyncio.Protocol):
    """Calls back: `made` once, `received` with bytes, `ended` when the peer sends no more but may still read, `lost`
    once, `full` when its peer does not read (True) or reads again (False)."""

    def __init__(
        self,
        made: Callable[[], None],
        received: Callable[[bytes], None],
        lost: Callable[[], None],
        full: Callable[[bool], None],
        ended: Callable[[], None] | None = None,
    ) -> None:
        """Without `ended`, a peer that sends no more is lost."""
        self._made = made
        self._received = received
        self._lost = lost
        self._full = full
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._holding: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        _keep_alive(self._transport.get_extra_info("socket"))
        self._made()

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def eof_received(self) -> bool:
        """Whether to go on writing. TLS has no half-closed connections: there `lost` follows at once."""
        if self._ended is None or self._transport is None:
            return False
        self._holding.add("ended")  # reading on would only end once more
        self._ended()
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._lost()

    def pause_writing(self) -> None:
        self._full(True)

    def resume_writing(self) -> None:
        self._full(False)

    @property
    def is_held(self) -> bool:
        return bool(self._holding)

    def is_held_for(self, reason: str) -> bool:
        return reason in self._holding

    @property
    def peer(self) -> str:
        found = self._transport and self._transport.get_extra_info("peername")
        return f"{found[0]}:{found[1]}" if found else "unknown"

    def hold(self, reason: str) -> None:
        """Do not read until every reason is gone."""
        if not self._holding and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._holding.add(reason)

    def release(self, reason: str) -> None:
        if reason not in self._holding:
            return
        self._holding.discard(reason)
        if not self._holding and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, parts: Sequence[Buffer]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)

    def close(self, linger_s: float = LINGER_S) -> None:
        """What was written is still sent, for so long."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.close()
            asyncio.get_running_loop().call_later(max(linger_s, LINGER_S), transport.abort)


def as_it_came(payload: memoryview) -> list[Buffer]:
    """The frame again, with its length, which Kafka and RocketMQ write alike."""
    return [len(payload).to_bytes(4, "big"), payload]


def _keep_alive(connected: socket.socket | None) -> None:
    """A peer that is gone without a word is found out."""
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
