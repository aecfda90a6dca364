"""Which node is where: real addresses, and the port of ours that stands for each node."""

from kafkawire.client.address import Address
from kafkawire.protocol.errors import PeerError
from proxy.kafka.settings import ProxySettings


class NodeWithoutPort(PeerError):
    """A node's id is outside of those for which there are ports; its real address must not be revealed either."""


class Topology:
    """Learns from every answer that passes, and from what the proxy asks itself."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._nodes: dict[int, Address] = {}  # bounded by the ports

    @property
    def nodes(self) -> dict[int, Address]:
        return dict(self._nodes)

    def address(self, node_id: int) -> Address | None:
        """The real one, where it is known."""
        return self._nodes.get(node_id)

    def advertise(self, node_id: int, real: Address) -> Address:
        """The address for clients. Raises NodeWithoutPort."""
        settings = self._settings
        place = node_id - settings.node_id_base
        if not 0 <= place < settings.nodes_max:
            raise NodeWithoutPort(
                f"node {node_id} has no port: proxy.kafka.node_id_base is {settings.node_id_base} "
                f"and proxy.kafka.nodes_max is {settings.nodes_max}"
            )
        self._nodes[node_id] = real
        return Address(settings.advertised_host, settings.port + 1 + place)

    def ports(self) -> dict[int, int | None]:
        """Every port to listen on, with the node that it stands for; None is the one for bootstrapping."""
        settings = self._settings
        nodes = range(settings.nodes_max)
        return {settings.port: None, **{settings.port + 1 + n: settings.node_id_base + n for n in nodes}}
