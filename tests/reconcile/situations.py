"""What a situation of `cases.py` is made of."""

from collections.abc import Sequence
from typing import Any, NamedTuple

T = 1_767_225_600_000
LONG_AGO = T - 86_400_000
LATE_AFTER_MS = 60_000
UNTIL_MARK = 1000
"""Audit offset up to which rows are settled."""

A, B, C = 41, 79, 86
"""Offsets that share a cell."""


class Record(NamedTuple):
    """What the buffer holds."""

    offset: int
    message: str | None = None
    due_ms: int | None = T
    replaces: tuple[int, int] | None = None
    kind: str = "message"
    accepted_ms: int = T - 5000
    expires_ms: int | None = None
    appended_ms: int | None = None
    """None: when it was accepted."""


class Row(NamedTuple):
    """A row of the audit."""

    offset: int
    outcome: str = "delivered"
    message: str | None = None
    successor: str | None = None
    reason: str | None = None
    due_ms: int | None = T
    done_ms: int = T + 12
    audit_offset: int = 500
    accepted_ms: int = T - 5000


class Case(NamedTuple):
    name: str
    records: Sequence[Record]
    rows: Sequence[Row]
    found: Sequence[str] = ()
    moves: Sequence[tuple[int, int, int]] = ()  # by operations: offset and due time of the record, and to when


def again(
    offset: int,
    replaces: int,
    message: str = "1",
    due_ms: int = T,
    old_due_ms: int = T,
    expires_ms: int | None = None,
    appended_ms: int | None = None,
) -> Record:
    """A re-append."""
    return Record(offset, message, due_ms, (old_due_ms, replaces), expires_ms=expires_ms, appended_ms=appended_ms)


def rolled(offset: int, message: str = "1", **more: Any) -> Row:
    return superseded(offset, message, **{"reason": "roll", **more})


def superseded(offset: int, message: str = "1", **more: Any) -> Row:
    return Row(offset, "superseded", message, **{"successor": message, "reason": "rescheduled", **more})


def instruction(offset: int, kind: str) -> Record:
    return Record(offset, None, None, None, kind)


def followed(offset: int, outcome: str = "applied", **more: Any) -> Row:
    return Row(offset, outcome, due_ms=None, **more)


LATER = T + 600_000
ONE = Record(1, "1")
MORTAL = Record(1, "1", expires_ms=T + 500)
