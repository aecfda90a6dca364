"""A socket and a thread around a session.

The thread reads, and writes what the socket would not take at once. A caller writes in its own thread where it
can: a request costs no change of threads before it is on its way. The lock covers the session, the outgoing bytes
and, with TLS, reading and writing of the socket too, which OpenSSL does not permit at the same time.
"""

import logging
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Lock, Thread, current_thread

from rocketmq.client.session import Pushed, Session, SessionEvent
from rocketmq.client.settings import ClientSettings
from rocketmq.clock import RocketmqClock
from rocketmq.errors import AnswerLost, InvalidRequest, TooManyPending, Unreachable, WireError
from rocketmq.wire.acl import signed
from rocketmq.wire.codes import Answer
from rocketmq.wire.command import Command, answer_to, encode_frame

READ_BYTES = 256 * 1024
BUFFERS_MAX = 1000
"""Of one `sendmsg`: Linux takes 1024 (IOV_MAX)."""
GATHERED_BYTES = 64 * 1024
"""Beyond them requests that are gathered are written: their peer can begin."""
IDLE_S = 2.0
"""The thread looks up so often. It need not be woken for a deadline behind that: waking it costs more than a request
that a broker answers at once."""

CLOSED_UNHEARD = "closed by the peer before any answer: does it want TLS, or another certificate?"

log = logging.getLogger(__name__)

PushHandler = Callable[[Command], Command | None]
"""Called in the connection's thread, so it must not wait. What it returns is sent as the answer; None to a push that
wants one: not supported."""


class BrokerConnection:
    """Made by `connect`. It ends with the first failure: all that waits then ends in AnswerLost."""

    def __init__(
        self, channel: socket.socket, name: str, settings: ClientSettings, clock: RocketmqClock, on_push: PushHandler
    ) -> None:
        channel.setblocking(False)
        self.name = name
        self._channel = channel
        self._settings = settings
        self._clock = clock
        self._on_push = on_push
        self._session = Session(pending_max=settings.pending_max, frame_bytes_max=settings.frame_bytes_max)
        self._futures: dict[int, Future[Command]] = {}
        self._outgoing: deque[memoryview] = deque()
        self._outgoing_bytes = 0
        self._gathering = 0
        self._looks_s = float("inf")  # when the thread looks up by itself
        self._lock = Lock()
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._is_heard = False
        self.is_open = True
        self._thread = Thread(target=self._run, name=f"rocketmq {name}", daemon=True)
        self._thread.start()

    # --- asking

    def start(self, command: Command, timeout_s: float) -> Future[Command]:
        """The answer, when it comes; it may be a refusal. The future raises AnswerLost. Raises Unreachable and
        InvalidRequest, where nothing was sent."""
        self._prepare(command)
        future: Future[Command] = Future()
        with self._lock:
            self._check_room(command)
            now_s = self._clock.monotonic_s()
            deadline_s = now_s + timeout_s
            opaque, data = self._session.request(command, now_s, deadline_s)
            self._futures[opaque] = future
            left = self._write(data)
            is_early = deadline_s < self._looks_s
        if left or is_early:
            self._wake()
        return future

    def ask(self, command: Command, timeout_s: float | None = None) -> Command:
        """Raises Unreachable, AnswerLost, InvalidRequest."""
        return self.start(command, self._settings.request_timeout_s if timeout_s is None else timeout_s).result()

    def send_oneway(self, command: Command) -> None:
        """A request that gets no answer. Raises Unreachable and InvalidRequest; what happens to it is never known."""
        self._prepare(command)
        with self._lock:
            self._check_room(command)
            left = self._write(self._session.one_way(command))
        if left:
            self._wake()

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """What is sent within is written to the socket at the end, all at once."""
        with self._lock:
            self._gathering += 1
        try:
            yield
        finally:
            with self._lock:
                self._gathering -= 1
                left = self._write(())
            if left:
                self._wake()

    def _prepare(self, command: Command) -> None:
        command.encoding = self._settings.encoding
        if self._settings.credentials is not None:
            command.fields = signed(command.fields, command.body, self._settings.credentials)

    def _check_room(self, command: Command) -> None:
        if not self.is_open:
            raise Unreachable(f"{self.name}: the connection is closed")
        if self._outgoing_bytes + len(command.body) > self._settings.outgoing_bytes_max:
            raise TooManyPending(f"{self.name}: {self._outgoing_bytes} bytes wait to be taken")

    @property
    def unsent_bytes(self) -> int:
        """That the socket has not taken yet."""
        return self._outgoing_bytes

    @property
    def in_flight(self) -> int:
        return self._session.in_flight

    def close(self) -> None:
        """All that waits ends in AnswerLost."""
        self._end("closed by us")
        if current_thread() is not self._thread:
            self._thread.join()

    # --- the thread

    def _run(self) -> None:
        try:
            while self.is_open:
                self._turn()
        except (OSError, WireError) as error:
            self._end(str(error) or type(error).__name__)
        finally:
            self._end("the connection's thread has ended")
            for one in (self._channel, self._woken, self._waker):
                one.close()

    def _turn(self) -> None:
        """Raises OSError and WireError."""
        ready = self._wait()
        if not self.is_open:
            return
        if ready & select.POLLOUT:
            with self._lock:
                self._flush()
        if ready & ~select.POLLOUT:
            self._read_all()
        self._expire()

    def _wait(self) -> int:
        """Until there is something to do; which of the socket's events have come."""
        with self._lock:
            wait_s = self._wait_s()
            wanted = select.POLLIN | (select.POLLOUT if self._outgoing else 0)
        waiting = select.poll()
        waiting.register(self._channel, wanted)
        waiting.register(self._woken, select.POLLIN)
        found = dict(waiting.poll(wait_s * 1000 + 1))
        if self._woken.fileno() in found:
            with suppress(BlockingIOError):
                self._woken.recv(4096)
        return found.get(self._channel.fileno(), 0)

    def _wait_s(self) -> float:
        """Under the lock."""
        now_s, deadline_s = self._clock.monotonic_s(), self._session.next_deadline_s()
        self._looks_s = now_s + IDLE_S if deadline_s is None else min(deadline_s, now_s + IDLE_S)
        return max(self._looks_s - now_s, 0.0)

    def _wake(self) -> None:
        with suppress(OSError):  # full: it is awake already; closed: there is nothing to wake
            self._waker.send(b"\0")

    def _read_all(self) -> None:
        """TLS may hold decrypted bytes that poll does not see: until nothing comes. Raises OSError and WireError."""
        while data := self._read():
            with self._lock:
                events, trouble = self._receive(data)
            for future, event in events:
                self._hand_out(future, event)
            if trouble is not None:
                raise trouble
            if len(data) < READ_BYTES and not isinstance(self._channel, ssl.SSLSocket):
                return

    def _receive(self, data: bytes) -> tuple[list[tuple[Future[Command] | None, SessionEvent]], WireError | None]:
        """The events before what cannot be read count: their requests are pending no longer, and have their
        answers."""
        found: list[tuple[Future[Command] | None, SessionEvent]] = []
        try:
            for event in self._session.receive(data, self._clock.monotonic_s()):
                found.append((None if isinstance(event, Pushed) else self._futures.pop(event.opaque), event))
        except WireError as error:
            return found, error
        return found, None

    def _read(self) -> bytes:
        """Nothing where nothing is there. Raises OSError."""
        try:
            if isinstance(self._channel, ssl.SSLSocket):
                with self._lock:
                    data = self._channel.recv(READ_BYTES)
            else:
                data = self._channel.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""
        if not data:
            raise ConnectionResetError("closed by the peer" if self._is_heard else CLOSED_UNHEARD)
        self._is_heard = True
        return data

    def _hand_out(self, future: Future[Command] | None, event: SessionEvent) -> None:
        if future is not None:
            if future.set_running_or_notify_cancel():
                future.set_result(event.command)
            return
        answer = self._handled(event.command)
        if not event.command.is_one_way:
            with self._lock:
                self._write(answer)

    def _handled(self, push: Command) -> tuple[bytes, ...]:
        """The answer as bytes."""
        try:
            answer = self._on_push(push)
            return encode_frame(answer or answer_to(push, Answer.REQUEST_CODE_NOT_SUPPORTED, remark="not supported"))
        except Exception:  # a handler of the caller's must not end the connection
            log.exception("a push could not be handled", extra={"code": push.code, "peer": self.name})
            return encode_frame(answer_to(push, Answer.SYSTEM_ERROR, remark="the client could not handle it"))

    def _expire(self) -> None:
        with self._lock:
            expired = self._session.expired(self._clock.monotonic_s())
            futures = [self._futures.pop(opaque) for opaque in expired.opaques]
        for future in futures:
            _fail(future, f"{self.name}: no answer in time")
        if expired.is_silent:
            self._end("nothing has come since a request whose time is up")

    # --- the socket

    def _write(self, data: tuple[bytes, ...]) -> bool:
        """Under the lock. Whether something is left for the thread. What fails is noticed by the thread as well."""
        for part in data:
            if len(part):
                self._outgoing.append(memoryview(part))
                self._outgoing_bytes += len(part)
        if self._gathering and self._outgoing_bytes < GATHERED_BYTES:
            return False
        try:
            self._flush()
        except OSError:
            return True
        return bool(self._outgoing)

    def _flush(self) -> None:
        """Under the lock. Raises OSError."""
        with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while self._outgoing:
                self._take(self._send_some())

    def _send_some(self) -> int:
        if isinstance(self._channel, ssl.SSLSocket):
            return self._channel.send(self._outgoing[0])  # repeated as it is where it has to wait
        if len(self._outgoing) <= BUFFERS_MAX:
            return self._channel.sendmsg(self._outgoing)
        return self._channel.sendmsg([self._outgoing[number] for number in range(BUFFERS_MAX)])

    def _take(self, sent: int) -> None:
        self._outgoing_bytes -= sent
        while self._outgoing and sent >= len(self._outgoing[0]):
            sent -= len(self._outgoing.popleft())
        if sent:
            self._outgoing[0] = self._outgoing[0][sent:]

    def _end(self, reason: str) -> None:
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False
            lost = [self._futures.pop(opaque) for opaque in self._session.close()]
            self._outgoing.clear()
        self._wake()
        for future in lost:
            _fail(future, f"{self.name}: {reason}")


def _fail(future: Future[Command], reason: str) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(AnswerLost(reason))


def connect(
    address: str, settings: ClientSettings, clock: RocketmqClock, on_push: PushHandler = lambda _: None
) -> BrokerConnection:
    """To `host:port`. Raises Unreachable, InvalidRequest for what is no address."""
    host, port = parse_address(address)
    return BrokerConnection(_open_channel(host, port, settings), address, settings, clock, on_push)


def parse_address(address: str) -> tuple[str, int]:
    """Host, without the brackets of an IPv6 address, and port. Raises InvalidRequest."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise InvalidRequest(f"{address!r} is not of the form host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _open_channel(host: str, port: int, settings: ClientSettings) -> socket.socket:
    channel = None
    try:
        channel = socket.create_connection((host, port), settings.connect_timeout_s)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return channel if settings.tls is None else _encrypted(channel, host, settings.tls)
    except (OSError, ValueError) as error:
        if channel is not None:
            channel.close()
        raise Unreachable(f"{host}:{port}: {error or 'no answer'}") from error


def _encrypted(channel: socket.socket, host: str, context: ssl.SSLContext) -> socket.socket:
    """Raises OSError."""
    try:
        return context.wrap_socket(channel, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise OSError(f"its certificate is not trusted: {error.verify_message}") from error
    except (ssl.SSLError, ConnectionError) as error:
        raise OSError(f"no TLS with it: {error}; does it take TLS (tls.server.mode)?") from error
