"""One connection to a broker: requests out, answers in, in order.

For one thread at a time. The socket never blocks: whoever waits does so in `receive`, for as long as it says, and a
loop over many connections asks `arrived` whenever one is readable.
"""

import select
import socket
import ssl
import struct
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, NoReturn, TypeVar

from delayline import __version__
from delayline.clock import Clock
from kafkawire.client.address import Address
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import (
    AnswerLost,
    ErrorCode,
    FrameTooLarge,
    Malformed,
    Unreachable,
    UnsupportedVersion,
    WireError,
)
from kafkawire.protocol.frames import FRAME_BYTES_MAX
from kafkawire.protocol.message import Message, RequestHeader, decode, encode, read_answer, request_frame
from kafkawire.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.security.access import Access
from kafkawire.security.sasl import advance, login

A = TypeVar("A", bound=Message)

API_VERSIONS_VERSION = 3
"""The first with features; brokers speak it since 2.4."""
LIFETIME_USED = 0.8
"""Of a session's lifetime (KIP-368), before another connection takes over that authenticates anew."""
ROOM_BYTES = 2 << 20
"""The first room for an answer: twice what a fetch brings, mostly. More is made as bytes come, never on the word of a
length."""
BUFFERS_MAX = 1000
"""Of one `sendmsg`: Linux takes 1024 (IOV_MAX)."""

_LENGTH = struct.Struct(">i")


class _Expected(NamedTuple):
    api: int
    version: int
    correlation_id: int


class Connection:
    """Made by `connect`. It ends with the first failure: what was asked and not answered then may have been carried
    out, or not (AnswerLost).

    `versions` has the oldest and the newest version of each API that the broker speaks, `features` the levels that
    the cluster has agreed on (KIP-584), `use_until_s` the monotonic time at which another connection takes over.
    """

    def __init__(self, channel: socket.socket, name: str, client_id: str, timeout_s: float, clock: Clock) -> None:
        channel.setblocking(False)
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}
        self.use_until_s = float("inf")
        self._channel = channel
        self._name = name
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._clock = clock
        self._expected: deque[_Expected] = deque()
        self._correlation_id = 0
        self._held = bytearray(_LENGTH.size)  # room for the answer that is arriving, or for its length
        self._filled = 0
        self._missing = 0  # bytes of the answer that there is no room for yet
        self._in_body = False
        self.is_open = True

    def fileno(self) -> int:
        return self._channel.fileno()

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._expected)

    def version(self, api: ApiKey, newest: int, oldest: int) -> int:
        """The newest version up to `newest` that the broker speaks. Raises UnsupportedVersion below `oldest`."""
        theirs = self.versions.get(api, (0, -1))
        found = min(newest, theirs[1])
        if found < max(oldest, theirs[0]):
            raise UnsupportedVersion(f"{self._name}: {api.name} {theirs[0]}-{theirs[1]}, {oldest}-{newest} is needed")
        return found

    def is_alive(self) -> bool:
        """A broker closes idle connections: noticed before anything is sent, so that no request is in doubt."""
        if self.is_open and not self._expected and self._wait(select.POLLIN, 0):
            try:
                if self._read() is not None:
                    raise Malformed("an answer to nothing")
            except (OSError, WireError):
                self.close()
        return self.is_open

    # --- asking

    def ask(self, request: Message, version: int, answer: type[A], timeout_s: float | None = None) -> A:
        """Raises Unreachable and AnswerLost."""
        self.send(request, version)
        return self.receive(answer, timeout_s)

    def send(self, request: Message, version: int) -> None:
        """Raises Unreachable where nothing was sent, AnswerLost where some of it may have been."""
        if not self.is_alive():
            raise Unreachable(f"{self._name}: the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        header = RequestHeader(request.api, version, self._correlation_id, self._client_id)
        frame = request_frame(header, encode(request, version))
        self._expected.append(_Expected(request.api, version, self._correlation_id))
        try:
            self._write([memoryview(part).cast("B") for part in frame if len(part)])
        except OSError as error:
            self._fail(error)

    def receive(self, answer: type[A], timeout_s: float | None = None) -> A:
        """The answer to the oldest request that has none yet. Raises AnswerLost, also for what cannot be read."""
        version = self._expected[0].version if self._expected else 0
        return self._decoded(answer, version, self._body(self._timeout_s if timeout_s is None else timeout_s))

    def learn_versions(self) -> None:
        """What the broker speaks. Raises UnsupportedVersion where it answers that it does not speak this question
        itself: in the layout of version 0, whatever was asked (KIP-511). Anything else that is no answer raises
        Unreachable or AnswerLost: another try may bring one."""
        self.send(ApiVersionsRequest("delayline", __version__), API_VERSIONS_VERSION)
        body = self._body(self._timeout_s)
        if int.from_bytes(body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            raise UnsupportedVersion(f"{self._name}: API_VERSIONS {API_VERSIONS_VERSION} is needed")
        answer = self._decoded(ApiVersionsResponse, API_VERSIONS_VERSION, body)
        if answer.error_code:
            raise Unreachable(f"{self._name} does not tell its versions: error {answer.error_code}")
        self.versions = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        self.features = {one.name: one.max_version_level for one in answer.finalized_features}

    def _body(self, limit_s: float) -> memoryview:
        give_up_s = self._clock.monotonic_s() + limit_s
        while (body := self.arrived()) is None:
            left_s = give_up_s - self._clock.monotonic_s()
            if left_s <= 0 or not self._wait(select.POLLIN, left_s):
                self.close()
                raise AnswerLost(f"{self._name}: no answer within {limit_s:g} s")
        return body

    def _decoded(self, answer: type[A], version: int, body: memoryview) -> A:
        try:
            return decode(answer, version, body)
        except WireError as error:
            self._fail(error)

    def arrived(self) -> memoryview | None:
        """The body of the next answer, if all of it is there. Raises AnswerLost where the connection has ended, or
        brings what is no answer to what was asked: nobody knows what the bytes behind that are worth."""
        if not self.is_open:
            raise AnswerLost(f"{self._name}: the connection is closed")
        try:
            payload = self._read()
            return None if payload is None else self._answer(payload)
        except (OSError, WireError) as error:
            self._fail(error)

    def _answer(self, payload: bytearray) -> memoryview:
        """Raises Malformed."""
        if not self._expected:
            raise Malformed("an answer to nothing")
        return read_answer(*self._expected.popleft(), payload)

    def close(self) -> None:
        self.is_open = False
        self._channel.close()

    # --- the socket

    def _fail(self, error: OSError | WireError) -> NoReturn:
        self.close()
        raise AnswerLost(f"{self._name}: {error or type(error).__name__}") from error

    def _wait(self, event: int, timeout_s: float) -> bool:
        """Until the socket is ready for it; False where the time runs out first."""
        waiting = select.poll()
        waiting.register(self._channel, event)
        return bool(waiting.poll(max(0, round(timeout_s * 1000 + 0.5))))

    def _write(self, buffers: list[memoryview]) -> None:
        """Raises OSError, TimeoutError where the broker takes nothing for as long as a request may last."""
        give_up_s = self._clock.monotonic_s() + self._timeout_s
        while buffers:
            try:
                sent = self._send_some(buffers)
            except (BlockingIOError, ssl.SSLWantWriteError):
                left_s = give_up_s - self._clock.monotonic_s()
                if left_s <= 0 or not self._wait(select.POLLOUT, left_s):
                    raise TimeoutError(f"nothing was taken for {self._timeout_s:g} s") from None
                continue
            while buffers and sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            if sent:
                buffers[0] = buffers[0][sent:]

    def _send_some(self, buffers: list[memoryview]) -> int:
        if isinstance(self._channel, ssl.SSLSocket):
            return self._channel.send(buffers[0])  # repeated as it is where it has to wait
        return self._channel.sendmsg(buffers[:BUFFERS_MAX])

    def _read(self) -> bytearray | None:
        """The payload of the next frame, or None while it is not all there. Raises OSError and FrameTooLarge."""
        while True:
            try:
                count = self._channel.recv_into(memoryview(self._held)[self._filled :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return None
            if not count:
                raise ConnectionResetError("closed by the broker")
            self._filled += count
            if self._filled < len(self._held):
                continue
            if self._missing:
                more = min(self._missing, len(self._held))
                self._held += bytes(more)
                self._missing -= more
                continue
            held, self._filled, self._in_body = self._held, 0, not self._in_body
            if not self._in_body:
                self._held = bytearray(_LENGTH.size)
                return held
            (length,) = _LENGTH.unpack(held)
            if not _LENGTH.size <= length <= FRAME_BYTES_MAX:
                raise FrameTooLarge(f"a frame of {length} bytes")
            self._held = bytearray(min(length, ROOM_BYTES))
            self._missing = length - len(self._held)


def connect(address: Address, access: Access, client_id: str, timeout_s: float, clock: Clock) -> Connection:
    """Connected, with the broker's versions known, and authenticated; `timeout_s` is for each step, and for what is
    asked later. Raises Unreachable, NotAuthenticated, UnsupportedVersion."""
    name = f"{address.host}:{address.port}"
    connection = Connection(_channel(address, access.tls, timeout_s), name, client_id, timeout_s, clock)
    try:
        connection.learn_versions()
        _authenticate(connection, access, address.host, clock)
    except AnswerLost as error:
        raise Unreachable(str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _channel(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> socket.socket:
    channel = None
    try:
        channel = socket.create_connection(address, timeout_s)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return channel if tls is None else tls.wrap_socket(channel, server_hostname=address.host)
    except (OSError, OverflowError, ValueError) as error:  # the latter two: a port or a name that is none
        if channel is not None:
            channel.close()
        raise Unreachable(f"{address.host}:{address.port}: {error or 'no answer'}") from error


def _authenticate(connection: Connection, access: Access, host: str, clock: Clock) -> None:
    if access.credentials is None:
        return
    steps = login(access.credentials, host)
    asking = advance(steps)
    while not isinstance(asking, int):
        asking = advance(steps, connection.ask(asking.request, asking.version, asking.answer))
    if asking > 0:
        connection.use_until_s = clock.monotonic_s() + LIFETIME_USED * asking / 1000
