"""What an operator has had skipped. Who waited in a skipped range has ended by that, and who had ended before it need
not be readable any more. A place in the log is a record itself, and ends by its own row."""

from collections.abc import Sequence
from typing import NamedTuple

from reconcile.logic.ledger import SKIPPED, Category
from reconcile.logic.testimony import Found, Row, found_of_row


class Skipped(NamedTuple):
    """Offsets `[first, end)` that an operator has had passed over. A place in the log is a record of its own, due
    `at_ms`, at `first`."""

    topic: str
    shard: int
    first: int
    end: int
    at_ms: int | None
    audit_offset: int

    def covers(self, one: Found | Row) -> bool:
        return (one.topic, one.shard) == (self.topic, self.shard) and self.first <= one.offset < self.end

    def is_itself(self, found: Found) -> bool:
        return self.at_ms is not None and found.offset == self.first and found.due_ms == self.at_ms


def excused(found: Found, skips: Sequence[Skipped]) -> Found:
    here = [skip for skip in skips if skip.covers(found)]
    absent = found.category == Category.MISSING and found.done_ms is None
    waited = absent and any(not skip.is_itself(found) for skip in here)
    unreadable = found.category == Category.ORPHAN and bool(here)
    return found._replace(category=SKIPPED) if waited or unreadable else found


def ended_after(row: Row, skips: Sequence[Skipped]) -> Found | None:
    """Of what had been skipped: in the audit its row stands behind that."""
    if row.outcome != SKIPPED and any(skip.covers(row) and row.audit_offset > skip.audit_offset for skip in skips):
        return found_of_row(row, Category.ENDED_AFTER_SKIP, row.described)
    return None
