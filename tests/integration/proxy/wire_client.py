"""A client of one connection, made of nothing but the proxy's own codecs."""

import socket
from collections import deque
from typing import TypeVar

from kafkawire.protocol.frames import FrameSplitter, Whole
from kafkawire.protocol.message import Message, RequestHeader, decode, encode, read_response, request_frame

A = TypeVar("A", bound=Message)
TIMEOUT_S = 60.0


class WireClient:
    """Blocking; one request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._splitter = FrameSplitter(lambda head, length: True, 4)
        self._correlation_id = 0
        self._arrived: deque[memoryview] = deque()

    def close(self) -> None:
        self._socket.close()

    def body(self, request: Message, version: int) -> memoryview:
        """The body of the answer."""
        self._correlation_id += 1
        header = RequestHeader(request.api, version, self._correlation_id, "wire-client")
        self.send(b"".join(request_frame(header, encode(request, version))))
        correlation_id, body = read_response(request.api, version, self.payload())
        assert correlation_id == self._correlation_id
        return body

    def ask(self, request: Message, version: int, answer: type[A]) -> A:
        return decode(answer, version, self.body(request, version))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def exchange(self, frame: bytes) -> memoryview:
        """The payload of the answer."""
        self.send(frame)
        return self.payload()

    def payload(self) -> memoryview:
        """Of the next answer."""
        while not self._arrived:
            data = self._socket.recv(1 << 16)
            assert data, "the broker closed the connection"
            for piece in self._splitter.feed(data):
                assert isinstance(piece, Whole)
                self._arrived.append(piece.payload)
        return self._arrived.popleft()
