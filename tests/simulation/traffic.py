"""What clients send: every directive that is built, and every way of getting one wrong.

Each `Sent` knows from its own making when it is due and what must come out: never by asking the service's parser.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from delayline.records.message import Header
from delayline.records.record import encode_body
from tests.simulation.history import NO_TERMS, Terms
from tests.simulation.wishes import OWN_IDS, wish

DELAYS_MS = (0, 1, 5, 20, 20, 50, 120, 300)
WISHING_DELAYS_MS = (*DELAYS_MS[1:], 5000, 5000, 100_000)
"""Some wait so long that others meet them, and another owner reads them again."""
REFUSED_BY_TARGET = b"refused by the target"


class InForce(NamedTuple):
    """The rules in force by the log, as far as they decide when a record is due."""

    levels_ms: tuple[int, ...]
    default_delay_ms: int


Due = Callable[[int, InForce], int]
"""(accepted_at_ms, rules in force) -> due_ms."""


class Sent(NamedTuple):
    """A record as a client sends it. `situation` is what the run counts it as."""

    body: bytes
    due_ms: Due
    payload: tuple[Any, ...]
    situation: str
    undeliverable: bool = False
    refused: bool = False
    terms: Terms = NO_TERMS
    situations: Sequence[str] = ()  # others


def at_once(accepted_at_ms: int, _: InForce) -> int:
    return accepted_at_ms


def _by_default(accepted_at_ms: int, rules: InForce) -> int:
    return accepted_at_ms + rules.default_delay_ms


def _after(delay_ms: int) -> Due:
    return lambda accepted_at_ms, _: accepted_at_ms + delay_ms


def _at(due_ms: int) -> Due:
    return lambda _accepted, _rules: due_ms


def _at_level(level: int) -> Due:
    """RocketMQ's rule: nothing at or below zero, the last one for everything beyond the table."""

    def due_ms(accepted_at_ms: int, rules: InForce) -> int:
        levels = rules.levels_ms
        return accepted_at_ms if level <= 0 else accepted_at_ms + levels[min(level, len(levels)) - 1]

    return due_ms


class Request(NamedTuple):
    """An operation as a client sends it; `due_ms` is None for a cancel."""

    body: bytes
    target: str
    due_ms: Due | None
    situation: str
    if_version: int | None = None
    situations: Sequence[str] = ()  # others


class Clients:
    """Makes records, each with a value of its own."""

    def __init__(self, rnd: Random) -> None:
        self._rnd = rnd
        self._count = 0

    def send(self, now_ms: int) -> Sent:
        """One record, sent when the broker's clock shows `now_ms`."""
        self._count += 1
        make = self._rnd.choices(_MAKERS, _WEIGHTS)[0]
        sent: Sent = make(self, now_ms)
        return sent

    def ask(self, ids: Sequence[str], now_ms: int) -> Request:
        """An operation on one of these messages, mostly one of the last; sometimes on one that nobody has sent."""
        rnd = self._rnd
        target, situations = self._whom(ids, now_ms)
        headers: list[Header] = [(b"delay-ref", target.encode())]
        version = None
        if rnd.random() < 0.15:
            version = rnd.choice((0, 0, 1, 2))
            headers.append((b"delayline-if-match", b"%d" % version))
            situations.append("operation under a condition")
        if rnd.random() < 0.5:
            return Request(cancel_body(headers), target, None, "cancel sent", version, situations)
        delay_ms = rnd.choice(DELAYS_MS)
        time, due_ms = (b"delay-ms", b"%d" % delay_ms), _after(delay_ms)
        if rnd.random() < 0.3:
            moment_ms = now_ms + rnd.choice((-100, *DELAYS_MS))
            time, due_ms = (b"deliver-at", b"%d" % moment_ms), _at(moment_ms)
        body = encode_body(b"k", None, [(b"delay-op", b"reschedule"), *headers, time])
        return Request(body, target, due_ms, "reschedule sent", version, situations)

    def _whom(self, ids: Sequence[str], now_ms: int) -> tuple[str, list[str]]:
        rnd, draw = self._rnd, self._rnd.random()
        if draw < 0.1:
            return f"orders.0.{rnd.randrange(40)}.{now_ms}", []
        if draw < 0.3:
            return rnd.choice(OWN_IDS), ["operation on an own id"]
        if draw < 0.45:
            return f"{rnd.choice(ids[-8:])}~{rnd.choice((1, 1, 2, 3))}", ["operation on an occurrence"]
        return rnd.choice(ids[-8:]), []

    def command(self) -> tuple[bytes, str]:
        """A control record as an operator sends it, and what it means."""
        kind = self._rnd.choices(("pause", "resume", "purge"), (3, 5, 4))[0]
        return control_body(kind), kind

    def _message(self, directives: Sequence[Header], due_ms: Due, situation: str) -> Sent:
        """A good one, sometimes with a key, a header of its own, and headers of ours that a consumer forwarded."""
        rnd = self._rnd
        key = None if rnd.random() < 0.5 else b"k%d" % rnd.randrange(3)
        value = b"%d" % self._count
        kept: list[Header] = [] if rnd.random() < 0.7 else [(b"src", b"web"), (b"empty", None)]
        echoed = [] if rnd.random() < 0.9 else _ECHOED
        body = encode_body(key, value, [*echoed, *kept[:1], *directives, *kept[1:]])
        return Sent(body, due_ms, (key, value, tuple(kept)), situation)

    def delayed(self, _: int) -> Sent:
        delay_ms = self._rnd.choice(DELAYS_MS)
        text = b"%d" % delay_ms
        directive = (b"delay-ms", text) if self._rnd.random() < 0.5 else (b"delay", text + b"ms")
        return self._message([directive], _after(delay_ms), "sent with a delay")

    def at_moment(self, now_ms: int) -> Sent:
        due_ms = now_ms + self._rnd.choice(DELAYS_MS)
        return self._message([(b"deliver-at", b"%d" % due_ms)], _at(due_ms), "sent with a moment")

    def in_the_past(self, now_ms: int) -> Sent:
        due_ms = now_ms - self._rnd.choice((1, 10, 100, 5000))
        return self._message([(b"deliver-at", b"%d" % due_ms)], _at(due_ms), "sent with a moment in the past")

    def at_level(self, _: int) -> Sent:
        level = self._rnd.choice((0, 1, 1, 2, 2, 3, 9))
        return self._message([(b"delay-level", b"%d" % level)], _at_level(level), "sent with a level")

    def without(self, _: int) -> Sent:
        return self._message([], _by_default, "sent without a directive")

    def wishing(self, now_ms: int) -> Sent:
        """A message that asks for more than a time; of some, the target will have nothing."""
        rnd = self._rnd
        draw, delay_ms = rnd.random(), rnd.choice(WISHING_DELAYS_MS)
        time: list[Header] = [(b"delay-ms", b"%d" % delay_ms)]
        due_ms: int | None = now_ms + delay_ms
        if draw < 0.2:
            due_ms = now_ms + rnd.choice((-100, -5, *DELAYS_MS))
            time = [(b"deliver-at", b"%d" % due_ms)]
        elif draw < 0.45:
            time, due_ms = [], None
        wished = wish(rnd, now_ms, due_ms)
        sent = self._message([*time, *wished.headers], _at(wished.due_ms or 0), "sent with more than a time")
        sent = sent._replace(terms=wished.terms, situations=wished.situations)
        if rnd.random() > 0.04:
            return sent
        value = REFUSED_BY_TARGET + sent.payload[1]
        body = encode_body(None, value, [*time, *wished.headers])
        return sent._replace(body=body, payload=(None, value, ()), undeliverable=True, refused=True)

    def refused(self, _: int) -> Sent:
        """Fine by every rule of ours, but its target will not take it."""
        sent = self._message([(b"delay-ms", b"20")], _after(20), "refused by the target")
        value = REFUSED_BY_TARGET + sent.payload[1]
        return sent._replace(
            body=encode_body(None, value, [(b"delay-ms", b"20")]),
            payload=(None, value, ()),
            undeliverable=True,
            refused=True,
        )

    def invalid(self, now_ms: int) -> Sent:
        situation, directives = self._rnd.choice(_WRONG)
        sent = self._message(directives, at_once, situation)
        value = sent.payload[1]
        kept = tuple(header for header in directives if not header[0].startswith(b"delayline-"))
        return sent._replace(
            body=encode_body(None, value, directives), payload=(None, value, kept), undeliverable=True
        )

    def malformed(self, _: int) -> Sent:
        body = b"\x7f" + b"%d" % self._count
        return Sent(body, at_once, (None, body, ()), "malformed record", undeliverable=True)


def cancel_body(headers: Sequence[Header]) -> bytes:
    """A cancel, as a client sends it."""
    return encode_body(None, None, [(b"delay-op", b"cancel"), *headers])


def control_body(kind: str) -> bytes:
    """A control record, as an operator sends it."""
    return encode_body(None, None, [(b"delayline-control", kind.encode())])


_ECHOED: list[Header] = [(b"delayline-id", b"orders.0.9.9"), (b"delayline-due", b"1")]

_WRONG: tuple[tuple[str, list[Header]], ...] = (
    ("invalid directive", [(b"delay-ms", b"soon")]),
    ("invalid directive", [(b"delay-ms", b"5"), (b"delay-ms", b"5")]),
    ("contradictory directives", [(b"delay-ms", b"5"), (b"delay", b"9ms")]),
    ("beyond the horizon", [(b"delay", b"99999d")]),
    ("forged header", [(b"delayline-origin", b"orders.0.1.1767225600000"), (b"delayline-due", b"1")]),
    ("invalid retry", [(b"delay-retry", b"billing"), (b"delay", b"1s")]),
    ("invalid operation", [(b"delay-op", b"cancel"), (b"delay-ref", b"orders.0.1.1767225600000"), (b"delay", b"1s")]),
)

_MAKERS, _WEIGHTS = zip(
    (Clients.wishing, 35),
    (Clients.delayed, 30),
    (Clients.at_moment, 15),
    (Clients.in_the_past, 6),
    (Clients.at_level, 15),
    (Clients.without, 5),
    (Clients.refused, 3),
    (Clients.invalid, 6),
    (Clients.malformed, 2),
    strict=True,
)
