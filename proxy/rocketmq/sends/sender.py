"""Sends of one connection, from the client's request to its answer.

    a send ──▶ not delayed ─────────────────────────────▶ to the broker, as it came
           ──▶ refused ─────────────────────────────────▶ to the client
           ──▶ split ──▶ its topic has no buffer yet ──▶ made ready, in a thread
                     └──▶ to the buffer ──▶ answered ──▶ to the client
                                                   └──▶ the rest to the topic, whose answer goes to the client

A half message is answered as the broker does it: its client needs the place of the half to commit it. What it goes on
to the buffer as is not accepted before that, nor has it a place there: it is not counted, and has no recall handle.

What was read in one go for a queue is one request to its buffer, so that a client that does not wait for answers
costs the broker fewer requests. Where the broker refuses one for what is in it, each send goes by itself.

The delayed members of a batch are stored first. Where that fails nothing is stored, and the client gets the broker's
refusal; where the rest is refused afterwards the client gets that, and what is delayed stays.
"""

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from proxy.limits import Grant
from proxy.rocketmq.sends.answers import place_in, readdressed, refused
from proxy.rocketmq.sends.request import RemotingRefusal, Send
from proxy.rocketmq.sends.split import SendParts
from rocketmq.errors import InvalidRequest
from rocketmq.wire.codes import STORED, Answer
from rocketmq.wire.command import Command
from rocketmq.wire.headers.send import SendMessageAnswer

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from proxy.rocketmq.hub import RocketmqHub

ANSWERS_MAX = 4096
"""Sends of a connection whose answers are awaited, before no more is read."""
WAITING_MAX = 64
"""Those that wait for a buffer."""

TOGETHER_MAX = 1000
TOGETHER_BYTES_MAX = 1 << 20
"""Of one request with several sends."""

_OWN_OPAQUES_FROM = -(1 << 31)
"""Numbers of requests to the buffer: those of clients count up from 0."""

_MISSING = frozenset({Answer.TOPIC_NOT_EXIST, Answer.INVALID_PARAMETER})


class Paid:
    """A request's part of the budget for what is held (`proxy.held.Payable`)."""

    __slots__ = ("grant",)

    def __init__(self) -> None:
        self.grant: Grant | None = None


class Link(Protocol):
    """The connection."""

    def to_server(self, command: Command) -> None: ...

    def to_client(self, *commands: Command) -> None: ...

    def run(self, work: "Coroutine[Any, Any, None]") -> None:
        """In the background, for as long as the connection lasts."""

    def release(self, paid: Paid) -> None:
        """Nothing is held of the request any more."""

    def under_way(self, is_full: bool) -> None:
        """Whether no more requests are to be read; called whenever that may have changed."""


class _Sender(NamedTuple):
    """A send on its way to the buffer. Its messages are in `parts` alone."""

    send: Send
    parts: SendParts
    paid: Paid

    @property
    def opaque(self) -> int:
        return self.send.command.opaque


class Sends:
    """Of one connection to `broker`."""

    def __init__(self, hub: "RocketmqHub", link: Link, broker: str) -> None:
        self._hub = hub
        self._link = link
        self._broker = broker
        self._together: dict[tuple[str, str, bool], list[_Sender]] = {}  # by topic, queue, and whether it is one-way
        self._together_count = self._together_bytes = 0
        self._answers: dict[int, Sequence[_Sender]] = {}  # by the opaque of what went to the broker
        self._awaited = 0
        self._waiting = 0
        self._own_opaques = count(_OWN_OPAQUES_FROM)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited, or a buffer."""
        return bool(self._answers or self._waiting)

    @property
    def awaits_any(self) -> bool:
        return bool(self._answers)

    def awaits(self, opaque: int) -> bool:
        """Whether the answer of this number is ours to read."""
        return opaque in self._answers

    def take(self, send: Send, paid: Paid) -> bool:
        """Whether it is dealt with, and `paid` released in time; false: it goes to the broker as it came. `flush` is
        to be called when no more is there to be taken."""
        found = self._split(send)
        if found is None:
            return False
        if isinstance(found, RemotingRefusal):
            self.refuse(send, found, paid)
            return True
        send.command.body = b""
        if self._hub.buffers.is_known(send.topic):
            self._gather(_Sender(send, found, paid))
        else:
            self._waiting += 1
            self._link.under_way(self._is_full)
            self._link.run(self._made_ready(_Sender(send, found, paid)))
        return True

    def _split(self, send: Send) -> SendParts | RemotingRefusal | None:
        hub = self._hub
        found = hub.splitter.split(send, hub.clock.now_ms())
        if found is not None and (forbidden := hub.accounts.refusal(send.command, send.topic)) is not None:
            return forbidden
        if not isinstance(found, SendParts):
            return found
        for group in found.groups:
            # A worker writes there, with rights of its own.
            if (forbidden := hub.accounts.refusal(send.command, hub.retry_of(group))) is not None:
                return forbidden
        full = hub.full(send.topic, adds=found.buffered.adds, repeats=found.repeats)
        if full is not None:
            return RemotingRefusal(Answer.SYSTEM_ERROR, f"timer message is under flow control: {full}")
        return found

    def refuse(self, send: Send, refusal: RemotingRefusal, paid: Paid) -> None:
        """A sender that takes no answers gets none."""
        self._hub.metrics.refused_sends.labels(int(refusal.code)).inc()
        if not send.command.is_one_way:
            self._link.to_client(refused(send.command, refusal))
        self._link.release(paid)

    async def _made_ready(self, one: _Sender) -> None:
        try:
            await self._hub.buffers.learn(one.send.topic)
        finally:
            self._waiting -= 1
        self._to_buffer([one])
        self._link.under_way(self._is_full)

    # --- to the buffer

    def _gather(self, one: _Sender) -> None:
        """One that goes by itself does so behind those before it."""
        if one.parts.goes_alone:
            self.flush()
            self._to_buffer([one])
            return
        send = one.send
        self._together.setdefault((send.topic, send.queue_id, send.command.is_one_way), []).append(one)
        self._together_count += one.parts.buffered.messages
        self._together_bytes += sum(len(member.body) + len(member.properties) for member in one.parts.members)
        if self._together_count >= TOGETHER_MAX or self._together_bytes >= TOGETHER_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """What was gathered goes to the broker."""
        if not self._together:
            return
        together, self._together = self._together, {}
        self._together_count = self._together_bytes = 0
        for senders in together.values():
            self._to_buffer(senders)
        self._link.under_way(self._is_full)

    def _to_buffer(self, senders: Sequence[_Sender]) -> None:
        """Of one topic and queue, one-way or not, all of them."""
        first = senders[0].send
        unready = self._hub.buffers.unready(first.topic)
        if unready is not None:
            self._refuse_all(senders, unready)
            return
        try:
            request = self._request(senders)
        except InvalidRequest as error:
            self._refuse_all(senders, RemotingRefusal(Answer.MESSAGE_ILLEGAL, str(error)))
            return
        request.opaque = next(self._own_opaques)
        self._to_server(request)
        if not request.is_one_way:
            self._answers[request.opaque] = senders
            self._awaited += len(senders)
            return
        for sender in senders:
            if sender.parts.plain is not None:
                self._to_server(sender.parts.plain)
            self._link.release(sender.paid)

    def _to_server(self, request: Command) -> None:
        """One that is not as its client has sent it."""
        self._link.to_server(self._hub.accounts.signed(request))

    def _request(self, senders: Sequence[_Sender]) -> Command:
        """Raises InvalidRequest."""
        first = senders[0]
        members = [one for sender in senders for one in sender.parts.members]
        return first.parts.half or self._hub.splitter.request(first.send, members)

    def _refuse_all(self, senders: Sequence[_Sender], refusal: RemotingRefusal) -> None:
        for sender in senders:
            self.refuse(sender.send, refusal, sender.paid)

    @property
    def _is_full(self) -> bool:
        return self._awaited >= ANSWERS_MAX or self._waiting >= WAITING_MAX

    # --- answers

    def answered(self, answer: Command) -> None:
        """The broker's answer to one that it `awaits`. Raises Malformed."""
        senders = self._answers.pop(answer.opaque)
        self._awaited -= len(senders)
        if answer.code == Answer.MESSAGE_ILLEGAL and len(senders) > 1:
            for sender in senders:
                self._to_buffer([sender])
        elif answer.code in STORED:
            self._stored(senders, answer)
        else:
            self._refused(senders, answer)
        self._link.under_way(self._is_full)

    def _stored(self, senders: Sequence[_Sender], answer: Command) -> None:
        """Raises Malformed."""
        stored, place = SendMessageAnswer.from_fields(answer.fields), 0
        self._hub.metrics.accepted.labels(senders[0].send.topic, "rocketmq").inc(
            sum(sender.parts.buffered.adds for sender in senders if sender.parts.half is None)
        )
        answers = []
        for sender in senders:
            buffered, plain = sender.parts.buffered, sender.parts.plain
            if plain is not None:
                self._to_server(plain)
            else:
                fields = {**answer.fields, **place_in(stored, place, buffered, self._broker)}
                answers.append(readdressed(answer, sender.opaque, fields=fields))
            place += buffered.messages
            self._link.release(sender.paid)
        if answers:
            self._link.to_client(*answers)

    def _refused(self, senders: Sequence[_Sender], answer: Command) -> None:
        topic = senders[0].send.topic
        if answer.code in _MISSING:
            self._hub.buffers.forget(topic)
        remark = answer.remark.replace(self._hub.buffer_of(topic), topic)
        for sender in senders:
            self._link.to_client(readdressed(answer, sender.opaque, remark=remark))
            self._link.release(sender.paid)
