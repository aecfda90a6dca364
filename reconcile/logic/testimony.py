"""What has been read of single records, for judgements that need no Spark: what is accepted, the outcome rows about
it, and what is found. Times are epoch milliseconds."""

from typing import Any, NamedTuple

from delayline.buffer.facts import OPERATION as OPERATION_KIND
from delayline.buffer.outcome import CANCELLED, FORWARDED, REPLACED, RESCHEDULED, Outcome
from reconcile.logic.ledger import INSTRUCTIONS, SKIPPED, WINDOW_MS

MESSAGE, OPERATION, OTHER = 0, 1, 2
"""Of what kind a record is, as far as its outcome row shows."""


class Record(NamedTuple):
    """An accepted record: columns of `schemas.ACCEPTED`."""

    topic: str
    shard: int
    offset: int
    kind: str
    id: str | None
    due_ms: int | None
    accepted_ms: int
    appended_ms: int
    expires_ms: int | None

    @property
    def moment_ms(self) -> int:
        """The due time; of what is no message, when it was accepted."""
        return self.accepted_ms if self.due_ms is None else self.due_ms

    @property
    def is_message(self) -> bool:
        return self.kind in ("message", SKIPPED)

    @property
    def of(self) -> int:
        return MESSAGE if self.is_message else OPERATION if self.kind == OPERATION_KIND else OTHER


class Row(NamedTuple):
    """An outcome row, by `schemas.DONE`."""

    topic: str
    shard: int
    offset: int
    id: str | None
    due_ms: int | None
    accepted_ms: int
    done_ms: int
    outcome: str
    successor: str | None
    reason: str | None
    epoch: int
    audit_partition: int
    audit_offset: int

    @property
    def moment_ms(self) -> int:
        return self.accepted_ms if self.due_ms is None else self.due_ms

    @property
    def lateness_ms(self) -> int | None:
        """Of what was delivered, negative where it was early. What was sent with a due time in the past can be late
        only from its acceptance on."""
        if self.outcome != "delivered" or self.due_ms is None:
            return None
        early = self.done_ms - self.due_ms
        return early if early < 0 else max(0, self.done_ms - max(self.due_ms, self.accepted_ms))

    @property
    def ends_message(self) -> bool:
        """Whether its outcome is one that messages have."""
        return self.outcome not in INSTRUCTIONS

    @property
    def of(self) -> int:
        """What an operation did is its reason; of other instructions nothing is ever unmatched."""
        if self.ends_message:
            return MESSAGE
        did = self.reason in (CANCELLED, RESCHEDULED, FORWARDED)
        return OPERATION if did or self.outcome == Outcome.UNMATCHED else OTHER

    @property
    def gives_way(self) -> bool:
        """Whether it states that its message has ended for another one."""
        return self.outcome == "duplicate" or self.reason == REPLACED

    @property
    def is_carried(self) -> bool:
        """Whether it states that another record carries the message on. A newcomer of the same own id that replaced
        it, or the message that made it a duplicate, is another message."""
        names = self.successor is not None and self.ends_message
        return (self.outcome == "superseded" or names) and not self.gives_way

    @property
    def carried_as(self) -> str | None:
        """What the record is called that carries the message on: by its own id, where the row has no other name."""
        return self.id if self.successor is None else self.successor

    @property
    def described(self) -> str:
        """Outcome, reason, time, and its place in the audit."""
        reason = "" if self.reason is None else f" ({self.reason})"
        return f"{self.outcome}{reason} at {self.done_ms}, audit {self.audit_partition}/{self.audit_offset}"


class Link(NamedTuple):
    """A re-append, by the record that it carries on (`cells.LINKS`)."""

    topic: str
    shard: int
    offset: int
    due_ms: int
    by_id: str | None
    by_offset: int
    by_due_ms: int
    by_expires_ms: int | None

    @property
    def moment_ms(self) -> int:
        return self.due_ms


class Found(NamedTuple):
    """A finding, by `schemas.FINDINGS`, where it is known which run has found it. `settled`: false where it is a
    missing successor that may be in what has not been read yet."""

    topic: str
    window_ms: int
    category: str
    id: str | None
    shard: int
    offset: int
    due_ms: int | None
    accepted_ms: int | None
    done_ms: int | None
    lateness_ms: int | None
    surplus: int
    detail: str | None
    settled: bool = True

    @property
    def key(self) -> tuple[Any, ...]:
        """Two of a window that agree in this are the same one."""
        return self.category, self.shard, self.offset, self.id or ""


def window_of(moment_ms: int) -> int:
    """Beginning of the window."""
    return moment_ms - moment_ms % WINDOW_MS


def first_id(name: str | None) -> str | None:
    """Of an occurrence, the id of its message. No topic's name has a tilde."""
    return None if name is None else name.partition("~")[0]


def found_of_row(row: Row, category: str, detail: str) -> Found:
    """A finding that follows from its row alone."""
    return Found(
        topic=row.topic,
        window_ms=window_of(row.moment_ms),
        category=category,
        id=row.id,
        shard=row.shard,
        offset=row.offset,
        due_ms=row.due_ms,
        accepted_ms=row.accepted_ms,
        done_ms=row.done_ms,
        lateness_ms=row.lateness_ms,
        surplus=0,
        detail=detail,
    )
