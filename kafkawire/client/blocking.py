"""One connection to a broker for one thread at a time: the socket, deadlines and TLS around `session`.

The socket never blocks: only `receive` waits, as long as its caller allows, and a loop over many connections
asks `arrived` whenever one is readable.
"""

import select
import socket
import ssl
from collections.abc import Mapping
from typing import NoReturn, TypeVar

from delayline.clock import Clock
from kafkawire.client.address import Address
from kafkawire.client.session import Answer, Session
from kafkawire.client.versions import API_VERSIONS_VERSION, QUESTION, BrokerVersions, learned
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import AnswerLost, Malformed, Unreachable, WireError
from kafkawire.protocol.message import Message, decode
from kafkawire.security.access import Access
from kafkawire.security.sasl import advance, login

A = TypeVar("A", bound=Message)

BUFFERS_MAX = 1000
"""Of one `sendmsg`: Linux takes 1024 (IOV_MAX)."""


class Connection:
    """Made by `connect`. It ends with the first failure: what was asked and not answered then may have been carried
    out, or not (AnswerLost)."""

    def __init__(self, channel: socket.socket, name: str, client_id: str, timeout_s: float, clock: Clock) -> None:
        channel.setblocking(False)
        self.channel = channel
        self._name = name
        self._timeout_s = timeout_s
        self._clock = clock
        self.session = Session(client_id)
        self._versions = BrokerVersions(name, {}, {})

    def fileno(self) -> int:
        return self.channel.fileno()

    @property
    def is_open(self) -> bool:
        return self.session.is_open

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return self.session.in_flight

    @property
    def use_until_s(self) -> float:
        """The monotonic time at which another connection takes over."""
        return self.session.use_until_s

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The oldest and the newest version of each API that the broker speaks."""
        return self._versions.apis

    @property
    def features(self) -> Mapping[str, int]:
        """The levels that the cluster has agreed on (KIP-584)."""
        return self._versions.features

    def version(self, api: ApiKey, newest: int, oldest: int) -> int:
        """The newest version up to `newest` that the broker speaks. Raises UnsupportedVersion below `oldest`."""
        return self._versions.choose(api, newest, oldest)

    def is_alive(self) -> bool:
        """A broker closes idle connections: noticed before anything is sent, so that no request is in doubt."""
        # With nothing asked, readable means the end of the stream or bytes that answer nothing: both end the
        # connection.
        if self.is_open and not self.in_flight and self._wait(select.POLLIN, 0):
            try:
                self._read()
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
        # From here on the request counts as in flight: whatever fails later leaves its fate unknown.
        frame = self.session.request(request, version)
        try:
            # Views, so that the records of a Produce go to the kernel without being joined into one buffer.
            self._write([memoryview(part).cast("B") for part in frame if len(part)])
        except OSError as error:
            self._fail(error)

    def receive(self, answer: type[A], timeout_s: float | None = None) -> A:
        """The answer to the oldest request that has none yet. Raises AnswerLost, also for what cannot be read."""
        found = self._next(self._timeout_s if timeout_s is None else timeout_s)
        try:
            return decode(answer, found.version, found.body)
        except WireError as error:
            self._fail(error)

    def arrived(self) -> memoryview | None:
        """The body of the next answer, if all of it is there. Raises AnswerLost where the connection has ended, or
        brings what is no answer to what was asked."""
        answer = self._arrived()
        return None if answer is None else answer.body

    def learn_versions(self) -> None:
        """What the broker speaks. Raises UnsupportedVersion where it does not speak this question itself, else
        Unreachable or AnswerLost: another try may bring an answer."""
        self.send(QUESTION, API_VERSIONS_VERSION)
        body = self._next(self._timeout_s).body
        try:
            self._versions = learned(self._name, body)
        except Malformed as error:
            self._fail(error)

    def authenticate(self, access: Access, host: str) -> None:
        """Raises NotAuthenticated, Unreachable and AnswerLost."""
        if access.credentials is None:
            return
        steps = login(access.credentials, host)
        asking = advance(steps)
        while not isinstance(asking, int):
            asking = advance(steps, self.ask(asking.request, asking.version, asking.answer))
        self.session.authenticated(asking, self._clock.monotonic_s())

    def close(self) -> None:
        self.session.end()
        self.channel.close()

    # --- the socket

    def _arrived(self) -> Answer | None:
        """Raises AnswerLost."""
        if not self.is_open:
            raise AnswerLost(f"{self._name}: the connection is closed")
        try:
            return self._read()
        except (OSError, WireError) as error:
            self._fail(error)

    def _next(self, limit_s: float) -> Answer:
        give_up_s = self._clock.monotonic_s() + limit_s
        while (answer := self._arrived()) is None:
            left_s = give_up_s - self._clock.monotonic_s()
            if left_s <= 0 or not self._wait(select.POLLIN, left_s):
                self.close()
                # Closed, not kept: a late answer would be taken for that of the next request.
                raise AnswerLost(f"{self._name}: no answer within {limit_s:g} s")
        return answer

    def _fail(self, error: OSError | WireError) -> NoReturn:
        self.close()
        raise AnswerLost(f"{self._name}: {error or type(error).__name__}") from error

    def _wait(self, event: int, timeout_s: float) -> bool:
        """Until the socket is ready for it; False where the time runs out first."""
        waiting = select.poll()
        waiting.register(self.channel, event)
        # poll and not select: select fails for file descriptors above 1023. Rounded up, or the last millisecond would
        # spin.
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
            # The kernel takes any number of bytes: what it has not taken is sent from there on.
            while buffers and sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            if sent:
                buffers[0] = buffers[0][sent:]

    def _send_some(self, buffers: list[memoryview]) -> int:
        if isinstance(self.channel, ssl.SSLSocket):
            return self.channel.send(buffers[0])  # repeated as it is where it has to wait
        return self.channel.sendmsg(buffers[:BUFFERS_MAX])

    def _read(self) -> Answer | None:
        """The next answer, or None while it is not all there. Raises OSError and WireError."""
        while True:
            try:
                # Straight into the frame's own memory: a fetch of a megabyte is not copied once more.
                count = self.channel.recv_into(self.session.receive_buffer())
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return None
            if (answer := self.session.took(count)) is not None:
                return answer


def connect(address: Address, access: Access, client_id: str, timeout_s: float, clock: Clock) -> Connection:
    """Connected, with the broker's versions known, and authenticated; `timeout_s` is for each step, and for what is
    asked later. Raises Unreachable, NotAuthenticated, UnsupportedVersion."""
    name = f"{address.host}:{address.port}"
    connection = Connection(_channel(address, access.tls, timeout_s), name, client_id, timeout_s, clock)
    try:
        connection.learn_versions()
        connection.authenticate(access, address.host)
    except AnswerLost as error:
        raise Unreachable(str(error)) from error
    # Also KeyboardInterrupt: the socket would stay open until the collector runs.
    except BaseException:
        connection.close()
        raise
    return connection


def _channel(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> socket.socket:
    channel = None
    try:
        channel = socket.create_connection(address, timeout_s)
        # Requests are written whole: waiting for more (Nagle) would add 40 ms to each that is smaller than a segment.
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Firewalls drop idle connections without a word; the kernel finds that out while nothing is asked.
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return channel if tls is None else tls.wrap_socket(channel, server_hostname=address.host)
    except (OSError, OverflowError, ValueError) as error:  # the latter two: a port or a name that is none
        if channel is not None:
            channel.close()
        raise Unreachable(f"{address.host}:{address.port}: {error or 'no answer'}") from error
