"""Waits until the owner of a shard has decided about a record.

Operations and conditional messages need a decision. A conditional message is durable when it is stored; its sender's
answer depends on the message that holds its name already.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from api.bodies.answers import SentMessage
from api.bridge import Bridge
from api.http.problems import ALREADY_TERMINAL, IDEMPOTENCY_REUSED, OWNER_UNAVAILABLE, Refusal
from api.sending.drafts import Draft
from api.sending.sender import partition_label
from api.services import Services
from delayline.buffer.outcome import Outcome
from delayline.questions import inquiry
from delayline.questions.inquiry import Found, OwnerUnavailable, Resolution
from delayline.records.message import MessageId, OperationId, Shard
from delayline.times import format_moment
from mq.contract import Position

UNDECIDED = "stored, and not decided yet whether it is the first of its name: sent again as it is, nothing is doubled"
ENDED = "ended"
"""The state of a message that has ended, once its outcome has left the history."""


class Sent(NamedTuple):
    """A message that is stored, and what its sender would be answered if it takes its place."""

    draft: Draft
    position: Position
    message: SentMessage


class SendAnswer(NamedTuple):
    """The answer to a sender; `replayed` if an earlier request got the same one."""

    answer: SentMessage | Refusal
    replayed: bool = False


class DecisionWaiter:
    """Waits for decisions."""

    def __init__(self, services: Services, bridge: Bridge) -> None:
        self._owners = services.owners
        self._bridge = bridge
        self._owner_timeout_s = services.settings.owner_timeout_s
        self._operation_timeout_s = services.settings.operation_timeout_s

    async def decided(self, shard: Shard, offset: int, wait_s: float) -> Resolution | None:
        """The outcome of the record at this offset; None if the owner has not answered in `wait_s`."""
        try:
            return await self._bridge.result(self._owners.decided(shard, offset), wait_s)
        except (TimeoutError, OwnerUnavailable):
            return None

    async def outcome(self, operation: OperationId, wait_s: float) -> Resolution | None:
        """The outcome of an operation; None where it is not decided. Raises Refusal where it was, and it is unknown
        how, and OwnerUnavailable."""
        resolution = await self.decided(*operation, wait_s)
        if resolution is None and await self._is_passed(operation):
            resolution = await self.decided(*operation, wait_s)  # it may have been decided meanwhile
            if resolution is None:
                raise Refusal(ALREADY_TERMINAL, "it was decided, and how is not kept any more: ask for the message")
        return resolution

    async def _is_passed(self, operation: OperationId) -> bool:
        """Whether the shard's owner has decided everything up to the operation."""
        try:
            figures = await self._bridge.result(self._owners.figures(), self._owner_timeout_s)
        except TimeoutError as error:
            raise OwnerUnavailable("no owner reports the state of the operation's shard") from error
        standing = next((one for one in figures if one.shard == operation.shard and one.owner_epoch), None)
        if standing is None:
            raise OwnerUnavailable("the operation's shard has no owner right now")
        return standing.next_offset > operation.offset

    async def await_decisions(self, topic: str, sent: Sequence[Sent]) -> list[SendAnswer]:
        """The answers to the senders; for a conditional message once it is decided."""
        answers = [SendAnswer(one.message) for one in sent]
        conditional = [number for number, one in enumerate(sent) if one.draft.is_conditional]
        decided = await asyncio.gather(*(self._answer(topic, sent[number]) for number in conditional))
        for number, answer in zip(conditional, decided, strict=True):
            answers[number] = answer
        return answers

    async def _answer(self, topic: str, sent: Sent) -> SendAnswer:
        shard = Shard(topic, sent.position.partition)
        resolution = await self.decided(shard, sent.position.offset, self._operation_timeout_s)
        if resolution is None:
            return SendAnswer(Refusal(OWNER_UNAVAILABLE, UNDECIDED))
        if resolution.outcome is not Outcome.DUPLICATE or resolution.successor is None:
            return SendAnswer(sent.message)
        if resolution.reason == inquiry.IDEMPOTENCY_REUSED:
            return SendAnswer(Refusal(IDEMPOTENCY_REUSED, "another request was accepted with this idempotency-key"))
        survivor = MessageId.parse(resolution.successor)
        try:
            found = await self._bridge.result(self._owners.find(survivor), self._owner_timeout_s)
        except (TimeoutError, OwnerUnavailable):
            return SendAnswer(Refusal(OWNER_UNAVAILABLE, UNDECIDED))
        known = found if isinstance(found, Found) else None
        if resolution.reason == inquiry.IDEMPOTENCY:
            return SendAnswer(_first(survivor, known, sent.message), replayed=True)
        return SendAnswer(_survivor(survivor, known, sent.message))


def _first(message_id: MessageId, known: Found | None, sent: SentMessage) -> SentMessage:
    """The answer that this very request got the first time."""
    return replace(
        sent,
        message_id=str(message_id),
        partition=partition_label(message_id.shard.partition),
        accepted_at=format_moment(known.accepted_at_ms) if known else None,
        due_at=format_moment(message_id.due_ms),
    )


def _survivor(message_id: MessageId, known: Found | None, sent: SentMessage) -> SentMessage:
    """The message that has the own id. It may have ended by now."""
    return replace(
        _first(message_id, known, sent),
        state=known.state if known else ENDED,
        due_at=format_moment(known.due_ms if known else message_id.due_ms),
        version=known.version if known else 0,
        deduplicated=True,
    )
