"""What is wrong with one record, or with a link between two: all rows about one place in the buffer (topic,
shard, offset, moment), held together.

    accepted, no row                            missing, or unauditable
    accepted, two rows or more                  duplicated, delivered_after_cancel, two_outcomes
    a row of which nothing accepted is known    orphan (also under another id or with another due time)
    a carried record and no re-append           missing: its successor, once the row is settled
    a carried record and two re-appends         duplicated
    a re-append of a record that had ended      delivered_after_cancel where it was cancelled, else two_outcomes
    a re-append of what was never accepted      orphan
    a message's row in an instruction's words   wrong_outcome; and an instruction's in those of a message, or an
                                                operation's in those of another instruction
    a re-append under another id than announced wrong_successor

And what rows show without their record's neighbours: early and late, wrongly_expired, behind_deadline; and a row that
ends its message for another one (`replaced`, `duplicate`) which was never accepted: wrong_successor.
In hours whose rows were dropped (forgetting.py) all of that is unauditable where a record is not found.
The times of re-appends are judged in times.py.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from delayline.buffer.outcome import LATE_MAX, MISSED
from reconcile.logic.ledger import HOUR_MS, NO_OUTCOME, NOT_KEPT, NOT_RE_APPENDED, RULE_MIN_MS, Category
from reconcile.logic.manifest import AuditGap
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.logic.testimony import MESSAGE, Found, Link, Record, Row, first_id, found_of_row, window_of

_ID = re.compile(r"\.([^.]+)\.(\d{1,18})\.(\d{1,18})$")


class Unread(NamedTuple):
    """Offsets `[first, end)` that no run has read."""

    topic: str
    shard: int
    first: int
    end: int


@dataclass(frozen=True)
class Rules:
    """What a run judges by. Outcome rows of what was appended before one of the `gaps` in its part of the audit ended
    may have been deleted: it may have been cancelled then, however late it is due. `settled`, by topic and shard:
    outcome rows below this offset of the audit are settled, what was committed with them has been read; a shard that
    is not among them has none. `unread`: what was accepted there is unknown; `forgotten`: hours of which records
    were dropped."""

    late_after_ms: int
    settled: Mapping[tuple[str, int], int]
    gaps: Sequence[AuditGap] = ()
    unread: Sequence[Unread] = ()
    forgotten: Collection[int] = ()
    partitions: Partitions = NUMBERS

    def is_untold(self, record: Record) -> bool:
        return self._may_be_gone(record.topic, record.shard, record.appended_ms)

    def _may_be_gone(self, topic: str, shard: int, at_ms: int) -> bool:
        """Whether a row of the shard, of this time or later, may have been in a gap of the audit."""
        return any(
            at_ms < gap.until_ms and gap.may_hold_outcomes_of(topic, shard, self.partitions) for gap in self.gaps
        )

    def is_forgotten(self, moment_ms: int) -> bool:
        return moment_ms // HOUR_MS in self.forgotten

    def is_unread(self, topic: str, shard: int, offset: int) -> bool:
        """Whether no run has read the record."""
        return any(
            (part.topic, part.shard) == (topic, shard) and part.first <= offset < part.end for part in self.unread
        )

    def may_lack_row(self, topic: str, shard: int, offset: int, due_ms: int, done_ms: int) -> bool:
        """Whether the outcome row of this record, of about `done_ms`, may be one that is not at hand: its hour's rows
        were dropped, no run has read the record, or the row was in a gap of the audit."""
        return (
            self.is_forgotten(due_ms)
            or self.is_unread(topic, shard, offset)
            or self._may_be_gone(topic, shard, done_ms)
        )

    def is_settled(self, row: Row) -> bool:
        below = self.settled.get((row.topic, row.shard))
        return below is not None and row.audit_offset < below


@dataclass
class Place:
    """All rows about one place."""

    topic: str
    shard: int
    offset: int
    moment_ms: int
    record: Record | None = None
    rows: list[Row] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def places(accepted: Iterable[Record], links: Iterable[Link], rows: Iterable[Row]) -> Iterable[Place]:
    found: dict[tuple[str, int, int, int], Place] = {}

    def at(one: Record | Link | Row) -> Place:
        key = one.topic, one.shard, one.offset, one.moment_ms
        if (place := found.get(key)) is None:
            place = found[key] = Place(*key)
        return place

    for record in accepted:
        at(record).record = record
    for link in links:
        at(link).links.append(link)
    for row in rows:
        at(row).rows.append(row)
    for place in found.values():
        place.rows.sort(key=lambda row: (row.done_ms, row.audit_offset, row.outcome, row.id or ""))
        place.links.sort(key=lambda link: link.by_offset)
    return found.values()


def judged(place: Place, rules: Rules) -> Iterator[Found]:
    """What is wrong there."""
    is_forgotten = place.record is None and rules.is_forgotten(place.moment_ms)
    for found in _judged(place, rules):
        yield _forgotten(found) if is_forgotten else found


def _forgotten(found: Found) -> Found:
    """A re-append alone gives no due time: what has one, and no outcome, counts as a record without an end
    (`windows.Window.add`), and this one's may have had its own."""
    due_ms = None if found.done_ms is None else found.due_ms
    detail = f"{found.detail}{NOT_KEPT}"
    return found._replace(category=Category.UNAUDITABLE.value, due_ms=due_ms, detail=detail, settled=True)


def _judged(place: Place, rules: Rules) -> Iterator[Found]:
    own = [row for row in place.rows if place.record is not None and row.id == place.record.id]
    strange = [row for row in place.rows if place.record is None or row.id != place.record.id]
    if place.record is not None:
        yield from _of_record(place, place.record, own, rules)
    yield from _of_links(place, rules)
    for identity in dict.fromkeys(row.id for row in strange):
        rows = [row for row in strange if row.id == identity]
        yield _found(place, Category.ORPHAN, identity, rows, _described(rows), surplus=_ends(rows))


# --- a record and its own rows


def _of_record(place: Place, record: Record, own: Sequence[Row], rules: Rules) -> Iterator[Found]:
    surplus = _ends(own) - (record.of == MESSAGE)
    if not own:
        category = Category.UNAUDITABLE if rules.is_untold(record) else Category.MISSING
        yield _found(place, category, record.id, own, _no_outcome(place))
    elif len(own) > 1:
        yield _found(place, _of_several(own), record.id, own, _described(own), surplus=surplus)
    elif own[0].of != record.of:
        yield _found(place, Category.WRONG_OUTCOME, record.id, own, _described(own), surplus=surplus)


def _no_outcome(place: Place) -> str:
    """A message whose record has no row may go on all the same: the operator who sends it again should know."""
    return f"{NO_OUTCOME}; {re_appended_at(place)}" if place.links else NO_OUTCOME


def _of_several(own: Sequence[Row]) -> Category:
    """Of a record with two outcome rows or more."""
    delivered = [(row.done_ms, row.audit_offset) for row in own if row.outcome == "delivered"]
    cancelled = [(row.done_ms, row.audit_offset) for row in own if row.outcome == "cancelled"]
    if len(delivered) == len(own):
        return Category.DUPLICATED
    if delivered and cancelled and max(delivered) > min(cancelled):
        return Category.DELIVERED_AFTER_CANCEL
    return Category.TWO_OUTCOMES


# --- a record and what carries it on


def _of_links(place: Place, rules: Rules) -> Iterator[Found]:
    """Nothing where the record's own verdict covers it."""
    carrying = [row for row in place.rows if row.is_carried]
    if carrying:
        yield from _of_carried(place, carrying, rules)
    elif place.links and place.rows:
        cancelled = any(row.outcome == "cancelled" for row in place.rows)
        yield re_appended(place, Category.DELIVERED_AFTER_CANCEL if cancelled else Category.TWO_OUTCOMES)
    elif place.links and place.record is None:
        yield re_appended(place, Category.ORPHAN)
    elif len(place.links) > 1:
        yield re_appended(place, Category.DUPLICATED)


def _of_carried(place: Place, carrying: Sequence[Row], rules: Rules) -> Iterator[Found]:
    if not place.links:
        settled = all(map(rules.is_settled, carrying))
        detail = f"{_described(carrying)}{NOT_RE_APPENDED}"
        lost = _found(place, Category.MISSING, carrying[0].carried_as, carrying, detail)
        yield lost._replace(settled=settled)
    elif len(place.links) > 1:
        yield re_appended(place, Category.DUPLICATED)
    elif is_misnamed(carrying[0], place.links[0]):
        again = f"{re_appended_at(place)} as {place.links[0].by_id or 'no message'}"
        yield re_appended(place, Category.WRONG_SUCCESSOR, again)


def is_misnamed(row: Row, link: Link) -> bool:
    """Whether the re-append has another name than the row announces, or is of another message."""
    return link.by_id != row.carried_as or first_id(link.by_id) != first_id(row.id)


def re_appended(place: Place, category: Category, again: str | None = None) -> Found:
    names = [place.record.id if place.record else None, *(row.id for row in place.rows)]
    names += [link.by_id for link in place.links]
    detail = "; ".join([*(row.described for row in place.rows), again or re_appended_at(place)])
    return _found(place, category, next(filter(None, names), None), place.rows, detail)


def re_appended_at(place: Place) -> str:
    return f"re-appended at offset {', '.join(str(link.by_offset) for link in place.links)}"


# --- findings


def _found(
    place: Place, category: Category, identity: str | None, rows: Sequence[Row], detail: str, surplus: int = 0
) -> Found:
    """Of several rows, when the last was done."""
    known: list[Record | Row] = [*([place.record] if place.record else []), *place.rows]
    is_message = place.links or any(one.due_ms is not None for one in known)
    return Found(
        topic=place.topic,
        window_ms=window_of(place.moment_ms),
        category=category.value,
        id=identity,
        shard=place.shard,
        offset=place.offset,
        due_ms=place.moment_ms if is_message else None,
        accepted_ms=max((one.accepted_ms for one in known), default=None),
        done_ms=max((row.done_ms for row in rows), default=None),
        lateness_ms=max((row.lateness_ms for row in rows if row.lateness_ms is not None), default=None),
        surplus=surplus,
        detail=detail,
    )


def _ends(rows: Sequence[Row]) -> int:
    """How many of them are ends of a message."""
    return sum(row.of == MESSAGE for row in rows)


def _described(rows: Sequence[Row]) -> str:
    return "; ".join(row.described for row in rows)


# --- early and late: from the outcome row alone, but for what was moved into the past


def is_untimely(row: Row, late_after_ms: int) -> bool:
    return row.lateness_ms is not None and not 0 <= row.lateness_ms <= late_after_ms


def is_late(row: Row, late_after_ms: int) -> bool:
    return row.lateness_ms is not None and row.lateness_ms > late_after_ms


def untimely(row: Row, late_after_ms: int, moved_ms: int | None = None) -> Found | None:
    """`moved_ms`: when a client moved the message to a due time that had passed by then. No owner could deliver it
    before, so that it is late from then on."""
    if row.lateness_ms is None or not is_untimely(row, late_after_ms):
        return None
    if row.lateness_ms < 0:
        return found_of_row(row, Category.EARLY, row.described)
    lateness_ms = row.lateness_ms if moved_ms is None else min(row.lateness_ms, max(0, row.done_ms - moved_ms))
    if lateness_ms <= late_after_ms:
        return None
    return found_of_row(row, Category.LATE, row.described)._replace(lateness_ms=lateness_ms)


# --- deadlines: from the outcome row and the record


def against_deadline(row: Row, expires_ms: int | None) -> Found | None:
    """What has expired and should not have, and what was delivered and should have expired. `expires_ms` is that of
    its record. The time of an outcome row is the one by which its owner has judged the deadline: they can be compared
    to the millisecond."""
    category = _against_deadline(row, expires_ms)
    if category is None:
        return None
    deadline = "none" if expires_ms is None else expires_ms
    return found_of_row(row, category, f"{row.described}; its deadline is {deadline}")


def _against_deadline(row: Row, expires_ms: int | None) -> Category | None:
    if row.outcome == "expired" and _is_wrongly_expired(row, expires_ms):
        return Category.WRONGLY_EXPIRED
    is_behind = expires_ms is not None and row.done_ms > expires_ms
    if row.outcome == "delivered" and is_behind and not _is_occurrence(row):
        return Category.BEHIND_DEADLINE  # an occurrence may have been delivered for a later time than its record's
    return None


def _is_wrongly_expired(row: Row, expires_ms: int | None) -> bool:
    if row.reason == LATE_MAX:
        return row.due_ms is not None and row.done_ms - row.due_ms <= RULE_MIN_MS
    if row.reason == MISSED:
        return not _is_occurrence(row)
    return expires_ms is None or row.done_ms <= expires_ms


def _is_occurrence(row: Row) -> bool:
    return "~" in (row.id or "")


# --- what ended for another message


class Named(NamedTuple):
    """The message for which another one has ended: its place by its id, and when it is due."""

    topic: str
    shard: int
    offset: int
    due_ms: int
    id: str

    @property
    def key(self) -> tuple[str, int, int, str]:
        return self.topic, self.shard, self.offset, self.id


def named_by(row: Row, partitions: Partitions = NUMBERS) -> Named | None:
    """None where its successor is no id of its topic: own ids and idempotency keys are a topic's."""
    parts = _ID.search(row.successor or "")
    if parts is None or row.successor is None or row.successor[: parts.start()] != row.topic:
        return None
    if (shard := partitions.number(parts[1])) is None:
        return None
    return Named(row.topic, shard, int(parts[2]), int(parts[3]), row.successor)


def for_none_accepted(rows: Sequence[Row], accepted: set[tuple[str, int, int, str]], rules: Rules) -> Iterator[Found]:
    """Rows of messages that have ended for one that is not among the `accepted` (topic, shard, offset,
    id); or for itself, or in a circle of these rows."""
    for row in rows:
        named = named_by(row, rules.partitions)
        if named is None or not (named.key in accepted or rules.is_unread(*named.key[:3])):
            why = f"not accepted: {row.successor or 'what has no name'}"
            found = _for_none_accepted(row, why, rules.is_settled(row))
            is_forgotten = named is not None and rules.is_forgotten(named.due_ms)
            yield _forgotten(found) if is_forgotten else found
    for row in _in_circles(rows, rules.partitions):
        yield _for_none_accepted(row, f"and {row.successor} has ended for this one", settled=True)


def _for_none_accepted(row: Row, why: str, settled: bool) -> Found:
    found = found_of_row(row, Category.WRONG_SUCCESSOR, f"{row.described}; {why}")
    return found._replace(settled=settled)


def _in_circles(rows: Iterable[Row], partitions: Partitions) -> list[Row]:
    """Of rows that name each other, each leads to at most one other: those that are left when all have gone that lead
    to none are part of a circle, or lead into one."""
    left = {(row.topic, row.shard, row.offset, first_id(row.id) or ""): row for row in rows}
    led = {key: named_by(row, partitions) for key, row in left.items()}
    while gone := [key for key in left if (named := led[key]) is None or named.key not in left]:
        for key in gone:
            del left[key]
    return list(left.values())
