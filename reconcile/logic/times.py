"""What a re-append should be due, and when it should expire: both follow from the log, from the record that it
carries on and from the operation. Pure.

    its row has roll, scheduled or repair        due when the record before is
    its row has rescheduled, by an operation     due when that operation asks for
    any                                          the deadline of the record before, or as far behind its due time

When a series' next occurrence should be due its shard alone has computed; that one's deadline is judged all the same.
"""

from collections.abc import Collection, Iterator

from delayline.buffer.outcome import RESCHEDULED
from delayline.times import MOMENT_MAX_MS
from reconcile.logic.ledger import KEEP_TIME, Category
from reconcile.logic.places import Place, is_misnamed, re_appended, re_appended_at
from reconcile.logic.testimony import Found, Link, Record, Row


def mistimed(place: Place, moves_ms: Collection[int] = ()) -> Found | None:
    """`moves_ms`: the due times that operations ask for which may have moved the record there; most of the time one.
    Nothing where by another finding the re-append is not the right one, or not the only one."""
    carrying = [row for row in place.rows if row.is_carried]
    if place.record is None or len(carrying) != 1 or len(place.links) != 1:
        return None
    (row,), (link,) = carrying, place.links
    if row.id != place.record.id or is_misnamed(row, link):
        return None
    wrong = [*_wrongly_due(row, link, moves_ms), *_wrongly_mortal(place.record, link)]
    return re_appended(place, Category.WRONG_SUCCESSOR, "; ".join([re_appended_at(place), *wrong])) if wrong else None


def _wrongly_due(row: Row, link: Link, moves_ms: Collection[int]) -> Iterator[str]:
    right: Collection[int] = ()
    if row.outcome == "superseded" and row.reason in KEEP_TIME:
        right = (link.due_ms,)
    elif row.outcome == "superseded" and row.reason == RESCHEDULED:
        right = moves_ms
    if right and link.by_due_ms not in right:
        yield f"due at {link.by_due_ms}, should be {' or '.join(map(str, sorted(right)))}"


def _wrongly_mortal(record: Record, link: Link) -> Iterator[str]:
    """A deadline is a moment, or counts from the due time, and the record does not show which. At the end of all
    times it may have been cut short."""
    right: set[int | None] = {record.expires_ms}
    if record.expires_ms is not None:
        right.add(min(link.by_due_ms + record.expires_ms - link.due_ms, MOMENT_MAX_MS))
    if record.expires_ms != MOMENT_MAX_MS and link.by_expires_ms not in right:
        yield f"its deadline is {_moment(link.by_expires_ms)}, was {_moment(record.expires_ms)}"


def _moment(ms: int | None) -> str:
    return "none" if ms is None else str(ms)
