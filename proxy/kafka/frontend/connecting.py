"""A client's connection gets its own to the broker that it means."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkawire.protocol.errors import PeerError
from proxy.endpoint import Endpoint

if TYPE_CHECKING:
    from proxy.kafka.hub import Hub


async def connect(hub: "Hub", node_id: int | None, broker: Endpoint) -> Exception | None:
    """Connect `broker` to the node, or to any server for None. The last failure, where none could be reached."""
    trouble: PeerError | OSError | TimeoutError = PeerError("no server")
    for address in await _addresses(hub, node_id):
        try:
            await hub.dial(address, broker)
        except (OSError, TimeoutError) as error:
            trouble = error
        else:
            return None
    return trouble


async def _addresses(hub: "Hub", node_id: int | None) -> Sequence[tuple[str, int]]:
    """A client may reach a node's port before the proxy knows anything of the node."""
    if node_id is None:
        return hub.backend.servers()
    address = hub.topology.address(node_id)
    if address is None:
        await hub.backend.learn_nodes()
        address = hub.topology.address(node_id)
    return [] if address is None else [address]
