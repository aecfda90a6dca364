"""On a connection to a name server: answers with brokers' addresses get ours. All else passes."""

from typing import TYPE_CHECKING

from proxy.rocketmq.sends.sender import Paid
from proxy.rocketmq.view.rewrite import REWRITTEN, Rewriting
from rocketmq.errors import Malformed
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, decode_frame, peek

if TYPE_CHECKING:
    from proxy.rocketmq.frontend.relay import FrameRelay
    from proxy.rocketmq.hub import RocketmqHub

ASKED_MAX = 4096
"""Of a connection, whose answers will be rewritten."""


class NameServerTraffic:
    """Of one connection."""

    def __init__(self, hub: "RocketmqHub", relay: "FrameRelay") -> None:
        self._brokers = hub.brokers
        self._relay = relay
        self._asked: dict[int, int] = {}  # codes of requests, by opaque
        self._admitting = 0

    @property
    def is_busy(self) -> bool:
        """Whether an answer is to be rewritten."""
        return bool(self._asked or self._admitting)

    def wants_request(self, head: memoryview) -> bool:
        """None of them; the code of each that names brokers in its answer is noted. Raises Malformed."""
        found = peek(head)
        if not found.is_answer and not found.is_one_way and found.code in REWRITTEN:
            if len(self._asked) >= ASKED_MAX or found.opaque in self._asked:
                raise Malformed(f"{len(self._asked)} questions about brokers are under way, one as {found.opaque}")
            self._asked[found.opaque] = found.code
        return False

    def request(self, payload: memoryview, paid: Paid) -> None:
        """None is wanted. Raises UnreadableHeader."""
        decode_frame(payload)
        raise AssertionError("it can be read")

    def flush(self) -> None:
        """Nothing is gathered."""

    def wants_answer(self, head: memoryview) -> bool:
        found = peek(head)
        return found.is_answer and found.opaque in self._asked

    def answer(self, payload: memoryview) -> None:
        """Raises WireError: an address that cannot be read must not reach the client."""
        answer = decode_frame(payload)
        code = self._asked.pop(answer.opaque)
        if answer.code != Answer.SUCCESS or not answer.body:
            self._relay.pass_back(payload)
            return
        rewriting = Rewriting(answer.body)
        if self._brokers.are_known(rewriting.addresses()):
            self._send(code, answer, rewriting)
        else:
            self._admitting += 1
            self._relay.run(self._admit(code, answer, rewriting))

    async def _admit(self, code: int, answer: Command, rewriting: Rewriting) -> None:
        """Clients may connect as soon as they know of a port."""
        try:
            await self._brokers.admit(rewriting.addresses())
        finally:
            self._admitting -= 1
        self._send(code, answer, rewriting)

    def _send(self, code: int, answer: Command, rewriting: Rewriting) -> None:
        if code == Request.GET_SYSTEM_TOPIC_LIST_FROM_NS:
            answer.body = rewriting.with_any(self._brokers.any_address())
        else:
            answer.body = rewriting.rewritten(self._brokers.advertise)
        self._relay.to_client(answer)
