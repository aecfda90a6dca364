"""A broker that follows a script: frames go through to the real one, except those that the script has something else
in mind for.

One listener per node, and answers rewritten so that a client stays behind them (`proxy.kafka.view.rewrite`). Every
request goes to the script as an `Asked`, which decides what happens to it:

    FORWARD         nothing special
    CUT_BEFORE      the broker never hears of it, the connection ends
    CUT_AFTER       the broker has carried it out, the answer is lost and the connection ends
    Late(event)     the connection ends now, the broker hears of it when the event is set: a request that was still on
                    its way when its sender had given it up
    Held(event)     the broker has carried it out, the answer waits for the event
    Waits(event)    the broker hears of it when the event is set
    Instead(code)   the broker never hears of it, the answer is this error
    Altered(how)    the bytes of the answer, behind its correlation id, are what `how` makes of them

A broker answers the requests of a connection one after the other, and so does this one: a request is read when the
one before it is answered. Threads, because what is tried blocks, and runs in the same process.
"""

import select
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from kafkawire.client.address import Address
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import WireError
from kafkawire.protocol.message import Message, decode, encode, read_request, read_response, response_frame
from kafkawire.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.protocol.messages.fetch import FetchedPartition, FetchedTopic, FetchRequest, FetchResponse
from kafkawire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataTopic
from kafkawire.protocol.messages.offsets import (
    CommittedPartition,
    CommittedTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkawire.protocol.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest, ProduceResponse
from kafkawire.protocol.messages.transactions import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    TxnPartitionResult,
    TxnTopicResult,
)
from proxy.kafka.view.rewrite import Hidden, View, response_is_read, rewrite_response

_LENGTH = struct.Struct(">i")
WAIT_S = 60.0
"""How long a script may keep something back."""

LATE_S = 10.0
"""How long the broker's answer to a request that came late is waited for: it may be held open for as long."""

_NOTHING_HIDDEN = Hidden(lambda _: False, b"\xff\xff\xff\xff")


class Asked(NamedTuple):
    """A request. `nth` counts from 1, of its API and of all connections of its client; `node` is -1 behind the
    address that a client begins with."""

    api: int
    version: int
    nth: int
    client_id: str | None
    node: int
    body: bytes

    @property
    def name(self) -> str:
        return ApiKey(self.api).name if self.api in set(ApiKey) else str(self.api)

    def decoded(self, cls: type[Message]) -> Any:
        return decode(cls, self.version, self.body)


class Forward:
    pass


class CutBefore:
    pass


class CutAfter:
    pass


class Late(NamedTuple):
    event: Event


class Held(NamedTuple):
    event: Event


class Waits(NamedTuple):
    event: Event


class Instead(NamedTuple):
    code: int


class Altered(NamedTuple):
    how: Callable[[bytes], bytes]


FORWARD, CUT_BEFORE, CUT_AFTER = Forward(), CutBefore(), CutAfter()
Act = Forward | CutBefore | CutAfter | Late | Held | Waits | Instead | Altered
Script = Callable[[Asked], Act]


class _Cut(Exception):
    """The connection ends here."""


@dataclass
class Scripted:
    """In front of `upstream`, with a listener for each of its servers, of which any may be gone. `script` may be
    exchanged at any time; it is called by one thread at a time, and `always` decides where that forwards. `seen`
    is every request, in the order in which they came."""

    upstream: str
    script: Script = lambda _: FORWARD
    always: Script = lambda _: FORWARD
    seen: list[Asked] = field(default_factory=list)
    cuts: int = 0

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[tuple[int, str | None]] = Counter()
        self._listeners: dict[int, _Listener] = {}
        self._view = View(self._address_of, _NOTHING_HIDDEN)
        for number, server in enumerate(self.upstream.split(",")):
            host, port = server.split(":")
            self._address_of(-1 - number, Address(host, int(port)))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{listener.port}" for node, listener in self._listeners.items() if node < 0)

    def _address_of(self, node: int, real: Address) -> Address:
        with self._lock:
            if node not in self._listeners:
                self._listeners[node] = _Listener(self, node, real)
            self._listeners[node].real = real
            return Address("127.0.0.1", self._listeners[node].port)

    def ask(self, node: int, api: int, version: int, client_id: str | None, body: bytes) -> tuple[Asked, Act]:
        """What is to become of a request."""
        with self._lock:
            self._counts[api, client_id] += 1
            asked = Asked(api, version, self._counts[api, client_id], client_id, node, body)
            self.seen.append(asked)
            act = self.script(asked)
            act = self.always(asked) if act is FORWARD else act
            self.cuts += isinstance(act, CutBefore | CutAfter | Late)
            return asked, act

    def rewritten(self, api: int, version: int, body: memoryview) -> bytes:
        if not response_is_read(api, version):
            return bytes(body)
        return b"".join(rewrite_response(api, version, body, self._view))

    def hang_up(self, which: Callable[[str | None], bool] = lambda _: True) -> int:
        """End the connections of clients by these ids, as a broker does that restarts. How many that were."""
        with self._lock:
            listeners = list(self._listeners.values())
        return sum(listener.hang_up(which) for listener in listeners)

    @contextmanager
    def following(self, script: Script) -> Iterator[None]:
        """Another script for a while."""
        before, self.script = self.script, script
        try:
            yield
        finally:
            self.script = before

    def close(self) -> None:
        for listener in list(self._listeners.values()):
            listener.close()


class _Listener:
    """A listener, and the connections that came through it."""

    def __init__(self, scripted: Scripted, node: int, real: Address) -> None:
        self.real = real
        self._scripted = scripted
        self._node = node
        self._closed = False
        self._open: dict[socket.socket, str | None] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        Thread(target=self._accept, name=f"scripted-{node}", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(client,), name=f"scripted-{self._node}", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with ExitStack() as stack:
            stack.callback(self._open.pop, client, None)
            stack.enter_context(client)
            stack.enter_context(suppress(OSError, _Cut))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open[client] = None
            broker = stack.enter_context(socket.create_connection(self.real, 5.0))
            broker.settimeout(None)
            broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._closed:
                self._exchange(client, broker)

    def _exchange(self, client: socket.socket, broker: socket.socket) -> None:
        """One request and its answer."""
        if broker in select.select([client, broker], [], [])[0]:
            raise _Cut  # without being asked anything: the broker has ended the connection
        payload = _frame_from(client)
        header, body = read_request(payload)
        api, version = header.api_key, header.version
        self._open[client] = header.client_id
        asked, act = self._scripted.ask(self._node, api, version, header.client_id, bytes(body))
        if isinstance(act, CutBefore):
            raise _Cut
        if isinstance(act, Late):
            self._open.pop(client, None)
            client.shutdown(socket.SHUT_RDWR)
            client.close()
            act.event.wait(WAIT_S)
            broker.settimeout(LATE_S)
        if isinstance(act, Waits):
            act.event.wait(WAIT_S)
        if isinstance(act, Instead):
            _send(client, api, version, header.correlation_id, _joined(refusal(asked, act.code), version))
            return
        broker.sendall(_LENGTH.pack(len(payload)) + payload)
        _, answer = read_response(api, version, _frame_from(broker))
        if isinstance(act, CutAfter | Late):
            raise _Cut
        if isinstance(act, Held):
            act.event.wait(WAIT_S)
        try:
            data = self._scripted.rewritten(api, version, answer)
        except WireError:
            data = bytes(answer)  # an answer in another version than was asked for
        if isinstance(act, Altered):
            data = act.how(data)
        _send(client, api, version, header.correlation_id, data)

    def hang_up(self, which: Callable[[str | None], bool]) -> int:
        found = [one for one, client_id in list(self._open.items()) if which(client_id)]
        for client in found:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        return len(found)

    def close(self) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up(lambda _: True)


def _frame_from(peer: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(peer, _LENGTH.size))
    return _exactly(peer, length)


def _exactly(peer: socket.socket, count: int) -> bytes:
    gathered = bytearray()
    while len(gathered) < count:
        piece = peer.recv(min(count - len(gathered), 1 << 18))
        if not piece:
            raise _Cut
        gathered += piece
    return bytes(gathered)


def _send(client: socket.socket, api: int, version: int, correlation_id: int, body: bytes) -> None:
    client.sendall(b"".join(response_frame(api, version, correlation_id, [body])))


def _joined(message: Message, version: int) -> bytes:
    return b"".join(encode(message, version))


# --- errors instead of the broker's answer


def refusal(asked: Asked, code: int) -> Message:
    """The answer in which everything that was asked for has this error. KeyError for what is not refused here."""
    return _REFUSALS[asked.api](asked, code)


def _produce(asked: Asked, code: int) -> Message:
    request: ProduceRequest = asked.decoded(ProduceRequest)
    return ProduceResponse(
        responses=[
            ProducedTopic(
                topic.name,
                [ProducedPartition(part.index, error_code=code, base_offset=-1) for part in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(asked: Asked, code: int) -> Message:
    request: FetchRequest = asked.decoded(FetchRequest)
    return FetchResponse(
        responses=[
            FetchedTopic(
                topic.topic,
                topic.topic_id,
                [
                    FetchedPartition(part.partition, code, high_watermark=-1, aborted_transactions=[], records=b"")
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(asked: Asked, code: int) -> Message:
    request: MetadataRequest = asked.decoded(MetadataRequest)
    return MetadataResponse(
        topics=[MetadataTopic(code, topic.name, topic.topic_id) for topic in request.topics or ()]
    )


def _find_coordinator(asked: Asked, code: int) -> Message:
    request: FindCoordinatorRequest = asked.decoded(FindCoordinatorRequest)
    return FindCoordinatorResponse(
        error_code=code,
        node_id=-1,
        port=-1,
        coordinators=[Coordinator(key, -1, "", -1, code) for key in request.coordinator_keys],
    )


def _txn_offset_commit(asked: Asked, code: int) -> Message:
    request: TxnOffsetCommitRequest = asked.decoded(TxnOffsetCommitRequest)
    return TxnOffsetCommitResponse(
        topics=[
            CommittedTopic(topic.name, [CommittedPartition(part.partition_index, code) for part in topic.partitions])
            for topic in request.topics
        ]
    )


def _add_partitions(asked: Asked, code: int) -> Message:
    request: AddPartitionsToTxnRequest = asked.decoded(AddPartitionsToTxnRequest)
    return AddPartitionsToTxnResponse(
        results_by_topic=[
            TxnTopicResult(topic.name, [TxnPartitionResult(number, code) for number in topic.partitions])
            for topic in request.topics
        ]
    )


_REFUSALS: dict[int, Callable[[Asked, int], Message]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda _, code: AddOffsetsToTxnResponse(error_code=code),
    ApiKey.INIT_PRODUCER_ID: lambda _, code: InitProducerIdResponse(error_code=code),
    ApiKey.END_TXN: lambda _, code: EndTxnResponse(error_code=code),
}
