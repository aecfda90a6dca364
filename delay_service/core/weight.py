"""How much a batch writes, weighed before it is taken: every batch keeps its bound in bytes, by whichever path.

A record that is taken is written as a delivery, a dead letter or a retry, and once more where it goes on in another
record; beside it stand its headers, its outcome row and its key in a decision. The weight is never less than that.
"""

from collections.abc import Sequence
from itertools import accumulate, takewhile
from operator import itemgetter

from store.index import PlainEntry

_FIRST_BYTE, _VALUE = itemgetter(0), itemgetter(2)

OVERHEAD_BYTES = 700
"""Headers, row and key of one record that asks for more than a time. Names of topics have 249 bytes at most, and one
is in a message id: twice in a row, once in a header."""

PLAIN_OVERHEAD_BYTES = 200
"""The same of a plain message; its id is written once, and its row names its place only."""


ROW_BYTES = 120
"""Of an outcome row beside the ids in it, and of the key that a decision names."""


def row_weight(row_id: str, successor: str | None) -> int:
    """Of a record that only ends: its row, and its key in a decision."""
    return ROW_BYTES + len(row_id) + len(successor or "")


def weight(value: bytes) -> int:
    """Of a record that is moved, or taken, by its index value: that of a plain message begins with a zero."""
    return PLAIN_OVERHEAD_BYTES + len(value) if value[0] == 0 else OVERHEAD_BYTES + 2 * len(value)


def fitting(entries: Sequence[PlainEntry], bytes_max: int, *, alone: bool) -> list[PlainEntry]:
    """The first of them, as many as fit; `alone`, the first one however large it is. Hot: once per record."""
    if not any(map(_FIRST_BYTE, map(_VALUE, entries))):
        plain_bytes = sum(map(len, map(_VALUE, entries))) + PLAIN_OVERHEAD_BYTES * len(entries)
        if plain_bytes <= bytes_max:
            return list(entries)
    totals = accumulate(weight(value) for _, _, value in entries)
    number = sum(1 for _ in takewhile(bytes_max.__ge__, totals))
    return list(entries[: max(number, 1 if alone else 0)])
