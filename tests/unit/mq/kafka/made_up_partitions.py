"""A cluster as far as it knows who has written what and how transactions have ended, behind the interfaces of `Nodes`
and `Connection`: node 1 coordinates everything; a test sets who leads what."""

from dataclasses import dataclass, field
from typing import Any

from kafkawire.client.metadata import NO_LEADER
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, Unreachable
from kafkawire.protocol.messages.facts import ListOffsetsRequest, ListOffsetsResponse, PartitionOffset, TopicOffsets
from kafkawire.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MarkedPartition,
    MarkedTopicResult,
    Marker,
    MarkerResult,
    PartitionProducers,
    ProducerState,
    TopicProducers,
    TransactionTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Place = tuple[str, int]
END = 100


@dataclass
class Partition:
    """`open` is producer, epoch and first offset of what has no marker yet."""

    leader: int = 1
    open: list[tuple[int, int, int]] = field(default_factory=list)
    refuses: int = 0  # the error that a marker meets
    error_of: dict[ApiKey, int] = field(default_factory=dict)  # the error that a question meets


@dataclass
class Transaction:
    producer_id: int
    epoch: int
    state: str
    places: list[Place] = field(default_factory=list)


class Cluster:
    """What was written is in `marked`: place, producer, epoch, committed. `forbids` has APIs that are not allowed;
    `busy`, how often a coordinator answers that it is loading."""

    def __init__(self) -> None:
        self.partitions: dict[Place, Partition] = {}
        self.transactions: dict[str, Transaction] = {}
        self.marked: list[tuple[Place, int, int, bool]] = []
        self.fenced: list[str] = []
        self.forbids: set[ApiKey] = set()
        self.busy = 0
        self.asked: list[ApiKey] = []
        self.dead: set[int] = set()  # nodes that cannot be reached
        self.coordinators = [1]  # the first one is believed until it is forgotten

    # --- Nodes

    def all_leaders(self) -> dict[Place, int]:
        return {place: one.leader for place, one in self.partitions.items()}

    def ids(self) -> list[int]:
        return [1, 2]

    def coordinator(self, _kind: int, _key: str) -> int:
        return self.coordinators[0]

    def forget_coordinator(self, _kind: int, _key: str) -> None:
        if len(self.coordinators) > 1:
            del self.coordinators[0]

    def connect(self, node: int) -> "Line":
        if node in self.dead:
            raise Unreachable("connection refused")
        return Line(self, node)

    def close(self) -> None:
        pass

    # --- answers

    def answer(self, node: int, request: Any) -> Any:
        self.asked.append(request.api)
        match request:
            case DescribeTransactionsRequest():
                return DescribeTransactionsResponse(0, [self._described(one) for one in request.transactional_ids])
            case ListTransactionsRequest():
                wanted = set(request.producer_id_filters)
                known = self.transactions.items() if node == 1 else ()
                rows = [(name, one) for name, one in known if one.producer_id in wanted]
                return ListTransactionsResponse(
                    0, 0, [], [ListedTransaction(name, one.producer_id, one.state) for name, one in rows]
                )
            case InitProducerIdRequest():
                return self._initialised(request.transactional_id or "")
            case ListOffsetsRequest():
                return ListOffsetsResponse(0, [self._ends(node, topic, request) for topic in request.topics])
            case DescribeProducersRequest():
                return DescribeProducersResponse(0, [self._producers(topic) for topic in request.topics])
            case WriteTxnMarkersRequest():
                return WriteTxnMarkersResponse([self._mark(node, marker) for marker in request.markers])
        raise NotImplementedError(request)

    def _described(self, name: str) -> DescribedTransaction:
        if self.busy:
            self.busy -= 1
            return DescribedTransaction(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, name)
        if ApiKey.DESCRIBE_TRANSACTIONS in self.forbids:
            return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, name)
        found = self.transactions.get(name)
        if found is None:
            return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, name)
        topics = [TransactionTopic(topic, [row]) for topic, row in found.places]
        return DescribedTransaction(0, name, found.state, 0, 0, found.producer_id, found.epoch, topics)

    def _initialised(self, name: str) -> InitProducerIdResponse:
        """What is open is aborted where there is a leader, and whoever asked has to come again."""
        found = self.transactions[name]
        if ApiKey.INIT_PRODUCER_ID in self.forbids:
            return InitProducerIdResponse(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.fenced.append(name)
        if found.state.startswith("Prepare"):
            return InitProducerIdResponse(0, ErrorCode.CONCURRENT_TRANSACTIONS)
        if found.state == "Ongoing":
            for place in found.places:
                one = self.partitions[place]
                if one.leader != NO_LEADER:
                    one.open = [open_ for open_ in one.open if open_[0] != found.producer_id]
            found.state, found.epoch = "CompleteAbort", found.epoch + 1
            return InitProducerIdResponse(0, ErrorCode.CONCURRENT_TRANSACTIONS)
        found.state, found.epoch = "Empty", found.epoch + 1
        return InitProducerIdResponse(0, 0, found.producer_id, found.epoch)

    def _ends(self, node: int, topic: Any, request: ListOffsetsRequest) -> TopicOffsets:
        rows = []
        for row in topic.partitions:
            one = self.partitions[topic.name, row.partition_index]
            assert one.leader == node
            firsts = [first for *_, first in one.open] if request.isolation_level else []
            code = one.error_of.get(ApiKey.LIST_OFFSETS, 0)
            rows.append(PartitionOffset(row.partition_index, code, -1, -1 if code else min([END, *firsts])))
        return TopicOffsets(topic.name, rows)

    def _producers(self, topic: Any) -> TopicProducers:
        return TopicProducers(
            topic.name,
            [
                PartitionProducers(
                    row,
                    self.partitions[topic.name, row].error_of.get(ApiKey.DESCRIBE_PRODUCERS, 0),
                    None,
                    [
                        *(ProducerState(pid, epoch, 0, 0, -1, first) for pid, epoch, first in self._open(topic, row)),
                        ProducerState(999, 3, 0, 0, -1, -1),
                    ],
                )
                for row in topic.partition_indexes
            ],
        )

    def _open(self, topic: Any, row: int) -> list[tuple[int, int, int]]:
        one = self.partitions[topic.name, row]
        return [] if ApiKey.DESCRIBE_PRODUCERS in one.error_of else one.open

    def _mark(self, node: int, marker: Marker) -> MarkerResult:
        topics = []
        for topic in marker.topics:
            results = []
            for row in topic.partition_indexes:
                place, one = (topic.name, row), self.partitions[topic.name, row]
                code = one.refuses or (0 if one.leader == node else ErrorCode.NOT_LEADER_OR_FOLLOWER)
                if ApiKey.WRITE_TXN_MARKERS in self.forbids:
                    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if not code:
                    self.marked.append((place, marker.producer_id, marker.producer_epoch, marker.transaction_result))
                    one.open = [open_ for open_ in one.open if open_[0] != marker.producer_id]
                results.append(MarkedPartition(row, code))
            topics.append(MarkedTopicResult(topic.name, results))
        return MarkerResult(marker.producer_id, topics)


class Line:
    """A connection to one node."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._cluster = cluster
        self._node = node

    def version(self, _api: ApiKey, newest: int, _oldest: int) -> int:
        return newest

    def ask(self, request: Any, _version: int, _answer: Any) -> Any:
        return self._cluster.answer(self._node, request)

    def close(self) -> None:
        pass
