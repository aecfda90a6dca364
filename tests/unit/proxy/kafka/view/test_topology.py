"""One stable port for each node."""

import pytest

from delayline.names import Names
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.client.address import Address
from proxy.kafka.access import Access
from proxy.kafka.settings import ProxySettings
from proxy.kafka.view.topology import NodeWithoutPort, Topology

SETTINGS = ProxySettings(
    host="127.0.0.1",
    port=9092,
    advertised_host="proxy.example",
    bootstrap=(Address("k1", 9092),),
    access=Access(),
    names=Names("delayline"),
    is_delay_enabled=lambda topic: True,
    rules_for=lambda _: DEFAULT_RULES,
    horizon_max_ms=1000,
    node_id_base=100,
    nodes_max=2,
)


def test_a_nodes_port_follows_from_its_id_alone() -> None:
    topology = Topology(SETTINGS)
    assert topology.advertise(101, Address("k2", 1)) == Address("proxy.example", 9094)
    assert topology.advertise(100, Address("k1", 2)) == Address("proxy.example", 9093)
    assert topology.ports() == {9092: None, 9093: 100, 9094: 101}


def test_the_real_address_of_the_last_answer_is_where_a_node_is() -> None:
    topology = Topology(SETTINGS)
    assert topology.address(100) is None
    topology.advertise(100, Address("k1", 1))
    topology.advertise(100, Address("k1", 2))
    assert topology.address(100) == Address("k1", 2)


@pytest.mark.parametrize("node_id", [-1, 99, 102])
def test_a_node_without_a_port_has_no_address_for_clients(node_id: int) -> None:
    topology = Topology(SETTINGS)
    with pytest.raises(NodeWithoutPort):
        topology.advertise(node_id, Address("k9", 1))
    assert topology.nodes == {}
