"""A broker that answers what a test scripts."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread

from kafkawire.client.address import Address
from kafkawire.protocol.message import Message, RequestHeader, encode, read_request, response_frame
from kafkawire.protocol.messages.cluster import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeature

Handler = Callable[[RequestHeader, memoryview], "Message | bytes | None"]
"""What to answer: a message, raw bytes to send instead, or None to hang up."""

VERSIONS = ApiVersionsResponse(
    0,
    [ApiVersion(key, 0, 14) for key in range(70)],
    finalized_features=[FinalizedFeature("transaction.version", 2, 2)],
)


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


def _serve(channel: socket.socket, handler: Handler, shown: ApiVersionsResponse | None) -> None:
    while True:
        (length,) = struct.unpack(">i", _exactly(channel, 4))
        header, body = read_request(_exactly(channel, length))
        versions = header.api_key == ApiVersionsRequest.api
        answer = shown if versions and shown is not None else handler(header, body)
        if answer is None:
            return
        if isinstance(answer, bytes):
            channel.sendall(answer)
        else:
            encoded = encode(answer, header.version)
            channel.sendall(b"".join(response_frame(header.api_key, header.version, header.correlation_id, encoded)))


@contextmanager
def served(handler: Handler, versions: ApiVersionsResponse | None = VERSIONS) -> Iterator[Address]:
    """The address of a broker that answers ApiVersions with `versions`, and all else, or all, by `handler`."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve(channel: socket.socket) -> None:
            with closing(channel), suppress(OSError):
                _serve(channel, handler, versions)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    channel, _ = listener.accept()
                    Thread(target=serve, args=(channel,), daemon=True).start()

        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        yield Address(*listener.getsockname())
        listener.shutdown(socket.SHUT_RDWR)
    accepting.join(10)
