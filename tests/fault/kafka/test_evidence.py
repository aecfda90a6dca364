"""The judge of real runs can fail: a small run as clients and readers saw it, and the same with something amiss."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, encode_audit
from delayline.names import Names
from delayline.records.message import Key, Shard
from delayline.records.record import encode_body
from tests.fault.kafka.clients import Fate, Ledger, Place, Sent
from tests.fault.kafka.evidence import MARKERS_MS, Evidence, Outage
from tests.fault.kafka.figures import chances, waits
from tests.fault.kafka.reader import At, Seen
from tests.simulation.checker import check

T0 = 1_767_225_600_000
SHARD, NAMES = ("orders", 0), Names("delayline")
BUFFER, AUDIT, CURSOR = (NAMES.buffer("orders"), 0), (NAMES.audit, 0), (NAMES.cursor, 0)
DELAYS_MS = (300, 100, 200)
"""Records 0, 1 and 2 are accepted one millisecond after the other and due in the order 1, 2, 0."""


def seen(offset: int, at_ms: int, body: bytes) -> Seen:
    return Seen(offset, at_ms, at_ms + 5, body)


def due_ms(number: int) -> int:
    return T0 + number + DELAYS_MS[number]


def message_id(number: int) -> str:
    return f"orders.0.{number}.{due_ms(number)}"


def accepted(number: int) -> Seen:
    directive = (b"delay-ms", b"%d" % DELAYS_MS[number])
    return seen(number, T0 + number, encode_body(None, b"tag-%d" % number, [directive]))


def delivered(number: int, offset: int, at_ms: int | None = None) -> Seen:
    ours = [
        (b"delayline-accepted", b"%d" % (T0 + number)),
        (b"delayline-id", message_id(number).encode()),
        (b"delayline-due", b"%d" % due_ms(number)),
    ]
    return seen(offset, at_ms or due_ms(number) + 2, encode_body(None, b"tag-%d" % number, ours))


def row(number: int) -> AuditRow:
    return AuditRow(number, message_id(number), due_ms(number), T0 + number, Outcome.DELIVERED)


def outcomes(offset: int, *rows: AuditRow) -> Seen:
    (body,) = encode_audit(Shard("orders", "0"), 1, T0 + 400, rows)
    return seen(offset, T0 + 400, body)


def cursor(offset: int, next_offset: int, key: Key, epoch: int = 1) -> Seen:
    value = Cursor(
        topic_id=b"t" * 16, next_offset=next_offset, delivered_key=key, owner_epoch=epoch, writer=f"w{epoch}"
    )
    return seen(offset, T0 + 400, encode_body(b"orders.0", value.encode()))


LAST = Key(due_ms(0), 0)


def run() -> Evidence:
    """Three messages, delivered by two commits: 1 and 2, then 0."""
    ledger = Ledger()
    for number, delay_ms in enumerate(DELAYS_MS):
        tag = b"tag-%d" % number
        sent = Sent(tag, "orders", (None, tag, ()), delay_ms)
        sent.acknowledge(Place(0, number, T0 + number))
        ledger.sent[tag] = sent
    topics: dict[At, list[Seen]] = {
        BUFFER: [accepted(number) for number in range(3)],
        SHARD: [delivered(1, 0, due_ms(2) + 2), delivered(2, 1), delivered(0, 3)],
        AUDIT: [outcomes(0, row(1), row(2)), outcomes(2, row(0))],
        CURSOR: [cursor(0, 0, Key(-1, -1)), cursor(2, 3, Key(due_ms(2), 2)), cursor(4, 3, LAST)],
    }
    return Evidence(NAMES, [SHARD], ledger, topics)


def broken(evidence: Evidence) -> set[str]:
    return {violation.rule for violation in check(evidence.history())}


def target(evidence: Evidence) -> list[Seen]:
    found = evidence.seen[SHARD]
    assert isinstance(found, list)
    return found


def test_a_run_that_kept_every_promise_is_found_good() -> None:
    assert check(run().history()) == []


def lose(evidence: Evidence) -> None:
    del target(evidence)[-1]


def repeat(evidence: Evidence) -> None:
    target(evidence).append(delivered(0, 5))


def hurry(evidence: Evidence) -> None:
    target(evidence)[-1] = delivered(0, 3, due_ms(0) - 1)


def overtake(evidence: Evidence) -> None:
    """Record 2 is due behind record 1 and comes a commit earlier."""
    target(evidence)[:] = [delivered(2, 0), delivered(1, 2), delivered(0, 4)]


def alter(evidence: Evidence) -> None:
    one = target(evidence)[-1]
    target(evidence)[-1] = one._replace(body=one.body.replace(b"tag-0", b"TAG-0"))


def invent(evidence: Evidence) -> None:
    evidence.ledger.sent[b"tag-0"].fate = Fate.ABORTED


def forget_in_the_buffer(evidence: Evidence) -> None:
    """What was acknowledged to a client is in no topic at all."""
    evidence.seen[BUFFER].pop(0)  # type: ignore[attr-defined]
    lose(evidence)


def drop_outcomes(evidence: Evidence) -> None:
    evidence.seen[AUDIT].pop()  # type: ignore[attr-defined]


def repeat_outcomes(evidence: Evidence) -> None:
    evidence.seen[AUDIT].append(outcomes(4, row(0)))  # type: ignore[attr-defined]


def go_back(evidence: Evidence) -> None:
    evidence.seen[CURSOR].append(cursor(6, 2, LAST))  # type: ignore[attr-defined]


def claim_too_much(evidence: Evidence) -> None:
    evidence.seen[CURSOR].append(cursor(6, 4, LAST, epoch=2))  # type: ignore[attr-defined]


def stop_short(evidence: Evidence) -> None:
    """The last cursor does not cover the last delivery: the next owner would deliver it again."""
    evidence.seen[CURSOR].pop()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tamper", "rule"),
    [
        (lose, "lost"),
        (repeat, "duplicate"),
        (hurry, "early"),
        (overtake, "order"),
        (alter, "payload"),
        (invent, "duplicate"),
        (forget_in_the_buffer, "lost"),
        (drop_outcomes, "outcome"),
        (repeat_outcomes, "outcome"),
        (go_back, "cursor"),
        (claim_too_much, "claim"),
        (stop_short, "sentence"),
    ],
)
def test_a_tampered_run_is_found_out(tamper: Callable[[Evidence], None], rule: str) -> None:
    evidence = run()
    tamper(evidence)
    assert rule in broken(evidence)


def unknown(evidence: Evidence) -> Evidence:
    """The sender of message 0 got no answer."""
    sent = evidence.ledger.sent[b"tag-0"]
    sent.fate, sent.place = Fate.UNKNOWN, None
    return evidence


def test_a_message_of_unknown_fate_that_was_stored_must_arrive() -> None:
    evidence = unknown(run())
    before = broken(evidence)
    lose(evidence)
    assert (before, "lost" in broken(evidence)) == (set(), True)


def test_a_message_of_unknown_fate_that_was_not_stored_is_missed_by_nobody() -> None:
    evidence = unknown(run())
    evidence.seen[BUFFER].pop(0)  # type: ignore[attr-defined]
    lose(evidence)
    drop_outcomes(evidence)
    stop_short(evidence)
    assert broken(evidence) == set()


def test_each_zero_is_printed_with_its_chances() -> None:
    evidence = run()
    found = chances(evidence, evidence.history())
    assert (found.acknowledged, found.delivered, found.rows, found.cursors, found.claims) == (3, 3, 3, 3, 1)
    assert replace(found, unknown=2) + found == replace(
        found, acknowledged=6, unknown=2, delivered=6, rows=6, cursors=6, claims=2
    )


def test_what_is_early_shows_in_the_figures_too() -> None:
    evidence = run()
    hurry(evidence)
    assert (waits(run()).closest_ms, waits(evidence).closest_ms) == (2, -1)


def hidden(committed_ms: int | None) -> Evidence:
    """Message 1 was reported as committed then, and cannot be read, unlike what is behind it."""
    evidence = run()
    evidence.ledger.sent[b"tag-1"].committed_ms = committed_ms
    seen = dict(evidence.seen)
    seen[BUFFER] = [accepted(0), accepted(2)]
    seen[SHARD] = [delivered(2, 1), delivered(0, 3)]
    seen[AUDIT] = [outcomes(0, row(2)), outcomes(2, row(0))]
    return replace(evidence, seen=seen, outages=[Outage(T0 + 5000, T0 + 9000)])


@pytest.mark.parametrize("committed_ms", [T0 + 5000 - MARKERS_MS, T0 + 5000, T0 + 12_000])
def test_what_the_only_broker_committed_and_forgot_when_it_was_killed_is_counted_apart(committed_ms: int) -> None:
    evidence = hidden(committed_ms)
    assert (evidence.forgotten(), broken(evidence)) == ({b"tag-1"}, set())


@pytest.mark.parametrize("committed_ms", [None, T0, T0 + 20_000])
def test_what_nobody_can_read_for_no_such_reason_is_missed(committed_ms: int | None) -> None:
    evidence = hidden(committed_ms)
    assert not evidence.forgotten()
    assert broken(evidence)


def test_what_is_hidden_from_the_end_on_is_missed_and_what_was_read_is_not_forgotten() -> None:
    last = hidden(T0 + 5000)
    last = replace(last, seen={**last.seen, BUFFER: [accepted(0)]})
    assert broken(last)
    whole = replace(run(), outages=[Outage(T0, T0 + 9000)])
    whole.ledger.sent[b"tag-1"].committed_ms = T0
    assert (whole.forgotten(), broken(whole)) == (set(), set())
