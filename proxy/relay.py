"""One client's connection, and the proxy's own to the server that its port stands for, whatever both speak.

What one side does not read, the other is not asked for. Where the server ends, both do; so they do where the client
does, when what was read from it has been carried out. `drain_max_s` bounds that.
"""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from prometheus_client import Counter, Gauge

from delayline.process import logs
from proxy.endpoint import Endpoint
from proxy.held import HeldBytes, Payable
from proxy.limits import Budget, Deadlines, Limits

Address = tuple[str, int]

SERVER_NOT_READING = "the server does not read"
NOT_READING = "the client does not read"
CONNECTING = "connecting"
ENDING = "ending"
BEFORE_IT = "requests before it"

log = logs.get(__name__)


class RelaySettings(Protocol):
    """`drain_max_s` is for the last requests of a client that has gone."""

    @property
    def limits(self) -> Limits: ...

    @property
    def connect_timeout_s(self) -> float: ...

    @property
    def drain_max_s(self) -> float: ...


class RelayMetrics(Protocol):
    connections: Gauge
    limited: Counter
    from_clients: Counter
    from_servers: Counter


class RelayHub(Protocol):
    """What all connections of a proxy share."""

    @property
    def settings(self) -> RelaySettings: ...

    @property
    def metrics(self) -> RelayMetrics: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def relayed_tls(self) -> ssl.SSLContext | None:
        """Of clients' connections to servers."""


H = TypeVar("H", bound=RelayHub)


class Relay(ABC, Generic[H]):
    """Made for each client that connects. A protocol's own decides what is done with the bytes of each side, and
    which servers there are to connect to."""

    section: ClassVar[str]
    """Of the settings, for people."""
    peer_error: ClassVar[type[Exception]]
    """What is wrong with a peer, or with what it sent: it ends the connection."""
    too_large: ClassVar[type[Exception]]
    """Of these, a frame beyond `frame_limit`."""

    def __init__(self, hub: H, target: str, began: Callable[[Any], None], ended: Callable[[Any], None]) -> None:
        """`target` names the server for people. `began` and then `ended` are called once, with this relay."""
        self._hub = hub
        self.target = target
        self._began = began
        self._ended = ended
        self.client = Endpoint(
            self._client_made, self._from_client, self._client_lost, self._client_full, self._begin_to_drain
        )
        self._server = Endpoint(self._server_made, self._from_server, self.close, self._server_full)
        self._deadlines = Deadlines(hub.settings.limits)
        self._held = HeldBytes(hub.budget, self.client, hub.metrics.limited)
        self._early: list[bytes] = []  # read before the server's side was up
        self.address = ""  # of the client's machine, once it is counted
        self.frame_limit = "frame_bytes_max"
        self._is_ready = False
        self._is_closed = False
        self._is_ending = False  # what has been read is carried out, and nothing new is
        self._is_refusing = False  # and nothing more is read
        self._is_client_gone = False
        self._draining: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what a protocol is about

    @abstractmethod
    async def _addresses(self) -> Sequence[Address]:
        """Of the server, to be tried in this order. Raises the protocol's `peer_error`."""

    @abstractmethod
    def _take_requests(self, data: bytes) -> None:
        """Bytes of the client. Raises the protocol's `peer_error` for what cannot be read: what was read before it is
        carried out, and nothing behind it."""

    @abstractmethod
    def _take_answers(self, data: bytes) -> None:
        """Bytes of the server. Raises the protocol's `peer_error`, which ends the connection."""

    @property
    @abstractmethod
    def _begun_frame(self) -> int | None:
        """The number of the client's frame that is not complete; None where there is none."""

    @property
    @abstractmethod
    def _is_busy(self) -> bool:
        """Whether a request waits to be carried out, or for an answer that is known to come."""

    @property
    def _is_idle(self) -> bool:
        """Whether a connection that ends has nothing to wait for."""
        return not self._is_busy

    @property
    def _login_timeout_s(self) -> float | None:
        """For a client that has to log in, and has not."""
        return None

    def _gave_up_draining(self) -> None:
        """The last requests of a client that has gone are not carried out."""

    def _let_go(self) -> None:
        """The connection is closed: nothing that was read is of use any more."""

    # --- beginning

    def _client_made(self) -> None:
        self._hub.metrics.connections.inc()
        self._began(self)
        if not self._is_closed:
            asyncio.get_running_loop().call_soon(self._hold_while_connecting)  # uvloop begins to read after this call
            self.run(self._connect())

    def _hold_while_connecting(self) -> None:
        if not self._is_ready:
            self.client.hold(CONNECTING)

    async def _connect(self) -> None:
        try:
            trouble = await self._dial(await self._addresses())
        except self.peer_error as error:
            trouble = error
        if trouble is not None:
            self.close(f"cannot be reached: {str(trouble) or 'no answer'}")

    async def _dial(self, addresses: Sequence[Address]) -> Exception | None:
        """Connect to the first that can be reached. Why the last one could not, where none could."""
        trouble: Exception = ConnectionError("it is not known")
        for host, port in addresses:
            try:
                async with asyncio.timeout(self._hub.settings.connect_timeout_s):
                    await asyncio.get_running_loop().create_connection(
                        lambda: self._server, host, port, ssl=self._hub.relayed_tls
                    )
            except (OSError, TimeoutError) as error:
                trouble = error
            else:
                return None
        return trouble

    def _server_made(self) -> None:
        if self._is_closed:
            self._server.close()
            return
        self._is_ready = True
        early, self._early = b"".join(self._early), []
        if early:  # in one go: with a client that has gone, the connection ends when nothing is left to be done
            self._from_client(early)
        self.client.release(CONNECTING)

    # --- what is done meanwhile

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """In the background, for as long as the connection lasts. Failing, it ends the connection."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, self.peer_error):
            self.close(str(error))
        elif error is not None:
            self.close("an error of the proxy")
            raise error  # to the event loop, which logs it
        self._end_if_idle()

    def _client_full(self, is_full: bool) -> None:
        (self._server.hold if is_full else self._server.release)(NOT_READING)

    def _server_full(self, is_full: bool) -> None:
        (self.client.hold if is_full else self.client.release)(SERVER_NOT_READING)

    def under_way(self, is_full: bool) -> None:
        """Whether so much is under way that no more is read."""
        (self.client.hold if is_full else self.client.release)(BEFORE_IT)

    def release(self, one: Payable) -> None:
        """Nothing is held of its request any more."""
        self._held.release(one)

    def check_deadlines(self, now_s: float) -> None:
        """To be called from time to time."""
        if self._is_closed or not self._is_ready or self._draining is not None:
            return
        frame = self._begun_frame
        excused = self.client.is_held or (frame is None and self._is_busy)
        passed = self._deadlines.overdue(now_s, frame, excused=excused, login_timeout_s=self._login_timeout_s)
        if passed is not None:
            self._hub.metrics.limited.labels(passed).inc()
            self.close(f"{self.section}.{passed} has passed")

    # --- what comes

    def _from_client(self, data: bytes) -> None:
        if self._is_closed or self._is_refusing:
            return
        if not self._is_ready:
            self._early.append(data)
            return
        self._hub.metrics.from_clients.inc(len(data))
        self._deadlines.heard = True
        try:
            self._take_requests(data)
        except self.peer_error as error:
            if isinstance(error, self.too_large):
                self._hub.metrics.limited.labels(self.frame_limit).inc()
            self._read_no_more(str(error))

    def _from_server(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._hub.metrics.from_servers.inc(len(data))
        try:
            self._take_answers(data)
        except self.peer_error as error:
            self.close(f"the server's answer: {error}")
        self._end_if_idle()

    # --- end

    def _client_lost(self) -> None:
        self._is_client_gone = True
        self._server.release(NOT_READING)  # nor will it: what comes for it is dropped
        self._begin_to_drain()

    def _begin_to_drain(self) -> None:
        """The client sends no more. It may still read, unless it is gone."""
        if self._is_closed:
            return
        self._is_ending = True
        if self._draining is None:
            wait_s = self._hub.settings.drain_max_s
            self._draining = asyncio.get_running_loop().call_later(wait_s, self._give_up_draining)
        self._end_if_idle()

    def _give_up_draining(self) -> None:
        self._gave_up_draining()
        self.close("the client has gone, and its last requests took too long")

    def _read_no_more(self, reason: str) -> None:
        """What has been read is carried out."""
        if self._is_closed or self._is_refusing:
            return
        log.warning("connection ends", client=self.client.peer, target=self.target, reason=reason)
        self._is_refusing = True
        self.client.hold(ENDING)
        self._begin_to_drain()

    def _end_if_idle(self) -> None:
        if self._is_ending and not self._early and self._is_idle:
            self.close()

    def close(self, reason: str = "") -> None:
        """`reason` is logged where it is not just that a peer has gone."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._draining is not None:
            self._draining.cancel()
        if reason:
            log.warning("connection closed", client=self.client.peer, target=self.target, reason=reason)
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._let_go()
        self._held.close()
        self._early.clear()
        self.client.close()
        self._server.close(self._hub.settings.drain_max_s)
        self._hub.metrics.connections.dec()
        self._ended(self)
