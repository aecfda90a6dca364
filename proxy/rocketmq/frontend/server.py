"""The ports, and the connections behind them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from delayline.process import logs
from delayline.process.listening import CannotListen
from proxy.connections import Connections
from proxy.listener import OpenPort, open_port
from proxy.memory import FreedMemory
from proxy.relay import Address
from proxy.rocketmq.brokers import keep_learning
from proxy.rocketmq.frontend.broker_traffic import BrokerTraffic
from proxy.rocketmq.frontend.name_server_traffic import NameServerTraffic
from proxy.rocketmq.frontend.relay import FrameRelay, Traffic
from proxy.rocketmq.hub import RocketmqHub
from proxy.rocketmq.view.ports import VIP, BrokerKey
from rocketmq.client.connection import parse_address

log = logs.get(__name__)

IN_USE = "choose others with proxy.rocketmq.port"
NAME_SERVER = "name server"


class RocketmqServer:
    """`start`, then `stop`, on one event loop."""

    def __init__(self, hub: RocketmqHub) -> None:
        self._hub = hub
        self._servers: list[OpenPort] = []
        limits, limited = hub.settings.limits, hub.metrics.limited
        self._connections: Connections[FrameRelay] = Connections(limits, limited, hub.clock, "proxy.rocketmq")
        self._memory = FreedMemory(hub.budget)
        self._learning: asyncio.Task[None] | None = None
        self._turn = 0
        self.trouble: str | None = "the name servers have not answered yet"

    async def start(self) -> None:
        """Listen as a name server; brokers' ports follow as they become known. Raises CannotListen."""
        self._memory.start()
        hub = self._hub

        def traffic(relay: FrameRelay) -> Traffic:
            return NameServerTraffic(hub, relay)

        if hub.accounts.trouble is not None:
            log.warning(hub.accounts.trouble)
        hub.brokers.serve(self._open, self._moved)
        self._servers.append(await self._listen(hub.settings.port, NAME_SERVER, self._name_servers, traffic))
        self._connections.start()
        self._learning = asyncio.create_task(keep_learning(hub.brokers, self._learned))

    def _learned(self, trouble: str | None) -> None:
        """Once it has learned the brokers, connections show by themselves whether they are there. Whether their ports
        are listened on they do not: routes leave out a broker without one."""
        self.trouble = (self.trouble and trouble) or self._hub.brokers.trouble

    async def _open(self, key: BrokerKey, port: int) -> None:
        """The broker's port, and its VIP channel. Raises CannotListen."""

        def traffic(relay: FrameRelay) -> Traffic:
            return BrokerTraffic(self._hub, relay, key.name)

        opened: list[OpenPort] = []
        try:
            for below in (0, VIP):
                find = partial(self._broker, key, below)
                opened.append(await self._listen(port - below, _target(key), find, traffic))
        except CannotListen:
            for server in opened:
                server.close()
            raise
        self._servers += opened

    async def _listen(
        self,
        port: int,
        target: str,
        find: Callable[[], Sequence[Address]],
        traffic: Callable[[FrameRelay], Traffic],
    ) -> OpenPort:
        def connected() -> asyncio.Protocol:
            began, ended = self._connections.began, self._connections.ended
            return FrameRelay(self._hub, target, find, traffic, began, ended).client

        settings = self._hub.settings
        accept = self._connections.accept(settings.listener_tls)
        return await open_port(settings.host, port, connected, IN_USE, accept)

    def _name_servers(self) -> Sequence[Address]:
        """Each connection begins with another one: one that is frozen takes connections, and does not answer."""
        servers = self._hub.settings.client.name_servers
        self._turn = (self._turn + 1) % len(servers)
        return [parse_address(one) for one in servers[self._turn :] + servers[: self._turn]]

    def _broker(self, key: BrokerKey, below: int) -> Sequence[Address]:
        address = self._hub.brokers.address(key)
        if address is None:
            return []
        host, port = parse_address(address)
        return [(host, port - below)]

    def _moved(self, key: BrokerKey) -> None:
        for relay in self._connections.all():
            if relay.target == _target(key):
                relay.close("the broker has moved")

    async def stop(self) -> None:
        """Take no more connections, let each answer what it has been asked, then close it."""
        for server in self._servers:
            server.close()
        await self._connections.stop()
        self._memory.stop()
        if self._learning is not None:
            self._learning.cancel()
        self._hub.close()
        await asyncio.sleep(0)


def _target(key: BrokerKey) -> str:
    return f"{key.name}:{key.id}"
