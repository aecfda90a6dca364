"""Which port stands for which broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rocketmq.view.ports import VIP, NoPort, Places, Ports


@given(st.integers(1, 20), st.integers(1, 9))
def test_no_port_is_used_twice_not_even_as_the_vip_channel_of_another(brokers: int, ids: int) -> None:
    ports = Ports(20_000, brokers, ids)
    mains = [ports.main(place, number) for place in range(brokers) for number in range(ids)]
    used = [20_000, *mains, *(main - VIP for main in mains)]
    assert len(set(used)) == len(used)
    assert max(used) == max(mains) <= ports.last
    assert min(used) == 20_000


def test_a_broker_id_beyond_those_that_have_ports_has_none() -> None:
    with pytest.raises(NoPort, match="broker_ids_max is 4"):
        Ports(20_000, 2, 4).main(0, 4)


def test_brokers_that_are_named_have_their_places_and_others_the_next_ones() -> None:
    places = Places(["b", "a"], {"c": 2}, 5)
    assert [places.find(name) for name in "abcd"] == [1, 0, 2, None]
    assert places.add("d") == 3
    assert places.unnamed == {"c": 2, "d": 3}


def test_a_place_that_another_broker_is_named_for_is_given_up() -> None:
    places = Places(["a", "b"], {"c": 1}, 5)
    assert places.find("c") is None
    assert places.add("c") == 2


def test_brokers_beyond_those_that_may_be_have_no_ports() -> None:
    places = Places(["a"], {}, 1)
    with pytest.raises(NoPort, match="brokers_max is 1"):
        places.add("b")
