"""Operations on pending messages: cancel, and deliver at another time.

They are decided in the order of the log, when a batch is taken, and what is decided is part of that batch: nothing
is in flight then, so "pending" has one meaning, and the commit that makes the decision true is the one whose O passes
the operation. Replay obeys names alone, an operation below O is never looked at again.

An operation waits where its message has been re-appended and not been read back, because it must name the record that
carries the message then, and where a late record keeps O before it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from delay_service.forwarding import FORWARDED
from delayline.buffer_record import Operation, encode_reappend
from delayline.errors import Bug
from delayline.message import Key, MessageId
from delayline.outcome import AuditRow, Outcome
from mq.contract import Append

DECIDED_MAX = 1000
"""Per commit, so that a flood of operations does not hold up what is due."""

BEHIND_ALL = (1 << 63) - 1

CANCELLED, RESCHEDULED = "cancelled", "rescheduled"
NOT_PENDING = "not-pending"
"""Reasons in the outcome rows of operations, and of the records that they end."""


class Asked(NamedTuple):
    """An operation that has been read and not been decided."""

    offset: int
    accepted_at_ms: int
    operation: Operation


class Target(NamedTuple):
    """A pending record: its key, its index value, and when its message was accepted."""

    key: Key
    value: bytes
    accepted_at_ms: int


class Move(NamedTuple):
    """A re-append: whose, and when it is due."""

    message_id: str
    due_ms: int


@dataclass(slots=True)
class Decided:
    """What the first `count` operations do: they end the records `ended`, and re-append those that are `moved`. The
    first operation that waits stands at the offset `undecided`."""

    count: int = 0
    undecided: int = BEHIND_ALL
    cancelled: list[Key] = field(default_factory=list)
    ended: set[Key] = field(default_factory=set)
    moved: dict[Key, Move] = field(default_factory=dict)
    appends: list[bytes] = field(default_factory=list)
    elsewhere: list[Append] = field(default_factory=list)
    rows: list[AuditRow] = field(default_factory=list)


NOTHING = Decided()
"""Where no operation waits, as nearly always; never filled."""


class Operations:
    """Those that wait, in the order of the log."""

    def __init__(self) -> None:
        self._asked: deque[Asked] = deque()

    def __bool__(self) -> bool:
        return bool(self._asked)

    def ask(self, offset: int, accepted_at_ms: int, operation: Operation) -> None:
        self._asked.append(Asked(offset, accepted_at_ms, operation))

    def decide(
        self,
        before: int,
        find: Callable[[MessageId], Target | None],
        on_the_move: Callable[[str], bool],
        forward: Callable[[Operation], Append | None],
    ) -> Decided:
        """What those do that stand before the offset `before`, which O cannot pass in this commit."""
        decided = Decided()
        moving: set[str] = set()
        for asked in islice(self._asked, DECIDED_MAX):
            message_id = _message_id(asked.operation)
            name = str(message_id)
            if asked.offset >= before or on_the_move(name) or name in moving:
                break
            if (append := forward(asked.operation)) is not None:
                decided.elsewhere.append(append)
                decided.rows.append(_row(asked, Outcome.APPLIED, FORWARDED))
            elif _decide(asked, decided, find(message_id)) is Outcome.SUPERSEDED:
                moving.add(name)
            decided.count += 1
        if decided.count < len(self._asked):
            decided.undecided = self._asked[decided.count].offset
        return decided

    def forget(self, count: int) -> None:
        """The first ones are decided and committed."""
        for _ in range(count):
            self._asked.popleft()


def _decide(asked: Asked, decided: Decided, target: Target | None) -> Outcome | None:
    """What becomes of the target by it; None where there is none."""
    message_id, due_ms = _message_id(asked.operation), asked.operation.due_ms
    if target is None or target.key in decided.ended:
        decided.rows.append(_row(asked, Outcome.UNMATCHED, NOT_PENDING))
        return None
    key, value, accepted_at_ms = target
    name = str(message_id)
    decided.ended.add(key)
    if due_ms is None:
        reason, outcome, successor = CANCELLED, Outcome.CANCELLED, None
        decided.cancelled.append(key)
    else:
        reason, outcome, successor = RESCHEDULED, Outcome.SUPERSEDED, name
        decided.moved[key] = Move(name, due_ms)
        decided.appends.append(encode_reappend(value, key, name, due_ms))
    decided.rows.append(_row(asked, Outcome.APPLIED, reason))
    decided.rows.append(AuditRow(key.offset, name, key.due_ms, accepted_at_ms, outcome, successor, reason))
    return outcome


def _message_id(operation: Operation) -> MessageId:
    if not isinstance(operation.ref, MessageId):
        raise Bug("own ids are refused where directives are read")
    return operation.ref


def _row(asked: Asked, outcome: Outcome, reason: str) -> AuditRow:
    return AuditRow(asked.offset, None, None, asked.accepted_at_ms, outcome, None, reason)
