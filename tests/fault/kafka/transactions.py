"""Which transactions a broker says are open, asked on its own port.

librdkafka's admin client cannot ask, and Kafka's own tool takes a second to start: too slow to hit a transaction that
lasts milliseconds. So this is the one request, byte by byte (org.apache.kafka.common.message.ListTransactionsRequest,
version 0, KIP-664): each broker answers for the transactional ids that it coordinates.
"""

import socket
import struct
from collections.abc import Iterator

LIST_TRANSACTIONS = 66
TIMEOUT_S = 5.0
OPEN = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""States in which the offsets and records of a transaction are not decided yet, as far as readers can see."""

_HEADER = struct.Struct(">hhi")
_EMPTY_FILTERS = b"\x01\x01\x00"  # no states, no producer ids, no tagged fields
_CLIENT = struct.pack(">h", 5) + b"proof" + b"\x00"  # its name, no tagged fields


class Transactions:
    """States by transactional id, over all brokers; those that do not answer are left out. One thread."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._places = [place.rsplit(":", 1) for place in bootstrap_servers.split(",")]
        self._sockets: dict[int, socket.socket] = {}

    def states(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for index in range(len(self._places)):
            try:
                found.update(_read_states(self._ask(index)))
            except OSError:
                self._drop(index)
        return found

    def open(self) -> dict[str, str]:
        return {name: state for name, state in self.states().items() if state in OPEN}

    def close(self) -> None:
        for index in list(self._sockets):
            self._drop(index)

    def _drop(self, index: int) -> None:
        if (gone := self._sockets.pop(index, None)) is not None:
            gone.close()

    def _ask(self, index: int) -> bytes:
        if index not in self._sockets:
            host, port = self._places[index]
            self._sockets[index] = socket.create_connection((host, int(port)), TIMEOUT_S)
        wire = self._sockets[index]
        request = _HEADER.pack(LIST_TRANSACTIONS, 0, 1) + _CLIENT + _EMPTY_FILTERS
        wire.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", _read(wire, 4))
        return _read(wire, length)


def _read(wire: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := wire.recv(count - len(data))):
            raise ConnectionResetError("the broker hung up")
        data += more
    return data


def _read_states(answer: bytes) -> Iterator[tuple[str, str]]:
    """Nothing while the coordinator is loading, or after any other error."""
    at = 4 + 1  # correlation id, tagged fields of the header
    (error,) = struct.unpack_from(">h", answer, at + 4)
    at += 6
    if error:
        return
    unknown, at = _uvarint(answer, at)
    for _ in range(unknown - 1):
        _, at = _text(answer, at)
    count, at = _uvarint(answer, at)
    for _ in range(count - 1):
        name, at = _text(answer, at)
        state, at = _text(answer, at + 8)  # behind the producer id
        yield name, state
        at += 1  # tagged fields, none


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = _uvarint(data, at)
    return data[at : at + length - 1].decode(), at + length - 1


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
