"""The cluster's brokers: where each is, and the ports that stand for them."""

import asyncio
import fcntl
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from delayline.process import logs
from delayline.process.listening import CannotListen
from proxy.rocketmq.settings import RocketmqProxySettings
from proxy.rocketmq.view.ports import BrokerKey, NoPort, Places, Ports
from rocketmq.client.client import Client
from rocketmq.errors import RocketmqError

log = logs.get(__name__)

Opened = Callable[[BrokerKey, int], Awaitable[None]]
"""Listen on the ports of a broker, of which this is the main one. Raises CannotListen."""
Moved = Callable[[BrokerKey], None]
"""A broker has another address."""


class Brokers:
    """Learns from every answer of a name server that passes, and from what the proxy asks itself."""

    def __init__(self, settings: RocketmqProxySettings) -> None:
        self._settings = settings
        self._ports = Ports(settings.port, settings.brokers_max, settings.broker_ids_max)
        self._kept = KeptPlaces(settings.kept)
        self._client = Client(settings.client)
        self._addresses: dict[BrokerKey, str] = {}  # bounded by the ports
        self._main: dict[BrokerKey, int] = {}  # ports that are listened on
        self._without: set[BrokerKey] = set()  # have none, and it was reported
        self._in_use: dict[BrokerKey, str] = {}  # have none, because others listen there
        self._admitting = asyncio.Lock()
        self._opened: Opened | None = None
        self._moved: Moved | None = None

    def serve(self, opened: Opened, moved: Moved) -> None:
        """Set by the server, before anything is learned."""
        self._opened, self._moved = opened, moved

    def close(self) -> None:
        self._client.close()

    @property
    def trouble(self) -> str | None:
        """Why a broker that should have a port has none. One beyond `brokers_max` or `broker_ids_max` should not."""
        return next((f"broker {key.name}, id {key.id}: {why}" for key, why in self._in_use.items()), None)

    async def learn(self) -> None:
        """What name servers know now. Raises RocketmqError."""
        found = await asyncio.to_thread(self._client.names.cluster)
        addresses = {BrokerKey(one.broker, number): at for one in found for number, at in one.addresses.items()}
        await self.admit(addresses)
        for gone in self._in_use.keys() - addresses:
            del self._in_use[gone]

    # --- addresses

    def address(self, key: BrokerKey) -> str | None:
        """The broker's own, as `host:port`."""
        return self._addresses.get(key)

    def advertise(self, key: BrokerKey, _: str = "") -> str | None:
        """Ours; None where there is none, and clients must not learn of the broker's."""
        port = self._main.get(key)
        return None if port is None else f"{self._settings.advertised_host}:{port}"

    def any_address(self) -> str:
        """Of any broker, ours; empty where there is none."""
        return next((at for key in sorted(self._main) if (at := self.advertise(key))), "")

    def are_known(self, addresses: Mapping[BrokerKey, str]) -> bool:
        """Whether `admit` would change nothing."""
        return all(self._addresses.get(key) == at or key in self._without for key, at in addresses.items())

    async def admit(self, addresses: Mapping[BrokerKey, str]) -> None:
        """Have a port for each, where that can be."""
        async with self._admitting:
            for key, address in sorted(addresses.items()):
                if self._addresses.get(key) != address and await self._has_port(key):
                    self._move(key, address)

    def _move(self, key: BrokerKey, address: str) -> None:
        """A client's connection goes to the process that was there when it began: after an election to the former
        master."""
        former = self._addresses.get(key)
        self._addresses[key] = address
        if former is not None and self._moved is not None:
            log.info("a broker has moved", broker=key.name, id=key.id, address=address)
            self._moved(key)

    async def _has_port(self, key: BrokerKey) -> bool:
        if key in self._main:
            return True
        assert self._opened is not None, "there is a server"
        try:
            place = await asyncio.to_thread(self._kept.place_of, self._settings, key.name)
            port = self._ports.main(place, key.id)
            await self._opened(key, port)
        except (NoPort, CannotListen) as error:
            if key not in self._without:
                log.error(
                    "a broker cannot be reached through the proxy", broker=key.name, id=key.id, detail=str(error)
                )
            self._without.add(key)
            if isinstance(error, CannotListen):
                self._in_use[key] = str(error)
            return False
        self._main[key] = port
        self._without.discard(key)
        self._in_use.pop(key, None)
        return True


class KeptPlaces:
    """Places of brokers that the settings do not name, in a file: the same after a restart, and for other proxies
    with this file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def place_of(self, settings: RocketmqProxySettings, name: str) -> int:
        """Blocks. Raises NoPort."""
        if (place := self._places(settings, {}).find(name)) is not None:
            return place
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                places = self._places(settings, self._read())
                if (place := places.find(name)) is None:
                    place = places.add(name)
                    self._write(places.unnamed)
                return place
        except (OSError, ValueError) as error:
            raise NoPort(
                f"{name!r} is not in proxy.rocketmq.brokers, and its place cannot be kept in {self._file}: {error}"
            ) from error

    def _places(self, settings: RocketmqProxySettings, known: Mapping[str, int]) -> Places:
        return Places(settings.brokers, known, settings.brokers_max)

    def _read(self) -> dict[str, int]:
        """Raises OSError, ValueError."""
        if not self._file.exists():
            return {}
        found = json.loads(self._file.read_text())
        if not isinstance(found, dict) or not all(type(place) is int and place >= 0 for place in found.values()):
            raise ValueError("not a table of brokers' places")
        return found

    def _write(self, places: Mapping[str, int]) -> None:
        """Wholly or not at all."""
        new = self._file.with_suffix(".new")
        with new.open("w") as written:
            json.dump(places, written)
            written.flush()
            os.fsync(written.fileno())
        new.replace(self._file)


LEARN_S = 30.0
LEARN_AGAIN_S = 1.0
"""Between two looks at the cluster's brokers; and after a failure, or while a port is in use. Clients look for routes
as often."""


async def keep_learning(brokers: Brokers, trouble: Callable[[str | None], None]) -> None:
    """For ever; `trouble` is called with the reason why name servers do not answer, or None."""
    while True:
        try:
            await brokers.learn()
            trouble(None)
            await asyncio.sleep(LEARN_S if brokers.trouble is None else LEARN_AGAIN_S)
        except RocketmqError as error:
            log.warning("the name servers could not be asked for brokers", detail=str(error))
            trouble(str(error))
            await asyncio.sleep(LEARN_AGAIN_S)
