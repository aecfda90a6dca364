"""Histories of names, repeats, deadlines, pause and purge: good ones, and the same with one thing changed."""

from typing import Any

import pytest

from tests.simulation.checker import check
from tests.simulation.history import (
    CONTROL,
    DECISION,
    MESSAGE,
    NO_TERMS,
    OPERATION,
    REAPPEND,
    Appended,
    Committed,
    Cursor,
    Delivered,
    Ended,
    Fact,
    Key,
    Terms,
)

S = "orders.0"
NOTHING = (-1, -1)


def message(offset: int, due_ms: int, terms: Terms = NO_TERMS, **other: Any) -> Appended:
    payload = b"%d" % offset
    return Appended(S, offset, MESSAGE, 100, f"id{offset}", due_ms, payload=payload, terms=terms, **other)


def asked(offset: int, target: str, due_ms: int | None = None, if_version: int | None = None) -> Appended:
    return Appended(S, offset, OPERATION, 100, due_ms=due_ms, target=target, if_version=if_version)


def control(offset: int, kind: str) -> Appended:
    return Appended(S, offset, CONTROL, 100, control=kind)


def carried_on(old: Appended, offset: int, due_ms: int, **other: Any) -> Appended:
    assert old.due_ms is not None
    record = Appended(
        S, offset, REAPPEND, 100, old.id, due_ms, 100, old.payload, replaces=(old.due_ms, old.offset),
        terms=old.terms, version=old.version + 1,
    )  # fmt: skip
    return record._replace(**other)


def naming(offset: int, *keys: Key) -> Appended:
    return Appended(S, offset, DECISION, 100, names=keys)


def delivered(sent: Appended, **other: Any) -> Delivered:
    return Delivered(sent.name, sent.due_ms or 0, 100, sent.payload)._replace(**other)


def row(of: Appended, outcome: str, reason: str | None = None, successor: str | None = None) -> dict[str, Any]:
    is_message = of.kind in (MESSAGE, REAPPEND)
    name, due_ms = (of.name, of.due_ms) if is_message else (None, None)
    return {"off": of.offset, "id": name, "due": due_ms, "acc": 100, "out": outcome, "suc": successor, "rsn": reason}


def cursor(next_offset: int, key: Key = NOTHING, epoch: int = 1, *, paused: bool = False) -> Cursor:
    return Cursor(next_offset, key, 0, epoch, f"w{epoch}", 0, paused)


CLAIM = Committed(S, None, cursor(0), rows=[])


def commit(before: Cursor, after: Cursor, rows: list[dict[str, Any]], taken_ms: int, **other: Any) -> Committed:
    return Committed(S, before, after, rows=rows, taken_ms=taken_ms, clock_ms=taken_ms, **other)


def rules_broken(facts: list[Fact]) -> set[str]:
    return {violation.rule for violation in check(facts)}


# --- names

KEEPS, REPLACES = Terms(own_id="a"), Terms(own_id="a", replaces=True)


def two_with_one_name(first: Terms, second: Terms, **other: Any) -> list[Fact]:
    """Both are decided at once, and the second is a duplicate of the first."""
    one, two = message(0, 200, first), message(1, 150, second)
    rows = other.pop("rows", [row(two, "duplicate", other.pop("reason", "own-id"), "id0")])
    decision = naming(2, (150, 1))
    return [one, two, CLAIM, commit(cursor(0), cursor(2), rows, 100, appended=[decision]),
            commit(cursor(2), cursor(3, (200, 0)), [row(one, "delivered"), row(decision, "applied")], 200,
                   deliveries=[delivered(one)]),
            Ended(True)]  # fmt: skip


def replaced(second: Terms = REPLACES, successor: str = "id1") -> list[Fact]:
    one, two = message(0, 150, KEEPS), message(1, 200, second)
    decision = naming(2, (150, 0))
    return [one, two, CLAIM,
            commit(cursor(0), cursor(2), [row(one, "superseded", "replaced", successor)], 100, appended=[decision]),
            commit(cursor(2), cursor(3, (200, 1)), [row(two, "delivered"), row(decision, "applied")], 200,
                   deliveries=[delivered(two)]),
            Ended(True)]  # fmt: skip


KEY = Terms(idempotency=("k", "d1"))


def test_the_later_of_two_with_one_name_is_a_duplicate_of_the_one_that_stays() -> None:
    assert check(two_with_one_name(KEEPS, KEEPS)) == []
    assert check(two_with_one_name(KEY, KEY, reason="idempotency")) == []
    assert check(two_with_one_name(KEY, Terms(idempotency=("k", "d2")), reason="idempotency-reused")) == []


def test_the_earlier_of_two_with_one_name_is_superseded_where_the_later_one_replaces_it() -> None:
    assert check(replaced()) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(two_with_one_name(KEEPS, Terms(own_id="b")), id="another own id"),
        pytest.param(two_with_one_name(KEEPS, REPLACES), id="one that is to replace the other"),
        pytest.param(two_with_one_name(KEY, KEY, reason="idempotency-reused"), id="a mix-up that is none"),
        pytest.param(two_with_one_name(KEY, Terms(idempotency=("j", "d1")), reason="idempotency"), id="another key"),
        pytest.param(replaced(KEEPS), id="replaced, and should be kept"),
        pytest.param(replaced(successor="id0"), id="another successor"),
    ],
)
def test_a_decision_about_a_name_is_wrong(facts: list[Fact]) -> None:
    assert rules_broken(facts) & {"name", "operation"}


def test_two_pending_messages_must_not_have_one_name() -> None:
    one, two = message(0, 200, KEEPS), message(1, 150, KEEPS)

    assert rules_broken([one, two, CLAIM, commit(cursor(0), cursor(2), [], 100)]) == {"name"}


def test_a_claim_must_not_be_delivered_before_its_turn() -> None:
    one = message(0, 100, KEEPS)
    decision = naming(1, (100, 0))
    early = commit(cursor(0), cursor(0, (100, 0)), [row(one, "delivered")], 100, deliveries=[delivered(one)],
                   appended=[decision])  # fmt: skip

    assert rules_broken([one, CLAIM, early]) == {"name"}


def repetition_of_what_ended(epoch: int, outcome: str) -> list[Fact]:
    """The same request after its message was delivered, decided by an owner of that epoch."""
    one, two = message(0, 100, KEY), message(1, 200, KEY)
    end = commit(cursor(0), cursor(1, (100, 0)), [row(one, "delivered")], 100, deliveries=[delivered(one)])
    facts: list[Fact] = [one, CLAIM, end, two]
    before = cursor(1, (100, 0))
    if epoch == 2:
        facts.append(Committed(S, before, before := cursor(1, (100, 0), 2), rows=[]))
    if outcome == "duplicate":
        rows, appended = [row(two, "duplicate", "idempotency", "id0")], [naming(2, (200, 1))]
    else:
        rows, appended = [], []
    return [*facts, commit(before, cursor(2, (100, 0), epoch), rows, 100, appended=appended)]


@pytest.mark.parametrize(
    ("epoch", "outcome", "broken"),
    [(1, "duplicate", set()), (1, "accepted", {"name"}), (2, "duplicate", {"name"}), (2, "accepted", set())],
)
def test_a_key_is_remembered_by_the_owner_that_saw_its_message_end(
    epoch: int, outcome: str, broken: set[str]
) -> None:
    assert rules_broken(repetition_of_what_ended(epoch, outcome)) == broken


# --- repeats


def series(first: Terms, taken_ms: int, **other: Any) -> list[Fact]:
    """Two deliveries of a message that is due at 1000; `other` are changes of the record between them."""
    one = message(0, 1000, first)
    two = carried_on(one, 1, 2000, terms=first._replace(occurrence=2, times_left=1))._replace(**other)
    return [one, CLAIM,
            commit(cursor(0), cursor(1, (1000, 0)), [row(one, "delivered", None, two.name)], taken_ms,
                   deliveries=[delivered(one)], appended=[two]),
            commit(cursor(1, (1000, 0)), cursor(2, (two.due_ms or 0, 1)), [row(two, "delivered")], 60_000,
                   deliveries=[delivered(two)]),
            Ended(True)]  # fmt: skip


TWICE = Terms(gap_ms=1000, times_left=2, missed="all")


def test_a_message_that_repeats_is_delivered_as_often_as_it_asks() -> None:
    assert check(series(TWICE, 1000)) == []
    grown = {"terms": Terms(gap_ms=1500, backoff=1.5, times_left=1, missed="all", occurrence=2)}
    assert check(series(TWICE._replace(backoff=1.5), 1000, **grown)) == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"terms": TWICE._replace(times_left=1)}, id="the number stays"),
        pytest.param({"terms": TWICE._replace(occurrence=3, times_left=1)}, id="a number is left out"),
        pytest.param({"terms": TWICE._replace(occurrence=2)}, id="it is not counted"),
        pytest.param({"due_ms": 2001}, id="another time"),
        pytest.param({"terms": NO_TERMS}, id="it repeats no longer"),
    ],
)
def test_a_series_is_broken_where(other: dict[str, Any]) -> None:
    assert "series" in rules_broken(series(TWICE, 1000, **other))


def test_a_series_that_is_not_carried_on_is_noticed() -> None:
    one = message(0, 1000, TWICE)
    end = commit(cursor(0), cursor(1, (1000, 0)), [row(one, "delivered", None, "id0~2")], 1000,
                 deliveries=[delivered(one)])  # fmt: skip

    assert rules_broken([one, CLAIM, end]) == {"series"}


def test_an_occurrence_under_the_number_of_another_is_noticed() -> None:
    one = message(0, 1000, TWICE._replace(times_left=1))
    end = commit(cursor(0), cursor(1, (1000, 0)), [row(one, "delivered")], 1000,
                 deliveries=[delivered(one, id="id0~2")])  # fmt: skip

    assert rules_broken([one, CLAIM, end]) == {"series"}


def missed(policy: str, tick_ms: int) -> list[Fact]:
    """Taken at 3500, when the times 1000, 2000 and 3000 have passed."""
    terms = Terms(gap_ms=1000, times_left=1, missed=policy)
    one = message(0, 1000, terms)
    end = commit(cursor(0), cursor(1, (1000, 0)), [row(one, "delivered")], 3500,
                 deliveries=[delivered(one, due_ms=tick_ms)])  # fmt: skip
    return [one, CLAIM, end, Ended(True)]


@pytest.mark.parametrize(("policy", "tick_ms"), [("all", 1000), ("latest", 3000)])
def test_what_was_missed_is_made_up_for_as_the_series_asks(policy: str, tick_ms: int) -> None:
    assert check(missed(policy, tick_ms)) == []
    assert rules_broken(missed(policy, 2000)) == {"payload"}


def test_what_was_missed_is_not_delivered_where_none_is_to_be() -> None:
    assert "series" in rules_broken(missed("none", 3000))


def test_a_calendar_is_fixed_before_it_is_followed() -> None:
    terms = Terms(cron="* * * * * * in UTC", calendar_ms=1000, times_left=1)
    one = message(0, 1000, terms)
    two = carried_on(one, 1, 1000)
    fixed = commit(cursor(0), cursor(1), [row(one, "superseded", "scheduled", "id0~1")], 100, appended=[two])
    end = commit(cursor(1), cursor(2, (1000, 1)), [row(two, "delivered")], 1000, deliveries=[delivered(two)])

    assert check([one, CLAIM, fixed, end, Ended(True)]) == []
    unfixed = commit(cursor(0), cursor(1, (1000, 0)), [row(one, "delivered")], 1000, deliveries=[delivered(one)])
    assert "series" in rules_broken([one, CLAIM, unfixed])


# --- operations


def cancelled(target: str, terms: Terms, *, goes_on: bool, if_version: int | None = None) -> list[Fact]:
    one, op = message(0, 1000, terms), asked(1, target, if_version=if_version)
    two = carried_on(one, 2, 2000, terms=terms._replace(occurrence=2))
    appended = [two] if goes_on else [naming(2, (1000, 0))]
    successor = two.name if goes_on else None
    rows = [row(one, "cancelled", "cancelled", successor), row(op, "applied", "cancelled")]
    return [one, op, CLAIM, commit(cursor(0), cursor(2), rows, 100, appended=appended)]


def test_a_cancel_ends_a_series_and_of_an_occurrence_that_one() -> None:
    assert check(cancelled("id0", TWICE, goes_on=False)) == []
    assert check(cancelled("id0~1", TWICE, goes_on=True)) == []
    assert check(cancelled("a", KEEPS, goes_on=False)) == []
    assert check(cancelled("id0", KEEPS, goes_on=False, if_version=0)) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(cancelled("id0", TWICE, goes_on=True), id="a series goes on"),
        pytest.param(cancelled("id0~1", TWICE, goes_on=False), id="an occurrence ends the series"),
        pytest.param(cancelled("id0~2", TWICE, goes_on=True), id="another occurrence"),
        pytest.param(cancelled("b", KEEPS, goes_on=False), id="another own id"),
        pytest.param(cancelled("id0", KEEPS, goes_on=False, if_version=1), id="another version"),
    ],
)
def test_a_cancel_is_followed_wrongly_where(facts: list[Fact]) -> None:
    assert rules_broken(facts) & {"operation", "series", "name"}


# --- deadlines


def at_deadline(taken_ms: int, outcome: str, terms: Terms) -> list[Fact]:
    one = message(0, 1000, terms)
    expired = outcome == "expired"
    end = commit(cursor(0), cursor(1, (1000, 0)), [row(one, outcome, "deadline" if expired else None)], taken_ms,
                 deliveries=[] if expired else [delivered(one)])  # fmt: skip
    return [one, CLAIM, end, Ended(True)]


@pytest.mark.parametrize("terms", [Terms(ttl_ms=50), Terms(expire_at_ms=1050)])
def test_what_has_a_deadline_is_delivered_up_to_it_and_expires_behind_it(terms: Terms) -> None:
    assert check(at_deadline(1050, "delivered", terms)) == []
    assert check(at_deadline(1051, "expired", terms)) == []
    assert rules_broken(at_deadline(1051, "delivered", terms)) == {"deadline"}
    assert rules_broken(at_deadline(1050, "expired", terms)) == {"deadline"}


# --- pause, resume, purge


def paused(*, in_cursor: bool, delivers: bool) -> list[Fact]:
    stop, one = control(0, "pause"), message(1, 200)
    rows = [row(stop, "applied", "paused")]
    deliveries = []
    if delivers:
        rows, deliveries = [*rows, row(one, "delivered")], [delivered(one)]
    after = cursor(2, (200, 1) if delivers else NOTHING, paused=in_cursor)
    return [stop, one, CLAIM, commit(cursor(0), after, rows, 200, deliveries=deliveries)]


def test_while_it_is_paused_nothing_is_delivered() -> None:
    assert check(paused(in_cursor=True, delivers=False)) == []
    assert rules_broken(paused(in_cursor=False, delivers=False)) == {"control"}
    assert rules_broken(paused(in_cursor=True, delivers=True)) == {"control"}


def test_the_next_owner_of_a_paused_shard_does_not_deliver_either() -> None:
    stopped = paused(in_cursor=True, delivers=False)
    claim = Committed(S, cursor(2, paused=True), cursor(2, epoch=2, paused=True), rows=[])
    one = message(1, 200)
    resumed = commit(cursor(2, epoch=2, paused=True), cursor(2, (200, 1), 2), [row(one, "delivered")], 200,
                     deliveries=[delivered(one)])  # fmt: skip

    assert check([*stopped, claim]) == []
    assert rules_broken([*stopped, claim, resumed]) == {"control"}
    assert rules_broken([*stopped, claim._replace(after=cursor(2, epoch=2))]) == {"claim"}


def purged(*offsets: int) -> list[Fact]:
    """Messages 0 and 1, a purge, message 3: these of them are cancelled."""
    sent = {offset: message(offset, 200) for offset in (0, 1, 3)}
    purge = control(2, "purge")
    rows = [*(row(sent[offset], "cancelled", "purged") for offset in offsets), row(purge, "applied", "purged")]
    decision = naming(4, *((200, offset) for offset in offsets))
    return [sent[0], sent[1], purge, sent[3], CLAIM, commit(cursor(0), cursor(4), rows, 100, appended=[decision])]


def test_a_purge_ends_all_that_was_accepted_before_it_and_nothing_else() -> None:
    assert check(purged(0, 1)) == []
    assert rules_broken(purged(0)) == {"operation"}
    assert rules_broken(purged(0, 1, 3)) >= {"control"}


def test_a_purge_may_take_several_commits_but_no_one_else_may_cancel() -> None:
    one, purge = message(0, 200), control(1, "purge")
    part = commit(cursor(0), cursor(1), [row(one, "cancelled", "purged")], 100, appended=[naming(2, (200, 0))])
    end = commit(cursor(1), cursor(3), [row(purge, "applied", "purged"), row(naming(2), "applied")], 100)

    assert check([one, purge, CLAIM, part, end, Ended(True)]) == []
    assert rules_broken([one, CLAIM, part]) >= {"control"}
