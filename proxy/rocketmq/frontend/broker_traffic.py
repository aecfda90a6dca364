"""On a connection to a broker: sends to topics that take delays, recalls, and questions about transactions. All else
passes."""

from typing import TYPE_CHECKING

from proxy.rocketmq.recall import Wanted, wanted_of
from proxy.rocketmq.sends.answers import refused
from proxy.rocketmq.sends.request import SENDS, RemotingRefusal, Send, SendHead, head_of, read_send
from proxy.rocketmq.sends.sender import Paid, Sends
from proxy.rocketmq.sends.topics import TopicKind
from proxy.rocketmq.view.checks import as_its_producer_knows, may_be_check
from proxy.screening import Sample
from rocketmq.errors import Malformed
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, answer_to, decode_frame, peek
from rocketmq.wire.headers.send import RecallMessageAnswer
from rocketmq.wire.properties import DEFAULT_REGION, MSG_REGION, decode_properties

if TYPE_CHECKING:
    from proxy.rocketmq.frontend.relay import FrameRelay
    from proxy.rocketmq.hub import RocketmqHub

RECALLS_MAX = 64
"""Under way on a connection, before no more is read."""

OURS = RemotingRefusal(Answer.NO_PERMISSION, "a topic of Delayline's own")


class BrokerTraffic:
    """Of one connection to the broker of this name."""

    def __init__(self, hub: "RocketmqHub", relay: "FrameRelay", broker: str) -> None:
        self._hub = hub
        self._relay = relay
        self._broker = broker
        self._sends = Sends(hub, relay, broker)
        self._recalls = 0
        self._sample = Sample()
        self._is_send = False  # what is being gathered

    @property
    def is_busy(self) -> bool:
        """Whether something that was read waits to be carried out."""
        return self._sends.is_busy or bool(self._recalls)

    # --- requests

    def wants_request(self, head: memoryview) -> bool:
        """Hot: once for each frame."""
        found = peek(head)
        if found.is_answer:
            return False
        self._is_send = found.code in SENDS
        if not self._is_send:
            return found.code == Request.RECALL_MESSAGE
        send = head_of(found, head)
        return send is not None and self._wants(send)

    def _wants(self, send: SendHead) -> bool:
        topic, screen = send.topic, self._hub.screen
        match self._hub.kind_of(topic):
            case TopicKind.DELAYED:
                return send.is_batch or screen.concerns(topic, send.properties)
            case TopicKind.RELAYED:
                return False
            case TopicKind.HIDDEN:
                return True
        if screen.refuse_unknown:
            return send.is_batch or screen.pass_by(topic, decode_properties(send.properties)) is not None
        if not send.is_batch and self._sample.has(topic):
            screen.pass_by(topic, decode_properties(send.properties))
        return False

    def request(self, payload: memoryview, paid: Paid) -> None:
        """One that is wanted, whole. Raises WireError."""
        command = decode_frame(payload)
        if not self._is_send:
            self._recall(command, payload, paid)
        elif (send := read_send(command)) is None or not self._taken(send, paid):
            self._pass_on(payload, paid)

    def _taken(self, send: Send, paid: Paid) -> bool:
        if self._hub.kind_of(send.topic) is TopicKind.DELAYED:
            return self._sends.take(send, paid)
        refusal = self._refusal(send)
        if refusal is not None:
            self._sends.refuse(send, refusal, paid)
        return refusal is not None

    def flush(self) -> None:
        """All that was read in one go has been dealt with."""
        self._sends.flush()

    def _pass_on(self, payload: memoryview, paid: Paid) -> None:
        self._relay.pass_on(payload)
        self._relay.release(paid)

    def _refusal(self, send: Send) -> RemotingRefusal | None:
        """Of one to a topic that takes no delays."""
        if self._hub.kind_of(send.topic) is TopicKind.HIDDEN:
            return OURS
        try:
            members = send.members() if send.is_batch else ()
        except Malformed:
            return None  # it is the broker's to refuse
        for properties in (send.properties(), *(member.properties_map() for member in members)):
            if (refusal := self._hub.screen.pass_by(send.topic, properties)) is not None:
                return refusal
        return None

    # --- recalls

    def _recall(self, request: Command, payload: memoryview, paid: Paid) -> None:
        wanted = wanted_of(request, self._broker)
        if wanted is None:
            self._pass_on(payload, paid)
            return
        self._relay.release(paid)
        if isinstance(wanted, Wanted):
            wanted = self._hub.accounts.refusal(request, wanted.shard.topic) or wanted
        if isinstance(wanted, RemotingRefusal):
            self._recalled(request, wanted)
        else:
            self._recalls += 1
            self._relay.under_way(self._recalls >= RECALLS_MAX)
            self._relay.run(self._carry_out(request, wanted))

    async def _carry_out(self, request: Command, wanted: Wanted) -> None:
        try:
            outcome = await self._hub.recalls.recall(wanted)
        finally:
            self._recalls -= 1
        self._relay.under_way(self._recalls >= RECALLS_MAX)
        self._recalled(request, outcome, wanted.unique_key)

    def _recalled(self, request: Command, refusal: RemotingRefusal | None, unique_key: str = "") -> None:
        code = int(Answer.SUCCESS if refusal is None else refusal.code)
        self._hub.metrics.recalls.labels(code).inc()
        if request.is_one_way:
            return
        answer = refused(request, refusal) if refusal is not None else _recall_answer(request, unique_key)
        answer.fields = {**answer.fields, MSG_REGION: DEFAULT_REGION}
        self._relay.to_client(answer)

    # --- answers

    def wants_answer(self, head: memoryview) -> bool:
        """Hot: once for each frame."""
        if not self._sends.awaits_any and not may_be_check(head):
            return False
        found = peek(head)
        if found.is_answer:
            return self._sends.awaits(found.opaque)
        return found.code == Request.CHECK_TRANSACTION_STATE

    def answer(self, payload: memoryview) -> None:
        """Or a question. Raises WireError."""
        command = decode_frame(payload)
        if command.is_answer:
            self._sends.answered(command)
        elif (check := as_its_producer_knows(command, self._hub.topic_of)) is not None:
            self._relay.to_client(check)
        else:
            self._relay.pass_back(payload)


def _recall_answer(request: Command, unique_key: str) -> Command:
    return answer_to(request, Answer.SUCCESS, RecallMessageAnswer(unique_key).to_fields())
