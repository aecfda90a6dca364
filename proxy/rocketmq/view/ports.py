"""Which port stands for which broker.

    port                    the name server
    main(slot)              a broker's address: slot = place of its name * broker_ids_max + broker id
    main(slot) - 2          its VIP channel, which clients derive from the address (`MixAll.brokerVIPChannel`)

Slots go in pairs of four ports, so that no port is one broker's and another's VIP channel:

    port + 2, + 3           VIP channels of slots 0 and 1
    port + 4, + 5           slots 0 and 1
    port + 6, + 7           VIP channels of slots 2 and 3, and so on

A port never changes hands: a client that still has an older route would commit offsets, and lock queues, on another
broker.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from delayline.errors import DelaylineError

VIP = 2
_FIRST = 4


class NoPort(DelaylineError):
    """A broker, or one of its ids, has no port."""


class BrokerKey(NamedTuple):
    """An address of a broker: id 0 is its master's."""

    name: str
    id: int


class Ports(NamedTuple):
    """What is set of them."""

    first: int
    brokers_max: int
    ids_max: int

    @property
    def last(self) -> int:
        """The highest that is ever used."""
        return self._main(self.brokers_max * self.ids_max - 1)

    def main(self, place: int, broker_id: int) -> int:
        """Of a broker's name and id. Raises NoPort."""
        if not 0 <= broker_id < self.ids_max:
            raise NoPort(f"broker id {broker_id} has no port: proxy.rocketmq.broker_ids_max is {self.ids_max}")
        return self._main(place * self.ids_max + broker_id)

    def _main(self, slot: int) -> int:
        return self.first + _FIRST + 4 * (slot // 2) + slot % 2


class Places:
    """Of brokers' names, in order. `named` are those of the settings, `known` others that had one before."""

    def __init__(self, named: Iterable[str], known: Mapping[str, int], brokers_max: int) -> None:
        self._max = brokers_max
        self._named = {name: place for place, name in enumerate(named)}
        self._places = dict(self._named)
        for name, place in known.items():
            if name not in self._places and place not in self._places.values():
                self._places[name] = place

    @property
    def unnamed(self) -> dict[str, int]:
        """Those that have to be remembered."""
        return {name: place for name, place in self._places.items() if name not in self._named}

    def find(self, name: str) -> int | None:
        return self._places.get(name)

    def add(self, name: str) -> int:
        """The next one. Raises NoPort."""
        place = max(self._places.values(), default=-1) + 1
        if place >= self._max:
            raise NoPort(f"broker {name!r} has no ports: proxy.rocketmq.brokers_max is {self._max}")
        self._places[name] = place
        return place
