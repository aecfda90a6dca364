"""Which transactions the brokers report as open, asked on their own ports.

librdkafka's admin client cannot ask, and Kafka's own tool takes a second to start: too slow to hit a transaction that
lasts milliseconds. So this is the one request (KIP-664): each broker answers for the transactional ids that it
coordinates.
"""

import socket
import struct

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import RequestHeader, decode, encode, read_response, request_frame
from kafkawire.protocol.messages.transactions import ListTransactionsRequest, ListTransactionsResponse

VERSION = 0
TIMEOUT_S = 5.0
OPEN = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""States in which the offsets and records of a transaction are not decided yet, as far as readers can see."""

_QUESTION = b"".join(
    request_frame(
        RequestHeader(ApiKey.LIST_TRANSACTIONS, VERSION, 1, "proof"), encode(ListTransactionsRequest(), VERSION)
    )
)


class Transactions:
    """States by transactional id, over all brokers; those that do not answer are left out. One thread."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._places = [place.rsplit(":", 1) for place in bootstrap_servers.split(",")]
        self._sockets: dict[int, socket.socket] = {}

    def states(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for index in range(len(self._places)):
            try:
                answer = self._ask(index)
            except OSError:
                self._drop(index)
                continue
            if not answer.error_code:  # else for instance the coordinator is loading
                found.update((one.transactional_id, one.transaction_state) for one in answer.transaction_states)
        return found

    def open(self) -> dict[str, str]:
        return {name: state for name, state in self.states().items() if state in OPEN}

    def close(self) -> None:
        for index in list(self._sockets):
            self._drop(index)

    def _drop(self, index: int) -> None:
        if (gone := self._sockets.pop(index, None)) is not None:
            gone.close()

    def _ask(self, index: int) -> ListTransactionsResponse:
        if index not in self._sockets:
            host, port = self._places[index]
            self._sockets[index] = socket.create_connection((host, int(port)), TIMEOUT_S)
        wire = self._sockets[index]
        wire.sendall(_QUESTION)
        (length,) = struct.unpack(">i", _read(wire, 4))
        _, body = read_response(ApiKey.LIST_TRANSACTIONS, VERSION, _read(wire, length))
        return decode(ListTransactionsResponse, VERSION, body)


def _read(wire: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := wire.recv(count - len(data))):
            raise ConnectionResetError("the broker hung up")
        data += more
    return data
