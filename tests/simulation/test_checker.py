"""The judge is judged by hand-made histories: a good one, and one broken in each way it must notice."""

from typing import Any

import pytest

from tests.simulation.checker import check
from tests.simulation.history import (
    DECISION,
    MESSAGE,
    REAPPEND,
    RULES,
    Appended,
    Committed,
    Cursor,
    Dead,
    Delivered,
    Ended,
    Fact,
    Failed,
    Key,
    Limited,
    Moved,
    Trimmed,
)

S = "orders.0"
NOTHING = (-1, -1)


def message(offset: int, due_ms: int, **other: Any) -> Appended:
    return Appended(S, offset, MESSAGE, 100, f"id{offset}", due_ms, payload=b"%d" % offset, **other)


def delivered(offset: int, due_ms: int) -> Delivered:
    return Delivered(f"id{offset}", due_ms, 100, b"%d" % offset)


def row(offset: int, due_ms: int | None, outcome: str = "delivered", **other: Any) -> dict[str, Any]:
    message_id = None if due_ms is None else f"id{offset}"
    return {"off": offset, "id": message_id, "due": due_ms, "acc": 100, "out": outcome, "suc": None} | other


def cursor(next_offset: int, key: Key = NOTHING, low: int = 0, epoch: int = 1) -> Cursor:
    return Cursor(next_offset, key, low, epoch, f"w{epoch}", 0)


CLAIM = Committed(S, None, cursor(0), rows=[])


def delivery_of_both(**other: Any) -> Committed:
    """Records 0 (due 200) and 1 (due 150), in the order of their keys."""
    fact = Committed(
        S,
        cursor(0),
        cursor(2, (200, 0), 2),
        deliveries=[delivered(1, 150), delivered(0, 200)],
        rows=[row(1, 150), row(0, 200)],
        clock_ms=200,
    )
    return fact._replace(**other)


SENT: list[Fact] = [message(0, 200), message(1, 150)]


def rules_broken(*facts: Fact) -> set[str]:
    return {violation.rule for violation in check(facts)}


def test_a_run_in_which_everything_arrives_is_good() -> None:
    assert check([*SENT, CLAIM, delivery_of_both(), Trimmed(S, 2), Ended(True)]) == []


def test_a_history_of_topics_alone_can_be_judged() -> None:
    assert check([*SENT, Committed(S, deliveries=[delivered(1, 150), delivered(0, 200)]), Ended(True)]) == []


def test_a_message_that_never_arrives_is_lost() -> None:
    facts = [*SENT, Committed(S, deliveries=[delivered(1, 150)]), Ended(True)]

    assert [violation.text for violation in check(facts)] == ["id0 (record 0) was accepted and came to nothing"]


def test_a_message_may_still_be_on_its_way_when_the_run_was_cut_short() -> None:
    assert check([*SENT, Committed(S, deliveries=[delivered(1, 150)]), Ended(False)]) == []


@pytest.mark.parametrize(
    ("commit", "rule"),
    [
        pytest.param({"clock_ms": 199}, "early", id="delivered before its due time"),
        pytest.param({"deliveries": [delivered(0, 200), delivered(1, 150)]}, "order", id="keys do not ascend"),
        pytest.param({"deliveries": [delivered(1, 150)] * 2 + [delivered(0, 200)]}, "duplicate", id="comes twice"),
        pytest.param({"deliveries": [delivered(1, 150), Delivered("idX", 200)]}, "duplicate", id="one nobody sent"),
        pytest.param({"deliveries": [Delivered("id1", 150, 100, b"!"), delivered(0, 200)]}, "payload", id="a body"),
        pytest.param({"deliveries": [Delivered("id1", 151), delivered(0, 200)]}, "payload", id="other due time"),
        pytest.param({"deliveries": [Delivered("id1", 150, 99), delivered(0, 200)]}, "payload", id="acceptance"),
        pytest.param({"deliveries": [delivered(1, 150)], "rows": [row(1, 150)]}, "sentence", id="covered, not ended"),
        pytest.param({"after": cursor(1, (200, 0), 0)}, "sentence", id="ended above O without a name"),
        pytest.param({"after": cursor(2, (300, 0), 2)}, "cursor", id="D beyond the last delivered key"),
        pytest.param({"after": cursor(2, (200, 0), 3)}, "low", id="L above O"),
        pytest.param({"before": cursor(1)}, "cursor", id="a cursor that nobody committed"),
        pytest.param({"after": cursor(2, (200, 0), 2, epoch=3)}, "claim", id="an epoch is left out"),
        pytest.param({"after": cursor(2, (200, 0), 2)._replace(writer="x")}, "claim", id="another writer"),
        pytest.param({"after": cursor(2, (200, 0), 2)._replace(rules_number=1)}, "rules", id="rules nobody wrote"),
        pytest.param({"rows": [row(1, 150)]}, "outcome", id="an outcome row is missing"),
        pytest.param({"rows": [row(1, 150), row(0, 200), row(0, 200)]}, "outcome", id="a row comes twice"),
        pytest.param({"rows": [row(1, 150), row(0, 200, "dead")]}, "outcome", id="a row with another outcome"),
        pytest.param({"rows": [row(1, 150), row(0, 200, acc=99)]}, "outcome", id="a row with another acceptance"),
        pytest.param({"rows": [row(1, 150), row(0, 200, suc="id0")]}, "outcome", id="a successor of a delivery"),
        pytest.param({"dead": [Dead("id0")], "deliveries": [delivered(1, 150)]}, "lost", id="a good one is buried"),
    ],
)
def test_a_commit_is_broken_where(commit: dict[str, Any], rule: str) -> None:
    assert rule in rules_broken(*SENT, CLAIM, delivery_of_both(**commit), Ended(True))


def test_a_record_with_lower_key_and_offset_must_not_be_passed_over() -> None:
    assert "order" in rules_broken(message(0, 150), message(1, 200), Committed(S, deliveries=[delivered(1, 200)]))


def test_a_late_arrival_may_come_after_a_higher_key() -> None:
    first = Committed(S, deliveries=[delivered(0, 200)])
    late = Committed(S, deliveries=[delivered(1, 150)])

    assert check([message(0, 200), first, message(1, 150), late, Ended(True)]) == []


def test_a_late_arrival_above_O_is_good_when_a_decision_names_it() -> None:
    facts = late_arrival(names=((150, 1),))

    assert check(facts) == []


def test_a_decision_that_names_the_wrong_due_time_is_noticed() -> None:
    assert "sentence" in rules_broken(*late_arrival(names=((151, 1),)))


def late_arrival(names: tuple[Key, ...]) -> list[Fact]:
    """Record 1 and 2 come behind D; 1 is delivered while 2, of a lower offset than O could be, waits."""
    decision = Appended(S, 3, DECISION, 100, names=names)
    return [
        message(0, 200),
        CLAIM,
        Committed(S, cursor(0), cursor(1, (200, 0)), [delivered(0, 200)], rows=[row(0, 200)], clock_ms=200),
        message(1, 150),
        message(2, 160),
        Committed(
            S, cursor(1, (200, 0)), cursor(1, (200, 0)), [delivered(1, 150)], (), [decision], [row(1, 150)], 200
        ),
        Committed(S, cursor(1, (200, 0)), cursor(4, (200, 0), 4), [delivered(2, 160)], rows=[
            row(2, 160), row(3, None, "applied")], clock_ms=200),
        Ended(True),
    ]  # fmt: skip


def roll(**other: Any) -> list[Fact]:
    """Record 0 is carried on by record 1, and delivered from there."""
    reappend = Appended(S, 1, REAPPEND, 140, "id0", 200, 100, b"0", replaces=(200, 0), version=1)
    reappend = reappend._replace(**other)
    superseded = row(0, 200, "superseded", suc="id0")
    return [
        message(0, 200),
        CLAIM,
        Committed(S, cursor(0), cursor(1), appended=[reappend], rows=[superseded], clock_ms=140),
        Committed(
            S, cursor(1), cursor(2, (200, 1), 2), [delivered(0, 200)], rows=[row(1, 200, id="id0")], clock_ms=200
        ),
        Ended(True),
    ]


def test_a_message_that_is_carried_on_arrives_once_under_its_first_id() -> None:
    assert check(roll()) == []


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        pytest.param({"replaces": (200, 5)}, "reappend", id="replaces another record"),
        pytest.param({"replaces": None}, "reappend", id="replaces nothing"),
        pytest.param({"id": "id1"}, "reappend", id="has an id of its own"),
        pytest.param({"due_ms": 201}, "payload", id="moves the due time"),
        pytest.param({"accepted_at_ms": 140}, "payload", id="forgets the first acceptance"),
        pytest.param({"payload": b"!"}, "payload", id="changes the body"),
        pytest.param({"offset": 0}, "reappend", id="takes an offset that is in use"),
    ],
)
def test_a_reappend_is_broken_where_it(changed: dict[str, Any], rule: str) -> None:
    assert rule in rules_broken(*roll(**changed))


def test_a_record_that_is_carried_on_after_its_delivery_is_a_duplicate() -> None:
    again = Appended(S, 1, REAPPEND, 140, "id0", 200, 100, b"0", replaces=(200, 0))
    delivery = Committed(S, deliveries=[delivered(0, 200)])

    assert "duplicate" in rules_broken(message(0, 200), delivery, Committed(S, appended=[again]))


def test_an_undeliverable_record_must_become_a_dead_letter() -> None:
    bad = message(0, 100, undeliverable=True)

    assert check([bad, Committed(S, dead=[Dead("id0", 100, 0, b"0")]), Ended(True)]) == []
    assert "payload" in rules_broken(bad, Committed(S, deliveries=[delivered(0, 100)]), Ended(True))


def test_a_dead_letter_that_lies_about_its_record_is_noticed() -> None:
    bad = message(0, 100, undeliverable=True)

    assert "payload" in rules_broken(bad, Committed(S, dead=[Dead("id0", 100, 1)]))


def test_L_must_not_pass_something_pending() -> None:
    assert "low" in rules_broken(message(0, 200), CLAIM, Committed(S, cursor(0), cursor(1, low=1), rows=[]))


def test_O_must_not_go_back() -> None:
    forth = Committed(S, cursor(0), cursor(1), rows=[])
    back = Committed(S, cursor(1), cursor(0), rows=[])

    assert "cursor" in rules_broken(message(0, 200), CLAIM, forth, back)


def test_a_claim_that_moves_the_cursor_is_noticed() -> None:
    assert "claim" in rules_broken(message(0, 200), CLAIM, Committed(S, cursor(0), cursor(1, epoch=2), rows=[]))


def test_a_claim_that_delivers_is_noticed() -> None:
    claim = Committed(S, cursor(0), cursor(0, epoch=2), [delivered(0, 200)], rows=[row(0, 200)])

    assert "claim" in rules_broken(message(0, 200), CLAIM, claim)


def test_a_trim_above_the_committed_low_offset_is_noticed() -> None:
    assert "trim" in rules_broken(message(0, 200), CLAIM, Trimmed(S, 1))


def test_the_rules_of_the_cursor_are_those_of_the_log_at_L() -> None:
    rules = Appended(S, 0, RULES, 100, rules_number=1)
    at_low = Committed(S, cursor(0), cursor(1, low=1)._replace(rules_number=1), rows=[row(0, None, "applied")])
    before_low = at_low._replace(after=cursor(1)._replace(rules_number=1))

    assert check([rules, CLAIM, at_low, Ended(True)]) == []
    assert rules_broken(rules, CLAIM, before_low, Ended(True)) == {"rules"}


def test_a_control_record_without_outcome_row_is_noticed() -> None:
    rules = Appended(S, 0, RULES, 100, rules_number=0)

    assert "outcome" in rules_broken(rules, CLAIM, Committed(S, cursor(0), cursor(1), rows=[]), Ended(True))


def test_a_service_that_stops_is_stuck() -> None:
    assert rules_broken(Failed(S, "it threw")) == {"stuck"}


def test_shards_are_judged_apart() -> None:
    other = message(0, 200)._replace(shard="orders.1")
    facts = [*SENT, other, Committed(S, deliveries=[delivered(1, 150), delivered(0, 200)]), Ended(True)]

    assert {violation.shard for violation in check(facts)} == {"orders.1"}


DELIVERED = Committed(S, deliveries=[delivered(1, 150), delivered(0, 200)])
CLAIMED = Moved(S, None, cursor(0))


def test_cursors_that_were_seen_without_their_deliveries_are_judged_by_themselves() -> None:
    moved = Moved(S, cursor(0), cursor(2, (200, 0)))

    assert check([*SENT, DELIVERED, CLAIMED, moved, Ended(True)]) == []
    assert rules_broken(*SENT, DELIVERED, CLAIMED, moved, Moved(S, moved.after, cursor(1, (200, 0)))) == {"cursor"}
    assert rules_broken(*SENT, DELIVERED, CLAIMED, moved, Moved(S, moved.after, cursor(2, epoch=2))) == {"claim"}


def test_a_last_cursor_that_leaves_out_what_was_delivered_is_noticed() -> None:
    moved = Moved(S, cursor(0), cursor(2, (150, 1)))

    assert rules_broken(*SENT, DELIVERED, CLAIMED, moved, Ended(True)) == {"sentence"}


# --- what is too late


def taken(at_ms: int, **other: Any) -> list[Fact]:
    """Both records in one batch taken then, where 50 ms late is allowed."""
    return [Limited(S, 50), *SENT, CLAIM, delivery_of_both(clock_ms=at_ms, taken_ms=at_ms, **other), Ended(True)]


def test_what_is_within_its_limit_is_delivered() -> None:
    assert check(taken(200)) == []


def test_what_is_beyond_its_limit_expires() -> None:
    rest = {"deliveries": [delivered(0, 200)], "rows": [row(1, 150, "expired"), row(0, 200)]}
    assert check(taken(201, **rest)) == []
    assert rules_broken(*taken(200, **rest)) == {"late"}


def test_a_message_beyond_its_limit_must_not_be_delivered() -> None:
    assert rules_broken(*taken(201)) == {"late"}


def test_without_a_limit_nothing_expires() -> None:
    rest = {"deliveries": [delivered(0, 200)], "rows": [row(1, 150, "expired"), row(0, 200)]}
    assert rules_broken(*taken(900, **rest)[1:]) == {"late"}
