"""The kind of a row, as one number: how a cell counts many things in few columns.

    kind, bits 7..11 | carried, bit 6 | how late, bits 0..5

0 is a message that was accepted, 1 another record, 2 a link, and from 3 on outcomes, in the order of
`ledger.OUTCOMES`. How late is a bin, plus 32 where that is later than tolerated; or 61 carried on at the time
that it had, which both the row and the link may have, 62 early, 63 not delivered.
The cells' column has the name `said` (docs/formats/reconcile.md).
"""

from functools import cache
from typing import NamedTuple

from reconcile.logic.ledger import LATENESS_BINS, OUTCOMES

MESSAGE, OTHER, LINK, FIRST_OUTCOME = 0 << 7, 1 << 7, 2 << 7, 3 << 7
CARRIED = 1 << 6
LATE = 1 << 5  # and a bin below
KEPT, EARLY, UNTIMED = 61, 62, 63

OF = {name: FIRST_OUTCOME + (i << 7) for i, name in enumerate(OUTCOMES)}
"""The kind of an outcome row."""

UNKNOWN_OUTCOME = FIRST_OUTCOME + (len(OUTCOMES) << 7)


class RowKind(NamedTuple):
    """`outcome` of an outcome row, None of what else is in a cell; `bin` of what was delivered not too early."""

    what: int
    outcome: str | None
    is_carried: bool
    bin: int | None

    @property
    def is_accepted(self) -> bool:
        return self.what < LINK

    @property
    def gives_way(self) -> bool:
        """Whether its message has ended for another one."""
        return self.what == OF["duplicate"] or (self.what == OF["superseded"] and not self.is_carried)


@cache
def decoded(number: int) -> RowKind:
    what, timing = number & ~(CARRIED | UNTIMED), number & UNTIMED
    outcome = OUTCOMES[(what - FIRST_OUTCOME) >> 7] if what >= FIRST_OUTCOME and what != UNKNOWN_OUTCOME else None
    in_bin = timing & (LATE - 1) if timing < KEPT else None
    assert in_bin is None or in_bin < LATENESS_BINS
    return RowKind(what, outcome, bool(number & CARRIED), in_bin)
