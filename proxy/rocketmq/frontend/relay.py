"""One client's connection, and its own to the server that its port stands for: a name server, or a broker.

One for one, so that nothing has to be renumbered: an answer has the number of its request, and what a broker asks of
a client comes to that client, whose answer goes back. Frames pass as they come, in both directions and in any order,
and what one side does not read the other is not asked for. What is looked at is the `traffic`'s to decide.

Where the server ends, both do; so they do where the client does, when what was read from it has been carried out.
`drain_max_s` bounds that.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from delayline.process import logs
from proxy.endpoint import Buffer, Endpoint
from proxy.held import HeldBytes
from proxy.limits import SMALL_BYTES, Deadlines
from proxy.rocketmq.sends.sender import Paid
from rocketmq.errors import FrameTooLarge, RocketmqError, Unreachable, WireError
from rocketmq.wire.command import Command, encode_frame
from rocketmq.wire.passing import Passing, PassingSplitter

if TYPE_CHECKING:
    from proxy.rocketmq.hub import Address, RocketmqHub

QUIET_S = 0.3
"""With no answer for so long, a proxy that stops takes a client's requests as answered: others are pulls that
wait."""

SERVER_NOT_READING = "the server does not read"
NOT_READING = "the client does not read"

log = logs.get(__name__)


class Traffic(Protocol):
    """What is looked at on a connection. All may raise WireError, which ends it."""

    @property
    def is_busy(self) -> bool:
        """Whether something that was read waits to be carried out."""

    def wants_request(self, head: memoryview) -> bool:
        """Whether a client's frame, of which this is all up to the end of its header, is wanted whole."""

    def request(self, payload: memoryview, paid: Paid) -> None:
        """`FrameRelay.release` is to be called when nothing is held of it any more."""

    def flush(self) -> None:
        """All that was read of the client in one go has been handed over."""

    def wants_answer(self, head: memoryview) -> bool:
        """The same of a server's."""

    def answer(self, payload: memoryview) -> None: ...


class FrameRelay:
    """Made for each client that connects. `target` names the server for people; `find` gives the addresses to try.
    `began` and then `ended` are called once."""

    def __init__(
        self,
        hub: "RocketmqHub",
        target: str,
        find: "Callable[[], Sequence[Address]]",
        traffic: "Callable[[FrameRelay], Traffic]",
        began: "Callable[[FrameRelay], None]",
        ended: "Callable[[FrameRelay], None]",
    ) -> None:
        self._hub = hub
        self.target = target
        self._find = find
        self._began = began
        self._ended = ended
        self.client = Endpoint(
            self._client_made, self._from_client, self._client_lost, self._client_full, self._begin_to_drain
        )
        self._server = Endpoint(self._server_made, self._from_server, self.close, self._server_full)
        self._traffic = traffic(self)
        bytes_max = hub.settings.frame_bytes_max
        self._requests = PassingSplitter(self._wants_request, bytes_max)
        self._answers = PassingSplitter(lambda head, _: self._traffic.wants_answer(head), bytes_max)
        self._deadlines = Deadlines(hub.settings.limits)
        self._held = HeldBytes(hub.budget, self.client, hub.metrics.limited)
        self._paid: deque[Paid] = deque()  # of frames that are gathered, in order
        self._early: list[bytes] = []  # read before the server's side was up
        self.address = ""
        self._is_ready = False
        self._is_closed = False
        self._is_ending = False  # what has been read is carried out, and nothing new is
        self._is_refusing = False  # and nothing more is read
        self._has_heard = False  # from the server, since the last look
        self._draining: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- beginning and end

    def _client_made(self) -> None:
        self._hub.metrics.connections.inc()
        self._began(self)
        if not self._is_closed:
            asyncio.get_running_loop().call_soon(self._hold_while_connecting)  # uvloop begins to read after this call
            self.run(self._connect())

    def _hold_while_connecting(self) -> None:
        if not self._is_ready:
            self.client.hold("connecting")

    async def _connect(self) -> None:
        trouble: RocketmqError | OSError | TimeoutError = Unreachable("it is not known")
        try:
            addresses = self._find()
        except RocketmqError as error:
            addresses, trouble = (), error
        for address in addresses:
            try:
                await self._hub.dial(address, self._server)
            except (OSError, TimeoutError) as error:
                trouble = error
            else:
                return
        self.close(f"cannot be reached: {str(trouble) or 'no answer'}")

    def _server_made(self) -> None:
        if self._is_closed:
            self._server.close()
            return
        self._is_ready = True
        early, self._early = b"".join(self._early), []
        if early:
            self._from_client(early)
        self.client.release("connecting")

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """In the background, for as long as the connection lasts. Failing, it ends the connection."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, WireError):
            self.close(str(error))
        elif error is not None:
            self.close("an error of the proxy")
            raise error  # to the event loop, which logs it
        self._end_if_idle()

    def stop(self) -> None:
        """End when the server has been silent for a moment: the requests before that have their answers."""
        self.client.hold("stopping")
        self._has_heard = True  # what has just been read may not be answered yet
        self._stop_if_quiet()

    def _stop_if_quiet(self) -> None:
        if self._is_closed:
            return
        if not self._has_heard and not self._traffic.is_busy:
            self.close()
            return
        self._has_heard = False
        asyncio.get_running_loop().call_later(QUIET_S, self._stop_if_quiet)

    def _client_lost(self) -> None:
        self._server.release(NOT_READING)  # nor will it: what comes for it is dropped
        self._begin_to_drain()

    def _begin_to_drain(self) -> None:
        """The client sends no more."""
        if self._is_closed:
            return
        self._is_ending = True
        if self._draining is None:
            wait_s = self._hub.settings.drain_max_s
            self._draining = asyncio.get_running_loop().call_later(
                wait_s, self.close, "its last requests took too long"
            )
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_ending and self._is_ready and not self._early and not self._traffic.is_busy:
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
        self._held.close()
        self._early.clear()
        self.client.close()
        self._server.close(self._hub.settings.drain_max_s)
        self._hub.metrics.connections.dec()
        self._ended(self)

    def _client_full(self, is_full: bool) -> None:
        (self._server.hold if is_full else self._server.release)(NOT_READING)

    def _server_full(self, is_full: bool) -> None:
        (self.client.hold if is_full else self.client.release)(SERVER_NOT_READING)

    def check_deadlines(self, now_s: float) -> None:
        """To be called from time to time."""
        if self._is_closed or not self._is_ready or self._draining is not None:
            return
        frame = self._requests.begun if self._requests.unfinished else None
        excused = self.client.is_held or (frame is None and self._traffic.is_busy)
        passed = self._deadlines.overdue(now_s, frame, excused=excused)
        if passed is not None:
            self._hub.metrics.limited.labels(passed).inc()
            self.close(f"proxy.rocketmq.{passed} has passed")

    # --- requests

    def _from_client(self, data: bytes) -> None:
        if self._is_closed or self._is_refusing:
            return
        if not self._is_ready:
            self._early.append(data)
            return
        self._hub.metrics.from_clients.inc(len(data))
        self._deadlines.heard = True
        try:
            for one in self._requests.feed(data):
                if isinstance(one, Passing):
                    self._server.write([one.data])
                else:
                    self._traffic.request(one.payload, self._paid.popleft())
            self._traffic.flush()
        except WireError as error:
            self._traffic.flush()
            self._refuse_more(error)

    def _refuse_more(self, error: WireError) -> None:
        """What was read before is carried out."""
        if isinstance(error, FrameTooLarge):
            self._hub.metrics.limited.labels("frame_bytes_max").inc()
        log.warning("connection ends", client=self.client.peer, target=self.target, reason=str(error))
        self._is_refusing = True
        self.client.hold("ending")
        self._begin_to_drain()

    def _wants_request(self, head: memoryview, length: int) -> bool:
        wanted = self._traffic.wants_request(head)
        if wanted:
            self._paid.append(paid := Paid())
            if length > SMALL_BYTES:
                self._held.pay(paid, length)
        return wanted

    # --- answers

    def _from_server(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._hub.metrics.from_servers.inc(len(data))
        self._has_heard = True
        try:
            for one in self._answers.feed(data):
                if isinstance(one, Passing):
                    self.client.write([one.data])
                else:
                    self._traffic.answer(one.payload)
        except WireError as error:
            self.close(f"the server's answer: {error}")
        self._end_if_idle()

    # --- what the traffic needs

    def pass_on(self, payload: memoryview) -> None:
        """A client's frame, as it came."""
        self._server.write(_as_it_came(payload))

    def pass_back(self, payload: memoryview) -> None:
        """A server's frame, as it came."""
        self.client.write(_as_it_came(payload))

    def to_server(self, command: Command) -> None:
        self._server.write(encode_frame(command))

    def to_client(self, *commands: Command) -> None:
        """All at once."""
        self.client.write([part for command in commands for part in encode_frame(command)])

    def release(self, paid: Paid) -> None:
        self._held.release(paid)

    def under_way(self, is_full: bool) -> None:
        (self.client.hold if is_full else self.client.release)("requests before it")


def _as_it_came(payload: memoryview) -> list[Buffer]:
    """The frame again, with its length."""
    return [len(payload).to_bytes(4, "big"), payload]
