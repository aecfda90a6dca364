"""A pending record of a message, taken apart: what operations look at, and what a batch writes of it."""

from typing import NamedTuple, Protocol

from delay_service.core.pending_reappends import PendingReappends
from delayline.buffer.record import Meta, Operation, encode_reappend
from delayline.records.message import Key, MessageId
from delayline.schedule.terms import Terms
from mq.contract import Append


class Move(NamedTuple):
    """A re-append: whose, when it is due, and under which names it will be found."""

    message_id: str
    due_ms: int
    names: tuple[bytes, ...] = ()


class PendingRecord(NamedTuple):
    """A pending record of a message. `message_id` is that of its first acceptance, `row_id` that of its outcome row:
    of a series, the occurrence."""

    key: Key
    value: bytes
    meta: Meta | None
    packed: bytes
    message_id: str
    row_id: str

    @property
    def terms(self) -> Terms | None:
        return self.meta.terms if self.meta else None

    @property
    def is_dead(self) -> bool:
        """Whether it only goes to the dead letters: there is no message to do anything with."""
        return self.meta is not None and self.meta.dead_code is not None

    @property
    def version(self) -> int:
        return self.meta.version if self.meta else 0

    def carried_on(self, due_ms: int, terms: Terms | None = None) -> "tuple[Move, bytes]":
        """In another record: what is known of it before it is read back, and its body. With `terms` instead of its
        own ones, where they are given."""
        # rule moved-names: a name would be free while its series goes on: two messages would have it.
        names = tuple(self.terms.names) if self.terms else ()
        body = encode_reappend(self.value, self.key, self.message_id, due_ms, terms)
        return Move(self.message_id, due_ms, names), body

    @property
    def closing(self) -> "list[tuple[bytes, Known]]":
        """What to remember of it when it has ended."""
        terms = self.terms
        if terms is None or terms.idempotency is None:
            return []
        return [(terms.names[-1], Known(self.message_id, terms.idempotency.digest))]


class Known(NamedTuple):
    """A message that has ended, and whose idempotency key is remembered."""

    message_id: str
    digest: str


class View(Protocol):
    """What a shard knows of its pending messages, with nothing in flight."""

    moving: PendingReappends
    """What has been re-appended and not been read back."""

    def carrier(self, ref: MessageId) -> PendingRecord | None:
        """The record that carries this message now."""

    def holder(self, name: bytes) -> PendingRecord | None:
        """The message that has this name."""

    def at(self, key: Key) -> PendingRecord | None:
        """A record by its key."""

    def remembered(self, name: bytes) -> Known | None:
        """An ended message by its idempotency name."""

    def scan(self, after: Key, limit: int) -> list[PendingRecord]:
        """Records by due time, behind `after`."""

    def forward(self, operation: Operation) -> Append | None:
        """The record that passes it on to the shard that it belongs to, where that is another one."""
