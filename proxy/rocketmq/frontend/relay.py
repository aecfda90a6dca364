"""One client's connection, and its own to the server that its port stands for: a name server, or a broker.

One for one, so that nothing has to be renumbered: an answer has the number of its request, and what a broker asks of
a client comes to that client, whose answer goes back. Frames pass as they come, in both directions and in any order.
What is looked at is the `traffic`'s to decide.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from delayline.process import logs
from proxy.endpoint import as_it_came
from proxy.relay import Address, Relay
from proxy.rocketmq.frontend.outlet import Outlet
from proxy.rocketmq.sends.answers import unreadable
from proxy.rocketmq.sends.sender import Paid
from rocketmq.errors import FrameTooLarge, RocketmqError, UnreadableHeader
from rocketmq.wire.command import IS_ANSWER, IS_ONE_WAY, Command, encode_frame
from rocketmq.wire.passing import Passing, PassingSplitter

if TYPE_CHECKING:
    from proxy.rocketmq.hub import RocketmqHub

log = logs.get(__name__)

BEHIND_AN_ANSWER = "behind an answer"
QUIET_S = 0.3
"""With no answer for so long, a proxy that stops takes a client's requests as answered: others are pulls that
wait."""


class Traffic(Protocol):
    """What is looked at on a connection. All may raise WireError, which ends it."""

    @property
    def is_busy(self) -> bool:
        """Whether something that was read waits to be carried out."""

    def wants_request(self, head: memoryview) -> bool:
        """Whether a client's frame, of which this is all up to the end of its header, is wanted whole."""

    def request(self, payload: memoryview, paid: Paid) -> None:
        """One that is wanted, or cannot be read, whole. `FrameRelay.release` is to be called when nothing is held of
        it any more. Raises UnreadableHeader before anything is done."""

    def flush(self) -> None:
        """All that was read of the client in one go has been handed over."""

    def wants_answer(self, head: memoryview) -> bool:
        """The same of a server's."""

    def answer(self, payload: memoryview) -> None: ...


class FrameRelay(Relay["RocketmqHub"]):
    """`find` gives the server's addresses."""

    section = "proxy.rocketmq"
    peer_error = RocketmqError
    too_large = FrameTooLarge

    def __init__(
        self,
        hub: "RocketmqHub",
        target: str,
        find: Callable[[], Sequence[Address]],
        traffic: "Callable[[FrameRelay], Traffic]",
        began: "Callable[[FrameRelay], None]",
        ended: "Callable[[FrameRelay], None]",
    ) -> None:
        super().__init__(hub, target, began, ended)
        self._find = find
        self._traffic = traffic(self)
        bytes_max = hub.settings.frame_bytes_max
        self._requests = PassingSplitter(self._wants_request, bytes_max)
        self._answers = PassingSplitter(lambda head, _: self._traffic.wants_answer(head), bytes_max)
        self._to_server = Outlet(self._server, lambda _: None)  # bounded by what is under way, and paid for
        self._to_client = Outlet(self.client, self._behind_an_answer)
        self._paid: deque[Paid] = deque()  # of frames that are gathered, in order
        self._has_heard = False  # from the server, since the last look
        self._has_warned = False  # of requests that cannot be read

    async def _addresses(self) -> Sequence[Address]:
        return self._find()

    @property
    def _begun_frame(self) -> int | None:
        return self._requests.begun if self._requests.unfinished else None

    @property
    def _is_busy(self) -> bool:
        return self._traffic.is_busy

    @property
    def _is_idle(self) -> bool:
        return super()._is_idle and not self._to_client.waits

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

    # --- requests

    def _take_requests(self, data: bytes) -> None:
        try:
            for one in self._requests.feed(data):
                if isinstance(one, Passing):
                    if is_within := self._requests.is_within:
                        self._traffic.flush()  # or it would wait for the rest of this frame
                    self._to_server.pass_on(one.data, is_within=is_within)
                else:
                    self._request(one.payload, self._paid.popleft())
        finally:
            self._traffic.flush()

    def _request(self, payload: memoryview, paid: Paid) -> None:
        try:
            self._traffic.request(payload, paid)
        except UnreadableHeader as error:
            if error.flag & IS_ANSWER:
                raise
            self.release(paid)
            self._answer_unreadable(error)

    def _answer_unreadable(self, error: UnreadableHeader) -> None:
        """Its sender would wait for an answer; and the next frame is where it should be."""
        if not self._has_warned:
            log.warning("a request cannot be read", client=self.client.peer, target=self.target, reason=str(error))
        self._has_warned = True
        if not error.flag & IS_ONE_WAY:
            self.to_client(unreadable(error))

    def _wants_request(self, head: memoryview, length: int) -> bool:
        try:
            wanted = self._traffic.wants_request(head)
        except UnreadableHeader:
            wanted = True  # to be answered when it is there
        if wanted:
            self._paid.append(paid := Paid())
            self._held.pay(paid, length)
        return wanted

    # --- answers

    def _take_answers(self, data: bytes) -> None:
        self._has_heard = True
        for one in self._answers.feed(data):
            if isinstance(one, Passing):
                self._to_client.pass_on(one.data, is_within=self._answers.is_within)
            else:
                self._traffic.answer(one.payload)

    # --- what the traffic needs

    def pass_on(self, payload: memoryview) -> None:
        """A client's frame, as it came."""
        self._to_server.write(as_it_came(payload))

    def pass_back(self, payload: memoryview) -> None:
        """A server's frame, as it came."""
        self._to_client.write(as_it_came(payload))

    def to_server(self, command: Command) -> None:
        self._to_server.write(encode_frame(command))

    def to_client(self, *commands: Command) -> None:
        """All at once."""
        self._to_client.write([part for command in commands for part in encode_frame(command)])

    def _behind_an_answer(self, is_full: bool) -> None:
        """Whether so many answers of the proxy wait behind one of the server that no more is read."""
        (self.client.hold if is_full else self.client.release)(BEHIND_AN_ANSWER)
