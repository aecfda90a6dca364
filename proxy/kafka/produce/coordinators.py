"""Transactions up to Produce 11: a partition is added to one by its coordinator, before anything is written."""

from kafkawire.protocol.errors import ErrorCode, Unreachable
from kafkawire.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, TxnTopic
from proxy.kafka.upstream.backend import Backend

FIND_VERSION = 4
ADD_VERSION = 3
TRANSACTION = 1
"""Key type of FindCoordinator."""

CACHE_MAX = 10_000
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Coordinators:
    """Raises what `Backend.ask` raises."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._nodes: dict[str, int] = {}

    async def add_partition(
        self, transactional_id: str, producer_id: int, epoch: int, topic: str, partition: int
    ) -> int:
        """Ask for it every time: another connection may have ended the transaction meanwhile. The error code; it may
        be asked again for an answer that was lost."""
        node_id = await self._find(transactional_id)
        request = AddPartitionsToTxnRequest(transactional_id, producer_id, epoch, [TxnTopic(topic, [partition])])
        try:
            answer = await self._backend.ask(node_id, request, ADD_VERSION, AddPartitionsToTxnResponse)
        except BaseException:
            self._nodes.pop(transactional_id, None)
            raise
        code = answer.results_by_topic[0].results_by_partition[0].partition_error_code
        if code in _MOVED:
            self._nodes.pop(transactional_id, None)
        return code

    async def _find(self, transactional_id: str) -> int:
        if transactional_id in self._nodes:
            return self._nodes[transactional_id]
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
        answer = await self._backend.ask(None, request, FIND_VERSION, FindCoordinatorResponse)
        (found,) = answer.coordinators
        if found.error_code:
            raise Unreachable(f"the coordinator of a transaction: error {found.error_code}")
        if len(self._nodes) >= CACHE_MAX:
            self._nodes.clear()
        self._nodes[transactional_id] = found.node_id
        return found.node_id
