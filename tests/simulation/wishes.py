"""What clients ask for beside a time: names, deadlines and repeats, several of them together.

Few own ids and few keys, so that they meet; gaps between a second and an hour, because no shorter ones are allowed.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from delayline.records.message import Header
from tests.simulation.history import NO_TERMS, Terms

OWN_IDS = ("a", "b")
KEYS = ("key 1", "key 2")
GAPS_MS = {"1s": 1000, "1500ms": 1500, "PT2S": 2000, "1m": 60_000, "1h": 3_600_000}
CALENDARS_MS = {
    "* * * * * *": 1000,
    "*/5 * * * * *": 5000,
    "*/1 * * * *": 60_000,
    "0 */15 * * * *": 900_000,
}
"""Cron expressions whose ticks are the multiples of a period, in every zone of the list: none of them changes its
clock while a run lasts."""

ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata")


class Wish(NamedTuple):
    """Headers and what they mean; `due_ms` where they set when the message is due for the first time."""

    headers: list[Header]
    terms: Terms
    situations: list[str]
    due_ms: int | None = None


def cron_text(expression: str, zone: str) -> str:
    """How a history spells a calendar."""
    return f"{expression} in {zone}"


def wish(rnd: Random, now_ms: int, due_ms: int | None) -> Wish:
    """For a message accepted now that is due then; None where it names no time, so that it must repeat."""
    series = _series(rnd, now_ms, due_ms) if due_ms is None or rnd.random() < 0.3 else Wish([], NO_TERMS, [], due_ms)
    headers, terms, situations, first_ms = series
    assert first_ms is not None, "whatever repeats has a first time"
    add = rnd.choices((_own, _keyed, _with_deadline), (4, 3, 3), k=rnd.choice((0, 1, 1, 2) if headers else (1, 1, 2)))
    for each in dict.fromkeys(add):
        more, terms, situation = each(rnd, first_ms, terms)
        headers, situations = headers + more, [*situations, situation]
    return Wish(headers, terms, situations, first_ms)


Added = tuple[list[Header], Terms, str]


def _own(rnd: Random, _: int, terms: Terms) -> Added:
    own_id, conflict = rnd.choice(OWN_IDS), rnd.choice((None, "keep", "replace", "replace"))
    headers: list[Header] = [(b"delay-id", own_id.encode())]
    if conflict is not None:
        headers.append((b"delay-on-conflict", conflict.encode()))
    replaces = conflict == "replace"
    terms = terms._replace(own_id=own_id, replaces=replaces)
    return headers, terms, "sent to replace an own id" if replaces else "sent with an own id"


def _keyed(rnd: Random, _: int, terms: Terms) -> Added:
    key, digest = rnd.choice(KEYS), rnd.choice(("d1", "d1", "d1", "d2"))
    terms = terms._replace(idempotency=(key, digest))
    return [(b"delayline-idempotency", f"{digest} {key}".encode())], terms, "sent with an idempotency key"


def _with_deadline(rnd: Random, due_ms: int, terms: Terms) -> Added:
    left_ms = rnd.choice((1, 20, 100, 500, 2000, 3_700_000))
    if rnd.random() < 0.5:
        text = b"%dms" % left_ms
        return [(b"delay-ttl", text)], terms._replace(ttl_ms=left_ms), "sent with a time to live"
    text = b"%d" % (due_ms + left_ms)
    return [(b"delay-expire-at", text)], terms._replace(expire_at_ms=due_ms + left_ms), "sent with a deadline"


def _series(rnd: Random, now_ms: int, due_ms: int | None) -> Wish:
    times = rnd.choice((1, 2, 3, 3, 5, None))
    missed = rnd.choice((None, "all", "latest", "none"))
    make: Callable[[Random, int, int | None], Wish] = _gaps
    if due_ms is None and rnd.random() < 0.5:
        make = _calendar
    headers, terms, situations, first_ms = make(rnd, now_ms, due_ms)
    terms = terms._replace(times_left=times, missed=missed or "latest")
    if times is not None:
        headers.append((b"delay-times", b"%d" % times))
    else:
        situations.append("sent to repeat without end")
    if missed is not None:
        headers.append((b"delay-missed", missed.encode()))
    return Wish(headers, terms, situations, first_ms)


def _gaps(rnd: Random, now_ms: int, due_ms: int | None) -> Wish:
    text, gap_ms = rnd.choice(tuple(GAPS_MS.items()))
    headers: list[Header] = [(b"delay-every", text.encode())]
    backoff = rnd.choice((None, None, 1.5, 2.0, 1.0001))
    if backoff is not None:
        headers.append((b"delay-backoff", b"%g" % backoff))
    terms = NO_TERMS._replace(gap_ms=gap_ms, backoff=backoff)
    return Wish(headers, terms, ["sent to repeat by a gap"], now_ms + gap_ms if due_ms is None else due_ms)


def _calendar(rnd: Random, now_ms: int, _: int | None) -> Wish:
    text, period_ms = rnd.choice(tuple(CALENDARS_MS.items()))
    zone = rnd.choice(ZONES)
    headers: list[Header] = [(b"delay-cron", text.encode())]
    if zone != "UTC":
        headers.append((b"delay-time-zone", zone.encode()))
    terms = NO_TERMS._replace(cron=cron_text(text, zone), calendar_ms=period_ms)
    return Wish(headers, terms, ["sent to repeat by a calendar"], (now_ms // period_ms + 1) * period_ms)
