"""What becomes of records that ask for something: whoever wrote one waits here until the shard's owner has decided.

A message that wants an own id for itself is such a record, as operations are. It is durable when it is stored, and
what its sender is told depends on who has the id already.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from api.bridge import Bridge
from api.drafts import Draft
from api.problems import ALREADY_TERMINAL, OWNER_UNAVAILABLE, Refusal
from api.schemas import SentMessage
from api.sender import partition_label
from api.services import Services
from delayline.inquiry import Found, OwnerUnavailable, Resolution
from delayline.message import MessageId, OperationId, Shard
from delayline.outcome import Outcome
from delayline.times import format_moment
from mq.contract import Position

UNDECIDED = "stored, and not decided yet whether its own id was free: sent again with it, nothing is doubled"
ENDED = "ended"
"""The state of a message that has ended, and of which nobody knows any more how."""


class Sent(NamedTuple):
    """A message that is stored, and what its sender would be told if it takes its place."""

    draft: Draft
    position: Position
    message: SentMessage


class Claims:
    """Waits for decisions."""

    def __init__(self, services: Services, bridge: Bridge) -> None:
        self._owners = services.owners
        self._bridge = bridge
        self._owner_timeout_s = services.settings.owner_timeout_s
        self._operation_timeout_s = services.settings.operation_timeout_s

    async def decided(self, shard: Shard, offset: int, wait_s: float) -> Resolution | None:
        """What became of the record at this offset; None where nobody has said so in that time."""
        try:
            return await self._bridge.result(self._owners.decided(shard, offset), wait_s)
        except (TimeoutError, OwnerUnavailable):
            return None

    async def outcome(self, operation: OperationId, wait_s: float) -> Resolution | None:
        """What became of an operation; None where it is not decided. Raises Refusal where it was, and nobody knows
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
            raise OwnerUnavailable("nobody says how the operation's shard stands") from error
        standing = next((one for one in figures if one.shard == operation.shard and one.owner_epoch), None)
        if standing is None:
            raise OwnerUnavailable("nobody owns the operation's shard right now")
        return standing.next_offset > operation.offset

    async def settled(self, topic: str, sent: Sequence[Sent]) -> list[SentMessage | Refusal]:
        """What the senders are told; of a claim once it is decided."""
        answers: list[SentMessage | Refusal] = [one.message for one in sent]
        claims = [number for number, one in enumerate(sent) if one.draft.is_claim]
        told = await asyncio.gather(*(self._claimed(topic, sent[number]) for number in claims))
        for number, answer in zip(claims, told, strict=True):
            answers[number] = answer
        return answers

    async def _claimed(self, topic: str, sent: Sent) -> SentMessage | Refusal:
        shard = Shard(topic, sent.position.partition)
        resolution = await self.decided(shard, sent.position.offset, self._operation_timeout_s)
        if resolution is None:
            return Refusal(OWNER_UNAVAILABLE, UNDECIDED)
        if resolution.outcome is not Outcome.DUPLICATE or resolution.successor is None:
            return sent.message
        return await self._survivor(MessageId.parse(resolution.successor), sent.message)

    async def _survivor(self, message_id: MessageId, sent: SentMessage) -> SentMessage | Refusal:
        """The message that has the own id. It may have ended by now."""
        try:
            found = await self._bridge.result(self._owners.find(message_id), self._owner_timeout_s)
        except (TimeoutError, OwnerUnavailable):
            return Refusal(OWNER_UNAVAILABLE, UNDECIDED)
        known = found if isinstance(found, Found) else None
        return replace(
            sent,
            message_id=str(message_id),
            partition=partition_label(message_id.shard.name),
            state=known.state if known else ENDED,
            accepted_at=format_moment(known.accepted_at_ms) if known else None,
            due_at=format_moment(known.due_ms if known else message_id.due_ms),
            version=known.version if known else 0,
            deduplicated=True,
        )
