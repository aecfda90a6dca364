"""What is found in each situation, from all rows about it: what cells spare the look at is looked at here."""

import pytest

from delayline.buffer.outcome import spread
from delayline.records.message import Shard
from reconcile.logic.ledger import HOUR_MS
from reconcile.logic.manifest import AuditGap
from reconcile.logic.places import Rules, Unread, against_deadline, for_none_accepted, judged, places, untimely
from reconcile.logic.plan import Range
from reconcile.logic.testimony import Record, Row, first_id
from reconcile.logic.times import mistimed
from tests.reconcile.cases import CASES, RULES, in_words, links, moved, moved_into_the_past, records, rows
from tests.reconcile.situations import LATE_AFTER_MS, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_situation_is_called_what_it_is(case: Case) -> None:
    accepted, outcomes = records(case), rows(case)
    every = list(places(accepted, links(case), outcomes))
    found = [one for place in every for one in judged(place, RULES)]
    for place in every:
        here = (case.name, 0, place.offset, place.moment_ms)
        found += filter(None, [mistimed(place, {move.moves_to_ms for move in moved(case) if move[:4] == here})])
    past = moved_into_the_past(case)
    late = (untimely(row, LATE_AFTER_MS, past.get((case.name, 0, row.offset))) for row in outcomes)
    found += [one for one in late if one]
    deadlines = {(one.offset, one.id): one.expires_ms for one in accepted if one.is_message}
    ends = [(row, deadlines[row.offset, row.id]) for row in outcomes if (row.offset, row.id) in deadlines]
    found += [one for row, expires_ms in ends if (one := against_deadline(row, expires_ms))]
    known = {(one.topic, one.shard, one.offset, first_id(one.id) or "") for one in accepted if one.is_message}
    found += for_none_accepted([row for row in outcomes if row.gives_way], known, RULES)
    assert in_words(found)[case.name] == list(case.found)


@pytest.mark.parametrize(
    ("elsewhere", "partitions", "appended_ms", "is_untold"),
    [(0, 4, 99, True), (1, 4, 99, False), (1, 0, 99, True), (0, 4, 100, False)],
    ids=["its partition", "another partition", "an unknown number of partitions", "appended behind the gap"],
)
def test_a_gap_of_the_audit_may_have_had_the_outcomes_of_its_own_shards_alone(
    elsewhere: int, partitions: int, appended_ms: int, is_untold: bool
) -> None:
    partition = (spread(Shard("orders", "0"), 4) + elsewhere) % 4
    rules = Rules(LATE_AFTER_MS, {}, [AuditGap(partition, Range(0, 9), 100, 1, partitions)])
    record = Record("orders", 0, 5, "message", "orders.0.5.1", 1, appended_ms, appended_ms, None)
    assert rules.is_untold(record) is is_untold


@pytest.mark.parametrize("successor", ["mail.0.5.9", "rs.0.5.9", "my.orders.0.5.9"])
def test_a_message_of_another_topic_is_none_for_which_one_could_end(successor: str) -> None:
    row = Row("orders", 0, 9, "orders.0.9.9", 9, 1, 9, "duplicate", successor, None, 1, 0, 7)
    rules = Rules(LATE_AFTER_MS, {("orders", 0): 8}, [], [Unread("orders", 0, 0, 7)])
    assert [one.category for one in for_none_accepted([row], set(), rules)] == ["wrong_successor"]
    own = row._replace(successor="orders.0.5.9")
    assert list(for_none_accepted([own], set(), rules)) == []  # from before the first run, as far as is known


@pytest.mark.parametrize(
    ("offset", "due_ms", "done_ms", "may_lack"),
    [
        (7, 0, 100, False),
        (6, 0, 100, True),  # no run has read the record
        (7, HOUR_MS, 100, True),  # the rows of its hour were dropped
        (7, 0, 99, True),  # the audit has a gap up to there
    ],
)
def test_a_row_may_be_lacking_where_its_record_its_hour_or_its_place_in_the_audit_is_gone(
    offset: int, due_ms: int, done_ms: int, may_lack: bool
) -> None:
    gap, unread = AuditGap(0, Range(0, 9), 100, 1), Unread("orders", 0, 0, 7)
    rules = Rules(LATE_AFTER_MS, {}, [gap], [unread], forgotten={1})
    assert rules.may_lack_row("orders", 0, offset, due_ms, done_ms) is may_lack
