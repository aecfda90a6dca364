"""The ports, and the connections behind them."""

import asyncio
from functools import partial

from delayline.process import logs
from kafkawire.protocol.errors import PeerError
from proxy.connections import Connections
from proxy.kafka.frontend.relay import KafkaRelay
from proxy.kafka.hub import Hub
from proxy.listener import OpenPort, open_port
from proxy.memory import FreedMemory

IN_USE = "choose others with proxy.kafka.port"
LEARN_S = 30.0
LEARN_AGAIN_S = 1.0
"""Between two looks at the cluster's nodes and our topics' ids; and after a failure."""

log = logs.get(__name__)


class Server:
    """`start`, then `stop`, on one event loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._servers: list[OpenPort] = []
        limited = hub.metrics.limited
        self._connections: Connections[KafkaRelay] = Connections(
            hub.settings.limits, limited, hub.clock, "proxy.kafka"
        )
        self._memory = FreedMemory(hub.budget)
        self._learning: asyncio.Task[None] | None = None
        self.trouble: str | None = "the cluster has not answered yet"

    async def start(self) -> None:
        """Listen on every port. Raises CannotListen."""
        self._memory.start()
        settings = self._hub.settings
        try:
            accept = self._connections.accept(settings.listener_tls)
            for port, node_id in self._hub.topology.ports().items():
                connected = partial(self._connected, node_id)
                self._servers.append(await open_port(settings.host, port, connected, IN_USE, accept))
        except BaseException:
            self._stop_listening()
            raise
        self._learning = asyncio.create_task(self._learn())
        self._connections.start()

    def _connected(self, node_id: int | None) -> asyncio.Protocol:
        return KafkaRelay(self._hub, node_id, self._connections.began, self._connections.ended).client

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
        await self._connections.stop()
        self._memory.stop()
        if self._learning is not None:
            self._learning.cancel()
        self._hub.close()
        await asyncio.sleep(0)

    def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
