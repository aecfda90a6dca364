"""What holds for the connections of every protocol: here one whose requests are lines."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from proxy.endpoint import Endpoint
from proxy.limits import Budget, Limits
from proxy.relay import Address, Relay

WITHIN_S = 10.0


class Wrong(Exception):
    """What is wrong with a peer."""


class TooLong(Wrong):
    """A line that is too long."""


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.connections = Gauge("connections", "", registry=self.registry)
        self.limited = Counter("limited", "", ("limit",), registry=self.registry)
        self.from_clients = Counter("from_clients", "", registry=self.registry)
        self.from_servers = Counter("from_servers", "", registry=self.registry)

    def limit(self, name: str) -> float:
        return self.registry.get_sample_value("limited_total", {"limit": name}) or 0.0


@dataclass
class Settings:
    limits: Limits = field(default_factory=Limits)
    connect_timeout_s: float = 1.0
    drain_max_s: float = 60.0


@dataclass
class Hub:
    settings: Settings = field(default_factory=Settings)
    metrics: Metrics = field(default_factory=Metrics)
    budget: Budget = field(default_factory=lambda: Budget(1 << 20))
    relayed_tls: ssl.SSLContext | None = None


class Wire(asyncio.Transport):
    """One side's, without a socket."""

    def __init__(self) -> None:
        super().__init__({"peername": ("peer", 1)})
        self.written: list[bytes] = []
        self.is_read = True
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None: ...


class Lines(Relay[Hub]):
    """A server is there when `reached` is set. A request is owed its answer for as long as it is in `owed`."""

    section = "proxy.lines"
    peer_error = Wrong
    too_large = TooLong

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub, "server", lambda _: None, lambda _: self.over.set())
        self.over = asyncio.Event()
        self.reached, self.is_up = asyncio.Event(), asyncio.Event()
        self.is_there = True
        self.owed: set[bytes] = set()
        self.given_up = 0
        self.wires = Wire(), Wire()
        self.client.connection_made(self.wires[0])

    @property
    def hub(self) -> Hub:
        return self._hub

    @property
    def server(self) -> Endpoint:
        return self._server

    async def _addresses(self) -> Sequence[Address]:
        if not self.is_there:
            raise Wrong("not known")
        return [("server", 1)]

    async def _dial(self, addresses: Sequence[Address]) -> Exception | None:
        await self.reached.wait()
        self._server.connection_made(self.wires[1])
        self.is_up.set()
        return None

    def _take_requests(self, data: bytes) -> None:
        for line in data.splitlines():
            if len(line) > 8:
                raise TooLong(line)
            self._server.write([line])
            self.owed.add(line)

    def _take_answers(self, data: bytes) -> None:
        if data not in self.owed:
            raise Wrong("an answer to nothing")
        self.owed.discard(data)

    @property
    def _begun_frame(self) -> int | None:
        return None

    @property
    def _is_busy(self) -> bool:
        return bool(self.owed)

    def _gave_up_draining(self) -> None:
        self.given_up += 1

    @property
    def to_server(self) -> list[bytes]:
        return self.wires[1].written

    def answer(self, data: bytes) -> None:
        self._server.data_received(data)

    async def connected(self) -> "Lines":
        self.reached.set()
        await self.is_up.wait()
        return self


def play(story: Callable[[Lines], Coroutine[Any, Any, None]], settings: Settings | None = None) -> Lines:
    """A client has connected, and no server is there yet."""

    async def run() -> Lines:
        relay = Lines(Hub(settings or Settings()))
        async with asyncio.timeout(WITHIN_S):
            await story(relay)
        relay.close()
        return relay

    return asyncio.run(run())


def test_what_comes_before_the_server_is_reached_goes_to_it_first_and_no_more_is_read_until_then() -> None:
    async def story(relay: Lines) -> None:
        relay.client.data_received(b"one\n")
        await asyncio.sleep(0)
        assert not relay.wires[0].is_read
        relay.client.data_received(b"two\n")
        assert relay.to_server == []
        await relay.connected()
        assert relay.wires[0].is_read
        relay.client.data_received(b"three\n")
        assert relay.to_server == [b"one", b"two", b"three"]

    play(story)


def test_a_client_that_goes_before_the_server_is_reached_leaves_what_it_sent() -> None:
    async def silent(relay: Lines) -> None:
        relay.client.connection_lost(None)
        assert relay.over.is_set()

    async def sent(relay: Lines) -> None:
        relay.client.data_received(b"one\n")
        relay.client.connection_lost(None)
        await relay.connected()
        assert (relay.to_server, relay.over.is_set()) == ([b"one"], False)
        relay.answer(b"one")
        assert relay.over.is_set()

    play(silent)
    play(sent)


def test_the_last_requests_of_a_client_that_has_gone_have_their_time_and_no_more() -> None:
    async def story(relay: Lines) -> None:
        await relay.connected()
        relay.client.data_received(b"one\n")
        relay.client.connection_lost(None)
        await relay.over.wait()

    assert play(story, Settings(drain_max_s=0.001)).given_up == 1


def test_behind_a_frame_that_is_too_large_nothing_is_read_and_what_was_before_is_carried_out() -> None:
    async def story(relay: Lines) -> None:
        await relay.connected()
        relay.client.data_received(b"one\nmuch too long\n")
        relay.client.data_received(b"two\n")
        assert relay.to_server == [b"one"]
        assert not relay.over.is_set()
        relay.answer(b"one")
        assert relay.over.is_set()

    assert play(story).hub.metrics.limit("frame_bytes_max") == 1


def test_what_is_wrong_with_the_server_or_with_work_beside_ends_the_connection() -> None:
    async def answered(relay: Lines) -> None:
        (await relay.connected()).answer(b"what")
        assert relay.over.is_set()

    async def unknown(relay: Lines) -> None:
        relay.is_there = False
        await relay.over.wait()

    async def worked(relay: Lines) -> None:
        async def fail() -> None:
            raise Wrong("beside")

        (await relay.connected()).run(fail())
        await relay.over.wait()

    for story in (answered, unknown, worked):
        assert play(story).hub.metrics.registry.get_sample_value("connections") == 0


def test_a_bug_ends_the_connection_and_is_reported_to_the_event_loop() -> None:
    reported: list[Any] = []

    async def story(relay: Lines) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

        async def fail() -> None:
            raise KeyError("bug")

        relay.run(fail())
        await relay.over.wait()

    play(story)
    assert [type(one) for one in reported] == [KeyError]


def test_a_side_that_does_not_read_holds_the_other() -> None:
    async def story(relay: Lines) -> None:
        await relay.connected()
        relay.server.pause_writing()
        relay.client.pause_writing()
        assert [wire.is_read for wire in relay.wires] == [False, False]
        relay.server.resume_writing()
        relay.client.resume_writing()
        assert [wire.is_read for wire in relay.wires] == [True, True]

    play(story)
