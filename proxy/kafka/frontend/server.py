"""The ports, and the connections behind them."""

import asyncio
import contextlib
from collections import Counter

from delayline.process import logs
from delayline.process.listening import listen
from kafkawire.protocol.errors import PeerError
from proxy.kafka.frontend.memory import keep_freed_memory
from proxy.kafka.frontend.relay import Relay
from proxy.kafka.hub import Hub

BACKLOG = 1024
IN_USE = "choose others with proxy.kafka.port"
GRACE_S = 2.0
"""What requests under way get when the proxy stops. A Produce without an answer is sent again by its producer."""

SWEEP_S = 1.0
"""Between two looks at the deadlines of all connections: a microsecond for each."""

LEARN_S = 30.0
LEARN_AGAIN_S = 1.0
"""Between two looks at the cluster's nodes and our topics' ids; and after a failure."""

log = logs.get(__name__)


class Server:
    """`start`, then `stop`, on one event loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._servers: list[asyncio.Server] = []
        self._relays: set[Relay] = set()
        self._per_address: Counter[str] = Counter()
        self._sweeping: asyncio.Task[None] | None = None
        self._learning: asyncio.Task[None] | None = None
        self._all_gone = asyncio.Event()
        self.trouble: str | None = "the cluster has not answered yet"

    async def start(self) -> None:
        """Listen on every port. Raises CannotListen."""
        keep_freed_memory()
        loop = asyncio.get_running_loop()
        settings = self._hub.settings
        try:
            for port, node_id in self._hub.topology.ports().items():
                listener = listen(settings.host, port, backlog=BACKLOG, in_use=IN_USE, shared=True)
                listener.setblocking(False)
                server = await loop.create_server(
                    lambda node_id=node_id: self._connected(node_id),
                    sock=listener,
                    backlog=BACKLOG,
                    ssl=settings.listener_tls,
                )
                self._servers.append(server)
        except BaseException:
            self._stop_listening()
            raise
        self._learning = asyncio.create_task(self._learn())
        self._sweeping = asyncio.create_task(self._sweep())

    def _connected(self, node_id: int | None) -> asyncio.Protocol:
        """Where there is TLS, a handshake comes before the relay begins."""
        return Relay(self._hub, node_id, self._began, self._ended).client

    def _began(self, relay: Relay) -> None:
        self._relays.add(relay)
        relay.address = relay.client.peer.rpartition(":")[0]
        self._per_address[relay.address] += 1
        limits = self._hub.settings.limits
        if len(self._relays) > limits.connections:
            self._refuse(relay, "connections_max", limits.connections)
        elif self._per_address[relay.address] > limits.connections_per_address_max:
            self._refuse(relay, "connections_per_address_max", limits.connections_per_address_max)

    def _refuse(self, relay: Relay, limit: str, count: int) -> None:
        self._hub.metrics.limited.labels(limit).inc()
        relay.close(f"more than {count} connections (proxy.kafka.{limit})")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = self._hub.clock.monotonic_s()
            for relay in list(self._relays):
                relay.check_deadlines(now_s)

    def _ended(self, relay: Relay) -> None:
        self._relays.discard(relay)
        self._per_address[relay.address] -= 1
        if not self._per_address[relay.address]:
            del self._per_address[relay.address]
        if not self._relays:
            self._all_gone.set()

    async def _learn(self) -> None:
        while True:
            try:
                await self._hub.backend.learn_nodes()
                self.trouble = None
                self._hub.buffer_topics.hidden_ids.update(await self._hub.backend.hidden_topic_ids())
            except PeerError as error:
                self.trouble = self.trouble and str(error)
                log.warning("the cluster could not be asked for nodes and topics", detail=str(error))
            await asyncio.sleep(LEARN_S if self.trouble is None else LEARN_AGAIN_S)

    async def stop(self) -> None:
        """Take no more connections, let each answer what it has been asked, then close it."""
        self._stop_listening()
        for relay in list(self._relays):
            relay.stop()
        if self._relays:
            self._all_gone.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), GRACE_S)
        for relay in list(self._relays):
            relay.close("the proxy stops")
        if self._learning is not None:
            self._learning.cancel()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._hub.close()
        await asyncio.sleep(0)

    def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
