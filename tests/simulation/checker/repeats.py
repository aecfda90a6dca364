"""The checker's own reckoning of a record that is due: whether it is delivered, for which tick, and what follows."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.history import Appended, Terms


class Next(NamedTuple):
    """How a message goes on in another record."""

    due_ms: int
    terms: Terms


class Fired(NamedTuple):
    """`tick_ms` is None where nothing is delivered because its time was missed; `after` where it was the last one."""

    outcome: str
    reason: str | None
    tick_ms: int | None
    after: Next | None = None


def fire(sent: Appended, now_ms: int, late_max_ms: int | None) -> Fired:
    """What becomes of the record, taken then. Whether its target refuses it is not looked at."""
    terms, due_ms = sent.terms, sent.due_ms or 0
    if not terms.repeats:
        return Fired(*_on_time(terms, due_ms, now_ms, late_max_ms), due_ms)
    passed: list[tuple[int, int | None]] = []
    to_come = None
    for tick in _ticks(terms, due_ms):
        if passed and tick[0] > now_ms:
            to_come = tick
            break
        passed.append(tick)
        if terms.missed == "all" and len(passed) == 2:
            to_come = passed.pop()
            break
    assert to_come is not None, "ticks have no end"
    next_ms, gap_ms = to_come
    going_on = terms._replace(gap_ms=gap_ms)
    if terms.missed == "none" and len(passed) > 1:
        after = _unless_beyond(next_ms, going_on)
        return Fired("superseded" if after else "expired", "missed", None, after)
    tick_ms, _ = passed[-1]
    left = None if terms.times_left is None else terms.times_left - 1
    going_on = going_on._replace(times_left=left, occurrence=terms.occurrence + 1)
    after = None if left == 0 else _unless_beyond(next_ms, going_on)
    return Fired(*_on_time(terms, tick_ms, now_ms, late_max_ms), tick_ms, after)


def leave_out(terms: Terms, due_ms: int) -> Next | None:
    """What comes after an occurrence that is cancelled. It takes nothing from the deliveries that are left."""
    if not terms.repeats:
        return None
    ticks = _ticks(terms, due_ms)
    next(ticks)
    next_ms, gap_ms = next(ticks)
    return _unless_beyond(next_ms, terms._replace(gap_ms=gap_ms, occurrence=terms.occurrence + 1))


def _ticks(terms: Terms, due_ms: int) -> Iterator[tuple[int, int | None]]:
    """Each tick with the gap behind it, from the one that is due."""
    gap_ms, period_ms = terms.gap_ms, terms.calendar_ms
    while True:
        yield due_ms, gap_ms
        if period_ms is not None:
            due_ms = (due_ms // period_ms + 1) * period_ms
        elif gap_ms is not None:
            due_ms += gap_ms
            if terms.backoff is not None:
                tenthousandths = round(terms.backoff * 10_000)
                gap_ms = (gap_ms * tenthousandths + 9_999) // 10_000


def _on_time(terms: Terms, tick_ms: int, now_ms: int, late_max_ms: int | None) -> tuple[str, str | None]:
    deadline_ms = terms.expire_at_ms if terms.ttl_ms is None else tick_ms + terms.ttl_ms
    if deadline_ms is not None and now_ms > deadline_ms:
        return "expired", "deadline"
    if late_max_ms is not None and now_ms - tick_ms > late_max_ms:
        return "expired", "late-max"
    return "delivered", None


def _unless_beyond(next_ms: int, terms: Terms) -> Next | None:
    if terms.expire_at_ms is not None and next_ms > terms.expire_at_ms:
        return None
    return Next(next_ms, terms)
