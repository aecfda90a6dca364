"""Deadlines of one connection, on a loop that keeps its timers instead of waiting for them."""

from typing import Any
from weakref import ref

import pytest
from prometheus_client import CollectorRegistry
from uvicorn import Config
from uvicorn.server import ServerState

from delayline.http.guard import Guard, HttpLimits
from delayline.http.protocol import GuardedProtocol
from delayline.http.whole import WHOLE, WholeAnswer

LIMITS = HttpLimits(head_timeout_s=7.0, idle_timeout_s=75.0)
HEAD = b"POST /v1/topics/orders/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n"


class Timer:
    def __init__(self, seconds: float, call: Any) -> None:
        self.seconds = seconds
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Task:
    def add_done_callback(self, call: Any) -> None:
        return None


class Loop:
    """Runs nothing by itself."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Any, *args: Any) -> Timer:
        self.timers.append(Timer(seconds, call))
        return self.timers[-1]

    def create_task(self, coroutine: Any, **options: Any) -> Task:
        coroutine.close()
        return Task()

    def pending(self, seconds: float) -> list[Timer]:
        return [timer for timer in self.timers if timer.seconds == seconds and not timer.cancelled]


class Wire:
    def __init__(self) -> None:
        self.written = b""

    def get_extra_info(self, name: str) -> Any:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written += data

    can_end = True

    def can_write_eof(self) -> bool:
        return self.can_end

    def write_eof(self) -> None:
        if not self.can_end:
            raise NotImplementedError  # as uvloop's TLS does

    def abort(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None


async def _app(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the loop runs nothing")


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def connection(loop: Loop) -> GuardedProtocol:
    """One whose first request has been answered, so that it waits for the next."""
    guard = Guard(LIMITS, CollectorRegistry())
    config = Config(_app, ws="none", lifespan="off", log_config=None, timeout_keep_alive=75)
    protocol = GuardedProtocol(guard, config, ServerState(), {}, loop)
    protocol.connection_made(Wire())  # type: ignore[arg-type]
    protocol.data_received(HEAD + b"{}")
    assert _answered(protocol)
    assert loop.pending(7.0) == []
    return protocol


def _answered(protocol: GuardedProtocol) -> bool:
    whole = protocol.scope[WHOLE]  # type: ignore[literal-required]
    assert isinstance(whole, WholeAnswer)
    return whole.write(201, [(b"content-length", b"0")], b"")


def test_an_answered_request_is_freed_at_once_and_not_by_the_garbage_collector(connection: GuardedProtocol) -> None:
    answered = ref(connection.cycle)
    connection.data_received(HEAD + b"{}")
    assert answered() is None


def test_a_head_in_pieces_has_its_time_from_the_first_byte_on(connection: GuardedProtocol, loop: Loop) -> None:
    connection.data_received(HEAD[:1])
    (deadline,) = loop.pending(7.0)
    connection.data_received(HEAD[1:20])
    assert loop.pending(7.0) == [deadline]
    connection.data_received(HEAD[20:])
    assert deadline.cancelled


def test_a_head_that_does_not_end_in_time_is_refused(connection: GuardedProtocol, loop: Loop) -> None:
    connection.data_received(HEAD[:30])
    (deadline,) = loop.pending(7.0)
    deadline.call()
    wire: Any = connection.transport
    assert b"HTTP/1.1 408 " in wire.written


def test_over_tls_a_refused_connection_is_not_half_closed(connection: GuardedProtocol) -> None:
    wire: Any = connection.transport
    wire.can_end = False
    connection.data_received(b"FOO / BAR\r\n\r\n")
    assert b"HTTP/1.1 400 " in wire.written


@pytest.mark.parametrize("body", [b"", b"{", b"{}"])
def test_a_head_that_came_whole_starts_no_deadline(connection: GuardedProtocol, loop: Loop, body: bytes) -> None:
    connection.data_received(HEAD + body)
    assert [timer for timer in loop.timers[1:] if timer.seconds == 7.0] == []


def test_a_connection_that_is_answered_waits_as_an_idle_one(connection: GuardedProtocol, loop: Loop) -> None:
    assert len(loop.pending(75)) == 1
    connection.data_received(HEAD)
    assert loop.pending(75) == []


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        (b"GET /x HTTP/1.1\r\nhost: localhost", [b"localhost"]),
        (b"GET http://evil.example/x HTTP/1.1\r\nhost: localhost", [b"evil.example"]),
        (b"GET http://localhost:80/x?y=http://z HTTP/1.1\r\nHost: evil.example", [b"localhost:80"]),
        (b"GET http://evil.example?x HTTP/1.1\r\nhost: localhost", [b"evil.example"]),
        (b"GET http://localhost@evil.example/ HTTP/1.1\r\nhost: localhost", [b"localhost@evil.example"]),
        (b"GET http://[::1]:8080/ HTTP/1.1\r\nhost: localhost", [b"[::1]:8080"]),
        (b"GET http://localhost/ HTTP/1.1\r\nx: y", []),
        (b"GET http://evil.example/ HTTP/1.0\r\nx: y", [b"evil.example"]),
        (b"GET http://one/ HTTP/1.1\r\nhost: one\r\nhost: two", [b"one", b"one"]),
        (b"GET /x?to=http://evil.example HTTP/1.1\r\nhost: localhost", [b"localhost"]),
    ],
)
def test_the_host_of_a_request_in_absolute_form_is_its_authority(
    connection: GuardedProtocol, line: bytes, hosts: list[bytes]
) -> None:
    """RFC 9112, 3.2.2. Two stay two, and none stays none."""
    connection.data_received(line + b"\r\n\r\n")
    assert [value for name, value in connection.scope["headers"] if name == b"host"] == hosts
