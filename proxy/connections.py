"""The connections that clients have to a proxy: how many there may be, their deadlines, their end."""

import asyncio
import contextlib
import socket
from collections import Counter
from typing import Generic, Protocol, TypeVar

import prometheus_client

from delayline.clock import Clock
from delayline.http.places import Places
from delayline.process.tls import Connected, TlsContext, TlsServer
from proxy.endpoint import Endpoint
from proxy.limits import Limits
from proxy.listener import Accept, OpenPort, accept_plaintext

GRACE_S = 2.0
"""What requests under way get when the proxy stops. One without an answer is sent again by its client."""

SWEEP_S = 1.0
"""Between two looks at the deadlines of all connections: a microsecond for each."""


class Connection(Protocol):
    """A client's. `address` is that of the client's machine, once it is counted."""

    client: Endpoint
    address: str

    def check_deadlines(self, now_s: float) -> None:
        """To be called from time to time."""

    def stop(self) -> None:
        """End as soon as no request waits for an answer."""

    def close(self, reason: str = "") -> None:
        """End at once; `reason` is logged where it is not just that a peer has gone."""


C = TypeVar("C", bound=Connection)


class Connections(Generic[C]):
    """On one event loop. `section` of the settings has the limits."""

    def __init__(self, limits: Limits, limited: prometheus_client.Counter, clock: Clock, section: str) -> None:
        self._limits = limits
        self._limited = limited
        self._clock = clock
        self._section = section
        self._all: set[C] = set()
        self._shaking = Places(limits.handshakes, limits.connections_per_address_max)
        self._per_address: Counter[str] = Counter()
        self._sweeping: asyncio.Task[None] | None = None
        self._all_gone = asyncio.Event()

    def accept(self, tls: TlsContext | None) -> Accept:
        """How the connections of a port are taken."""
        if tls is None:
            return accept_plaintext

        async def accept_tls(listener: socket.socket, connected: Connected) -> OpenPort:
            return TlsServer(listener, tls, self._shaking, connected, self._limited.labels("handshakes").inc)

        return accept_tls

    def all(self) -> list[C]:
        """Those that there are now."""
        return list(self._all)

    def start(self) -> None:
        """Look at deadlines from now on."""
        self._sweeping = asyncio.create_task(self._sweep())

    def began(self, one: C) -> None:
        """A client has connected. One too many is closed at once."""
        self._all.add(one)
        one.address = one.client.peer.rpartition(":")[0]
        self._per_address[one.address] += 1
        limits = self._limits
        if len(self._all) > limits.connections:
            self._refuse(one, "connections_max", limits.connections)
        elif self._per_address[one.address] > limits.connections_per_address_max:
            self._refuse(one, "connections_per_address_max", limits.connections_per_address_max)

    def _refuse(self, one: C, limit: str, count: int) -> None:
        self._limited.labels(limit).inc()
        one.close(f"more than {count} connections ({self._section}.{limit})")

    def ended(self, one: C) -> None:
        self._all.discard(one)
        self._per_address[one.address] -= 1
        if not self._per_address[one.address]:
            del self._per_address[one.address]
        if not self._all:
            self._all_gone.set()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = self._clock.monotonic_s()
            for one in self.all():
                one.check_deadlines(now_s)

    async def stop(self) -> None:
        """Let each answer what it has been asked, then close it."""
        for one in self.all():
            one.stop()
        if self._all:
            self._all_gone.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), GRACE_S)
        for one in self.all():
            one.close("the proxy stops")
        if self._sweeping is not None:
            self._sweeping.cancel()
