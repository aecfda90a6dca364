"""Two brokers whose answers a test scripts, behind the interface of `Nodes` and `Connection`, without sockets:
node 1 coordinates, and leads even partitions; node 2 leads the odd ones."""

from collections import deque
from collections.abc import Callable
from typing import Any

from kafkawire.batch.head import Head, read_batch
from kafkawire.protocol.apis import APIS, ApiKey
from kafkawire.protocol.errors import AnswerLost, TopicMissing, Unreachable, UnsupportedVersion
from kafkawire.protocol.message import Message, decode, encode
from kafkawire.protocol.messages.offsets import (
    CommittedPartition,
    CommittedTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkawire.protocol.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest, ProduceResponse
from kafkawire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnPartitionResult,
    TxnTopicResult,
)

PRODUCER_ID = 70
APPENDED_MS = 1_800_000_000_000

LOST, UNSENT = "lost", "unsent"
"""Instead of an error code: the answer does not come; the connection was closed before."""


class Brokers:
    """What they were asked is in `asked`, (node, API, version). `script` gives the next answers to an API an error;
    afterwards they do what they are asked. Partitions are implicit by default (`level`)."""

    def __init__(self, level: int = 2) -> None:
        self.asked: list[tuple[int, ApiKey, int]] = []
        self.requests: list[Any] = []
        self.heads: list[tuple[str, int, Head]] = []
        self.features = {"transaction.version": level}
        self.append_time_ms = APPENDED_MS
        self.coordinator_node = 1
        self.missing: set[str] = set()
        self.forgotten: list[object] = []
        self.connected = 0
        self.session_s = float("inf")  # how long the first connection may be used
        self.forgets_offsets = False
        self.unreachable = 0  # so many connections are refused
        self.lacks: set[tuple[int, ApiKey]] = set()  # nodes that are too old for an API
        self.of_rows: dict[int, int] = {}  # what AddPartitionsToTxn answers of a partition, where it refuses
        self.epoch = -1
        self._script: dict[ApiKey, deque[tuple[int | str, Callable[[str, int], bool]]]] = {}
        self._ends: dict[str, int] = {}

    def script(self, api: ApiKey, *codes: int | str, of: Callable[[str, int], bool] = lambda *_: True) -> None:
        """`of` selects the partitions that a code is about."""
        self._script.setdefault(api, deque()).extend((code, of) for code in codes)

    def apis(self) -> list[ApiKey]:
        return [api for _, api, _ in self.asked]

    # --- Nodes

    def leader(self, topic: str, partition: int) -> int:
        if topic in self.missing:
            raise TopicMissing(topic)
        return 1 + partition % 2

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)

    def coordinator(self, kind: int, key: str) -> int:
        return self.coordinator_node

    def forget_coordinator(self, kind: int, key: str) -> None:
        self.forgotten.append((kind, key))

    def connect(self, node: int) -> "Line":
        if self.unreachable:
            self.unreachable -= 1
            raise Unreachable("connection refused")
        self.connected += 1
        return Line(self, node)

    # --- answers

    def next_for(self, api: ApiKey) -> tuple[int | str, Callable[[str, int], bool]]:
        waiting = self._script.get(api)
        return waiting.popleft() if waiting else (0, lambda *_: True)

    def answer(self, request: Any, version: int, code: int, of: Callable[[str, int], bool]) -> Message:
        match request:
            case InitProducerIdRequest():
                self.epoch += 0 if code else 1
                return InitProducerIdResponse(0, code, PRODUCER_ID, self.epoch)
            case AddPartitionsToTxnRequest():
                return AddPartitionsToTxnResponse(0, [self._added(topic, code, of) for topic in request.topics])
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse(0, code)
            case TxnOffsetCommitRequest():
                topics = [(one.name, [part.partition_index for part in one.partitions]) for one in request.topics]
                done = [
                    CommittedTopic(name, [CommittedPartition(row, code) for row in rows]) for name, rows in topics
                ]
                return TxnOffsetCommitResponse(0, [] if self.forgets_offsets else done)
            case EndTxnRequest():
                if code or version < 5:
                    return EndTxnResponse(0, code)
                self.epoch += 1
                return EndTxnResponse(0, 0, PRODUCER_ID, self.epoch)
            case ProduceRequest():
                topics = [(one.name, one.partition_data) for one in request.topic_data]
                found = [
                    ProducedTopic(name, [self._produced(name, one, code, of) for one in data])
                    for name, data in topics
                ]
                return ProduceResponse(found)
        raise AssertionError(request)

    def _added(self, topic: Any, code: int, of: Callable[[str, int], bool]) -> TxnTopicResult:
        codes = {row: self.of_rows.get(row, code) if code and of(topic.name, row) else 0 for row in topic.partitions}
        found = [TxnPartitionResult(row, one) for row, one in codes.items()]
        return TxnTopicResult(topic.name, found)

    def _produced(self, name: str, data: Any, code: int, of: Callable[[str, int], bool]) -> ProducedPartition:
        head = read_batch(data.records).head
        self.heads.append((name, data.index, head))
        if code and of(name, data.index):
            return ProducedPartition(data.index, code, -1)
        at = f"{name}-{data.index}"
        base = self._ends.get(at, 100)
        self._ends[at] = base + head.record_count
        return ProducedPartition(data.index, 0, base, self.append_time_ms)


class Line:
    """A connection. Everything is encoded and decoded on its way."""

    def __init__(self, brokers: Brokers, node: int) -> None:
        self.features = brokers.features
        self.versions = {key: (api.oldest, api.newest) for key, api in APIS.items()}
        self.use_until_s = brokers.session_s if brokers.connected == 1 else float("inf")
        self.is_open = True
        self._brokers = brokers
        self._node = node
        self._answers: deque[bytes | None] = deque()
        self._version = 0

    @property
    def in_flight(self) -> int:
        return len(self._answers)

    def version(self, api: ApiKey, newest: int, oldest: int) -> int:
        if (self._node, api) in self._brokers.lacks:
            raise UnsupportedVersion(f"node {self._node}: {api.name} 0-2, {oldest}-{newest} is needed")
        return newest

    def send(self, request: Message, version: int) -> None:
        if not self.is_open:
            raise Unreachable("closed")
        code, of = self._brokers.next_for(request.api)
        if code == UNSENT:
            self.close()
            raise Unreachable("idle for too long")
        heard = decode(type(request), version, b"".join(encode(request, version)))
        self._brokers.asked.append((self._node, request.api, version))
        self._brokers.requests.append(heard)
        self._version = version
        if code == LOST:
            self._answers.append(None)
        else:
            assert isinstance(code, int)
            answer = self._brokers.answer(heard, version, code, of)
            self._answers.append(b"".join(encode(answer, version)))

    def is_alive(self) -> bool:
        return self.is_open

    def receive(self, answer: type[Any], timeout_s: float) -> Any:
        body = self._answers.popleft()
        if body is None:
            self.close()
            raise AnswerLost("no answer")
        return decode(answer, self._version, body)

    def close(self) -> None:
        self.is_open = False
