"""Questions about single messages, and who answers them: the owner of the message's shard."""

from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from delayline.message import Header, MessageId, Shard
from delayline.outcome import Outcome


class State(StrEnum):
    """Where a message is. accepted -> pending -> one of the terminal ones."""

    ACCEPTED = "accepted"  # durable in the buffer, not indexed yet
    PENDING = "pending"  # indexed, waiting for its due time
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DEAD = "dead"
    DUPLICATE = "duplicate"


WAITING = frozenset({State.ACCEPTED, State.PENDING})


@dataclass(frozen=True, slots=True)
class Ending:
    """How a message ended. `lateness_ms` is done minus due, for deliveries."""

    outcome: Outcome
    at_ms: int
    lateness_ms: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A message as its owner knows it. Key, value and headers are there while it is pending."""

    id: MessageId
    state: State
    accepted_at_ms: int
    due_ms: int
    version: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The message was accepted once and is terminal; how it ended is not kept any more."""


class Owners(Protocol):
    """Finds the owner of a message and asks it."""

    def find(self, message_id: MessageId) -> Future[Found | Gone | None]:
        """None: there never was such a message. The future may raise OwnerUnavailable."""

    def decided(self, shard: Shard, offset: int) -> Future[Outcome]:
        """What becomes of the operation that stands there, once it is decided: applied or unmatched. It may never be
        heard of here, so it is to be waited for with a limit."""


class OwnerUnavailable(Exception):
    """No worker owns the message's shard right now, or it did not answer; ask again."""
