"""Who is connected: a bound on all, a bound on each address, and who goes when there is no place left.

A connection without a request under way may be closed at any time (RFC 9112, 9.5), so idle ones never keep others
out: the one that has waited longest goes, of the address that is at its bound, or else of the one with the most.
Pure; for the event loop's thread.
"""

import ipaddress
from enum import Enum
from functools import lru_cache
from math import ceil
from typing import Protocol

IPV6_PREFIX = 64
"""One customer's network: the other half of an address is free for him to choose."""


class NoPlace(Enum):
    """Why there is no place."""

    ALL = "too-many"
    ADDRESS = "too-many-of-address"


class Occupant(Protocol):
    """A connection. `address` is a key of `address_key`."""

    address: str

    def evict(self) -> None:
        """Close: another one needs the place."""


class Places:
    """At most `places_max` occupants, `per_address_max` of them with one address."""

    def __init__(self, places_max: int, per_address_max: int) -> None:
        self.places_max = places_max
        self.per_address_max = per_address_max
        self._occupants: dict[str, set[Occupant]] = {}
        self._waiting: dict[str, dict[Occupant, None]] = {}  # of each address, the longest first
        self.taken = 0

    def enter(self, occupant: Occupant) -> NoPlace | None:
        """Take a place, as one who waits. Why not, where there is none."""
        if len(self._occupants.get(occupant.address, ())) >= self.per_address_max:
            if not self._evict(occupant.address):
                return NoPlace.ADDRESS
        elif self.taken >= self.places_max and not self._evict(self._most_waiting()):
            return NoPlace.ALL
        self._occupants.setdefault(occupant.address, set()).add(occupant)
        self.taken += 1
        self.waits(occupant)
        return None

    def waits(self, occupant: Occupant) -> None:
        """No request of it is under way."""
        if occupant in self._occupants.get(occupant.address, ()):
            self._waiting.setdefault(occupant.address, {})[occupant] = None

    def works(self, occupant: Occupant) -> None:
        """A request of it is under way."""
        waiting = self._waiting.get(occupant.address)
        if waiting is not None:
            waiting.pop(occupant, None)
            if not waiting:
                del self._waiting[occupant.address]

    def leave(self, occupant: Occupant) -> None:
        """Give the place back; once more is the same."""
        self.works(occupant)
        occupants = self._occupants.get(occupant.address, set())
        if occupant in occupants:
            occupants.remove(occupant)
            self.taken -= 1
            if not occupants:
                del self._occupants[occupant.address]

    def _most_waiting(self) -> str:
        return max(self._waiting, key=lambda address: len(self._waiting[address]), default="")

    def _evict(self, address: str) -> bool:
        victim = next(iter(self._waiting.get(address, ())), None)
        if victim is None:
            return False
        self.leave(victim)
        victim.evict()
        return True


def share_of(total: int, percent: int) -> int:
    """What one address may have of `total`; one at least."""
    return max(1, ceil(total * percent / 100))


@lru_cache(4096)
def address_key(host: str | None) -> str:
    """What counts as one address: an IPv4 address (also where IPv6 carries it), or the /64 of an IPv6 address."""
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return host or ""
    if address.version == 6 and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.version == 6:
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address)
