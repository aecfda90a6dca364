"""Sends of one connection, from the client's request to its answer.

    a send ──▶ not delayed ─────────────────────────────▶ to the broker, as it came
           ──▶ refused ─────────────────────────────────▶ to the client
           ──▶ split ──▶ its topic has no buffer yet ──▶ made ready, in a thread
                     └──▶ to the buffer ──▶ answered ──▶ to the client
                                                   └──▶ the rest to the topic, whose answer goes to the client

The delayed members of a batch are stored first. Where that fails nothing is stored, and the client gets the broker's
refusal; where the rest is refused afterwards the client gets that, and what is delayed stays.
"""

from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from proxy.limits import Grant
from proxy.rocketmq.sends.answers import buffered_answer, refused
from proxy.rocketmq.sends.request import RemotingRefusal, Send
from proxy.rocketmq.sends.split import Buffered, SendParts
from rocketmq.errors import Malformed
from rocketmq.wire.codes import STORED, Answer
from rocketmq.wire.command import Command

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from proxy.rocketmq.hub import RocketmqHub

ANSWERS_MAX = 4096
"""Sends of a connection whose answers are awaited, before no more is read. Of each little is kept."""
WAITING_MAX = 64
"""Those that wait for a buffer, with all that is to be stored."""

_OWN_OPAQUES_FROM = -(1 << 31)
"""Numbers of requests that no client has sent: theirs count up from 0."""

_MISSING = frozenset({Answer.TOPIC_NOT_EXIST, Answer.INVALID_PARAMETER})


class Paid:
    """A request's part of the budget for what is held (`proxy.held.Payable`)."""

    __slots__ = ("grant",)

    def __init__(self) -> None:
        self.grant: Grant | None = None


class Link(Protocol):
    """The connection."""

    def to_server(self, command: Command) -> None: ...

    def to_client(self, command: Command) -> None: ...

    def run(self, work: "Coroutine[Any, Any, None]") -> None:
        """In the background, for as long as the connection lasts."""

    def release(self, paid: Paid) -> None:
        """Nothing is held of the request any more."""

    def under_way(self, is_full: bool) -> None:
        """Whether no more requests are to be read; called whenever that may have changed."""


class _UnderWay(NamedTuple):
    """`opaque` is the client's, `plain` what is to be sent to the topic when the buffer has its part."""

    opaque: int
    buffered: Buffered
    plain: Command | None
    paid: Paid


class Sends:
    """Of one connection to `broker`."""

    def __init__(self, hub: "RocketmqHub", link: Link, broker: str) -> None:
        self._hub = hub
        self._link = link
        self._broker = broker
        self._answers: dict[int, _UnderWay] = {}  # by the opaque of what went to the broker
        self._waiting = 0
        self._own_opaques = count(_OWN_OPAQUES_FROM)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited, or a buffer."""
        return bool(self._answers or self._waiting)

    def awaits(self, opaque: int) -> bool:
        """Whether the answer of this number is ours to read."""
        return opaque in self._answers

    @property
    def awaits_any(self) -> bool:
        return bool(self._answers)

    def take(self, send: Send, paid: Paid) -> bool:
        """Whether it is dealt with, and `paid` released in time; false: it goes to the broker as it came. Raises
        Malformed."""
        found = self._split(send)
        if found is None:
            return False
        if isinstance(found, RemotingRefusal):
            self.refuse(send, found, paid)
        elif self._hub.buffers.is_known(send.topic):
            self._to_buffer(send, found, paid)
        else:
            self._waiting += 1
            self._link.under_way(self._is_full)
            self._link.run(self._made_ready(send, found, paid))
        return True

    def _split(self, send: Send) -> SendParts | RemotingRefusal | None:
        hub = self._hub
        found = hub.splitter.split(send, hub.clock.now_ms())
        if not isinstance(found, SendParts):
            return found
        if hub.settings.demands_accounts:
            return RemotingRefusal(Answer.NO_PERMISSION, NOT_SIGNED)
        full = hub.full(send.topic, adds=found.buffered.adds, repeats=found.repeats)
        return (
            found
            if full is None
            else RemotingRefusal(Answer.SYSTEM_ERROR, f"timer message is under flow control: {full}")
        )

    def refuse(self, send: Send, refusal: RemotingRefusal, paid: Paid) -> None:
        """A sender that takes no answers gets none."""
        self._hub.metrics.refused_sends.labels(int(refusal.code)).inc()
        if not send.command.is_one_way:
            self._link.to_client(refused(send.command, refusal))
        self._link.release(paid)

    async def _made_ready(self, send: Send, parts: SendParts, paid: Paid) -> None:
        try:
            await self._hub.buffers.learn(send.topic)
        finally:
            self._waiting -= 1
        self._to_buffer(send, parts, paid)
        self._link.under_way(self._is_full)

    def _to_buffer(self, send: Send, parts: SendParts, paid: Paid) -> None:
        """Raises Malformed."""
        if (unready := self._hub.buffers.unready(send.topic)) is not None:
            self.refuse(send, unready, paid)
            return
        request, plain = parts.delayed, parts.plain
        if plain is not None:
            request.opaque = next(self._own_opaques)
        if not request.is_one_way:
            self._expect(request.opaque, _UnderWay(send.command.opaque, parts.buffered, plain, paid))
        self._link.to_server(request)
        if request.is_one_way and plain is not None:
            self._link.to_server(plain)
        if request.is_one_way or plain is None:
            self._link.release(paid)

    def _expect(self, opaque: int, one: _UnderWay) -> None:
        if opaque in self._answers:
            raise Malformed(f"request {opaque} is under way already")
        self._answers[opaque] = one
        self._link.under_way(self._is_full)

    @property
    def _is_full(self) -> bool:
        return len(self._answers) >= ANSWERS_MAX or self._waiting >= WAITING_MAX

    def answered(self, answer: Command) -> None:
        """The broker's answer to one that it `awaits`."""
        opaque, sent, plain, paid = self._answers.pop(answer.opaque)
        if answer.code in STORED:
            self._hub.metrics.accepted.labels(sent.topic, "rocketmq").inc(sent.adds)
        elif answer.code in _MISSING:
            self._hub.buffers.forget(sent.topic)
        if answer.code in STORED and plain is not None:
            self._link.to_server(plain)
        else:
            answer.opaque = opaque
            self._link.to_client(buffered_answer(sent, answer, self._broker, self._hub.buffer_of(sent.topic)))
        self._link.release(paid)
        self._link.under_way(self._is_full)


NOT_SIGNED = (
    "delayed messages are not taken where brokers have access control (mq.properties has access_key): the proxy "
    "cannot check the client's rights yet; send it over HTTP"
)
