"""Who has a place, and who goes; how many descriptors are for connections."""

import pytest

from delayline.http.descriptors import connections_of
from delayline.http.places import NoPlace, Places, address_key, share_of


class Client:
    def __init__(self, address: str) -> None:
        self.address = address
        self.evicted = False

    def evict(self) -> None:
        self.evicted = True


def test_the_idle_one_that_has_waited_longest_of_the_address_with_most_goes() -> None:
    places = Places(4, 4)
    clients = [Client(address) for address in "baaa"]
    for client in clients:
        assert places.enter(client) is None
    places.works(clients[1])
    assert places.enter(Client("c")) is None
    assert [client.evicted for client in clients] == [False, False, True, False]
    assert places.taken == 4


def test_who_works_is_never_evicted() -> None:
    places = Places(2, 2)
    clients = [Client("a"), Client("b")]
    for client in clients:
        places.enter(client)
        places.works(client)
    assert places.enter(Client("c")) is NoPlace.ALL
    places.waits(clients[0])
    assert places.enter(Client("c")) is None


def test_an_address_has_its_share_and_gives_up_its_own_idle_ones_first() -> None:
    places = Places(10, 2)
    first, second, third = Client("a"), Client("a"), Client("a")
    other = Client("b")
    for client in (other, first, second, third):
        assert places.enter(client) is None
    assert (other.evicted, first.evicted) == (False, True)
    places.works(second)
    places.works(third)
    assert places.enter(Client("a")) is NoPlace.ADDRESS
    places.leave(second)
    places.leave(second)
    assert (places.enter(Client("a")), places.taken) == (None, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8::1", "2001:db8::ffff:1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("fe80::1%eth0", "fe80::2")],
)
def test_addresses_that_one_client_chooses_from_are_one(one: str, other: str) -> None:
    assert address_key(one) == address_key(other)
    assert address_key("10.0.0.1") != address_key("10.0.0.2")


@pytest.mark.parametrize(("total", "percent", "share"), [(1024, 50, 512), (1, 1, 1), (3, 50, 2), (32, 100, 32)])
def test_a_share_is_one_at_least(total: int, percent: int, share: int) -> None:
    assert share_of(total, percent) == share


@pytest.mark.parametrize(("descriptors", "connections"), [(160, 40), (1024, 256), (1 << 20, 1024), (1, 1)])
def test_half_of_a_small_limit_is_kept_back(descriptors: int, connections: int) -> None:
    assert connections_of(descriptors, 1024, 0.5) == connections
