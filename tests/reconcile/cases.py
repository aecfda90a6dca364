"""Situations, and what is to be found in each. Each case is a topic of its own, with one shard.

Records and rows name messages by the offset of their first acceptance: `1` is `<topic>.0.1.<T>`, `1~2` its second
occurrence. Findings read `<category> <message> at <offset>`.
"""

from collections.abc import Sequence
from types import SimpleNamespace

from delayline.buffer.outcome import RESCHEDULED
from reconcile.logic import testimony
from reconcile.logic.acts import Moved
from reconcile.logic.manifest import AuditGap
from reconcile.logic.places import Rules, Unread
from reconcile.logic.plan import Range
from reconcile.logic.testimony import Found
from tests.reconcile.cases_of_times import TIMES
from tests.reconcile.situations import (
    LATE_AFTER_MS,
    LATER,
    LONG_AGO,
    MORTAL,
    ONE,
    UNTIL_MARK,
    A,
    B,
    C,
    Case,
    Record,
    Row,
    T,
    again,
    followed,
    instruction,
    superseded,
)

CASES = [
    Case("nothing", [], []),
    Case("delivered", [ONE], [Row(1, message="1")]),
    Case("delivered_in_the_same_ms", [ONE], [Row(1, message="1", done_ms=T)]),
    Case("missing", [ONE], [], ["missing 1 at 1"]),
    Case("missing_beside_others", [Record(A, "41"), Record(B, "79"), Record(C, "86")],
         [Row(A, message="41"), Row(C, message="86")], ["missing 79 at 79"]),
    Case("two_missing_in_a_cell", [Record(A, "41"), Record(B, "79")], [], ["missing 41 at 41", "missing 79 at 79"]),
    Case("missing_and_orphan_in_a_cell", [Record(A, "41")], [Row(B, message="79")],
         ["missing 41 at 41", "orphan 79 at 79"]),
    Case("thrice_and_two_missing_in_a_cell", [Record(A, "41"), Record(B, "79"), Record(C, "86")],
         [Row(A, message="41")] * 3, ["duplicated 41 at 41", "missing 79 at 79", "missing 86 at 86"]),
    Case("twice", [ONE], [Row(1, message="1"), Row(1, message="1", done_ms=T + 90)], ["duplicated 1 at 1"]),
    Case("twice_in_one_commit", [ONE], [Row(1, message="1")] * 2, ["duplicated 1 at 1"]),
    Case("thrice", [ONE], [Row(1, message="1")] * 3, ["duplicated 1 at 1"]),
    Case("sent_twice_by_the_client", [ONE, Record(2, "2")], [Row(1, message="1"), Row(2, message="2")]),
    Case("orphan", [], [Row(1, message="1")], ["orphan 1 at 1"]),
    Case("orphan_twice", [], [Row(1, message="1")] * 2, ["orphan 1 at 1"]),
    Case("orphan_that_was_cancelled", [], [Row(1, "cancelled", "1")], ["orphan 1 at 1"]),
    Case("early", [ONE], [Row(1, message="1", done_ms=T - 1)], ["early 1 at 1"]),
    Case("as_late_as_tolerated", [ONE], [Row(1, message="1", done_ms=T + LATE_AFTER_MS)]),
    Case("late", [ONE], [Row(1, message="1", done_ms=T + LATE_AFTER_MS + 1)], ["late 1 at 1"]),
    Case("late_beside_what_is_tolerated", [Record(A, "41"), Record(B, "79")],
         [Row(A, message="41", done_ms=T + LATE_AFTER_MS), Row(B, message="79", done_ms=T + LATE_AFTER_MS + 1)],
         ["late 79 at 79"]),
    Case("sent_with_a_moment_in_the_past", [Record(1, "1", accepted_ms=T + 9_000_000)],
         [Row(1, message="1", done_ms=T + 9_000_000, accepted_ms=T + 9_000_000)]),
    Case("sent_with_a_moment_in_the_past_and_late", [Record(1, "1", accepted_ms=T + 9_000_000)],
         [Row(1, message="1", done_ms=T + 9_060_001, accepted_ms=T + 9_000_000)], ["late 1 at 1"]),
    Case("sent_with_a_moment_in_the_past_by_a_clock_ahead", [Record(1, "1", accepted_ms=T + 9_000_000)],
         [Row(1, message="1", done_ms=T + 8_999_995, accepted_ms=T + 9_000_000)]),
    Case("sent_behind_its_deadline_and_delivered", [Record(1, "1", accepted_ms=T + 900, expires_ms=T + 500)],
         [Row(1, message="1", done_ms=T + 901, accepted_ms=T + 900)], ["behind_deadline 1 at 1"]),
    Case("lateness", [Record(offset, str(offset)) for offset in range(10)],
         [Row(offset, message=str(offset), done_ms=T + lateness) for offset, lateness in enumerate(
             (0, 1, 2, 3, 4, 1023, 1024, 2**24 - 1, 2**24, 2**40))], ["late 7 at 7", "late 8 at 8", "late 9 at 9"]),
    Case("moved_into_the_past", [Record(1, "1", LATER), again(2, 1, old_due_ms=LATER, appended_ms=T + 300_000)],
         [superseded(1, due_ms=LATER, done_ms=T + 299_999), Row(2, message="1", done_ms=T + 300_030)],
         moves=[(1, LATER, T)]),
    Case("moved_into_the_past_and_as_late_as_tolerated",
         [Record(1, "1", LATER), again(2, 1, old_due_ms=LATER, appended_ms=T + 300_000)],
         [superseded(1, due_ms=LATER), Row(2, message="1", done_ms=T + 300_000 + LATE_AFTER_MS)],
         moves=[(1, LATER, T)]),
    Case("moved_into_the_past_and_late",
         [Record(1, "1", LATER), again(2, 1, old_due_ms=LATER, appended_ms=T + 300_000)],
         [superseded(1, due_ms=LATER), Row(2, message="1", done_ms=T + 300_001 + LATE_AFTER_MS)],
         ["late 1 at 2"], moves=[(1, LATER, T)]),
    Case("moved_before_it_was_due_and_late", [ONE, again(2, 1, due_ms=LATER, appended_ms=T - 900)],
         [superseded(1), Row(2, message="1", due_ms=LATER, done_ms=LATER + LATE_AFTER_MS + 1)],
         ["late 1 at 2"], moves=[(1, T, LATER)]),
    Case("sent_again_by_a_repair_and_late", [ONE, again(2, 1, appended_ms=LATER)],
         [superseded(1, reason="repair"), Row(2, message="1", done_ms=LATER + 30)], ["late 1 at 2"]),
    Case("late_and_twice", [ONE], [Row(1, message="1"), Row(1, message="1", done_ms=LATER)],
         ["duplicated 1 at 1", "late 1 at 1"]),
    Case("cancelled", [ONE, instruction(2, "operation")],
         [Row(1, "cancelled", "1", done_ms=T - 900), followed(2, reason="cancelled")]),
    Case("cancelled_then_delivered", [ONE], [Row(1, "cancelled", "1", done_ms=T - 900), Row(1, message="1")],
         ["delivered_after_cancel 1 at 1"]),
    Case("cancelled_then_delivered_within_a_ms", [ONE],
         [Row(1, "cancelled", "1"), Row(1, message="1", audit_offset=501)], ["delivered_after_cancel 1 at 1"]),
    Case("delivered_then_cancelled", [ONE], [Row(1, message="1"), Row(1, "cancelled", "1", done_ms=T + 900)],
         ["two_outcomes 1 at 1"]),
    Case("delivered_and_cancelled_in_one_commit", [ONE], [Row(1, message="1"), Row(1, "cancelled", "1")],
         ["two_outcomes 1 at 1"]),
    Case("cancelled_twice", [ONE], [Row(1, "cancelled", "1")] * 2, ["two_outcomes 1 at 1"]),
    Case("expired", [MORTAL], [Row(1, "expired", "1", reason="deadline", done_ms=T + 501)]),
    Case("expired_without_a_deadline", [ONE], [Row(1, "expired", "1", reason="deadline", done_ms=LATER)],
         ["wrongly_expired 1 at 1"]),
    Case("expired_in_its_last_millisecond", [MORTAL], [Row(1, "expired", "1", reason="deadline", done_ms=T + 500)],
         ["wrongly_expired 1 at 1"]),
    Case("expired_by_a_rule", [ONE], [Row(1, "expired", "1", reason="late-max", done_ms=T + 1001)]),
    Case("expired_by_a_rule_that_cannot_be", [ONE], [Row(1, "expired", "1", reason="late-max", done_ms=T + 1000)],
         ["wrongly_expired 1 at 1"]),
    Case("expired_with_its_series", [Record(1, "1~3")], [Row(1, "expired", "1~3", reason="missed")]),
    Case("expired_with_no_series", [ONE], [Row(1, "expired", "1", reason="missed")], ["wrongly_expired 1 at 1"]),
    Case("delivered_in_the_last_millisecond", [MORTAL], [Row(1, message="1", done_ms=T + 500)]),
    Case("delivered_behind_its_deadline", [MORTAL], [Row(1, message="1", done_ms=T + 501)],
         ["behind_deadline 1 at 1"]),
    Case("occurrence_delivered_for_a_later_time", [Record(1, "1~1", expires_ms=T + 500)],
         [Row(1, message="1~1", done_ms=T + 501)]),
    Case("late_beside_one_with_a_deadline", [Record(A, "41", expires_ms=T + 500), Record(B, "79")],
         [Row(A, message="41"), Row(B, message="79", done_ms=T + 900)]),
    Case("expired_and_delivered", [MORTAL], [Row(1, "expired", "1", done_ms=T + 501), Row(1, message="1")],
         ["two_outcomes 1 at 1"]),
    Case("expired_and_delivered_twice", [MORTAL],
         [Row(1, "expired", "1", done_ms=T + 501), *[Row(1, message="1")] * 2],
         ["two_outcomes 1 at 1"]),
    Case("dead", [ONE], [Row(1, "dead", "1", reason="too-large", done_ms=LATER)]),
    Case("given_back_to_its_group", [ONE], [Row(1, message="1", reason="retry")]),
    Case("rescheduled", [ONE, again(2, 1, due_ms=LATER)],
         [superseded(1), Row(2, message="1", due_ms=LATER, done_ms=LATER)]),
    Case("rescheduled_to_the_same_time", [ONE, again(2, 1)], [superseded(1), Row(2, message="1")]),
    Case("rescheduled_twice", [ONE, again(2, 1, due_ms=LATER), again(3, 2, old_due_ms=LATER)],
         [superseded(1), superseded(2, due_ms=LATER), Row(3, message="1")]),
    Case("fork", [ONE, again(2, 1), again(3, 1)], [superseded(1), Row(2, message="1"), Row(3, message="1")],
         ["duplicated 1 at 1"]),
    Case("fork_of_three", [ONE, again(2, 1), again(3, 1), again(4, 1)],
         [superseded(1), Row(2, message="1"), Row(3, message="1"), Row(4, message="1")], ["duplicated 1 at 1"]),
    Case("rescheduled_and_delivered", [ONE, again(2, 1)], [superseded(1), Row(1, message="1"), Row(2, message="1")],
         ["two_outcomes 1 at 1"]),
    Case("cancelled_and_re_appended", [ONE, again(2, 1)], [Row(1, "cancelled", "1"), Row(2, message="1")],
         ["delivered_after_cancel 1 at 1"]),
    Case("delivered_and_re_appended", [ONE, again(2, 1)], [Row(1, message="1"), Row(2, message="1")],
         ["two_outcomes 1 at 1"]),
    Case("dead_and_re_appended", [ONE, again(2, 1)], [Row(1, "dead", "1"), Row(2, message="1")],
         ["two_outcomes 1 at 1"]),
    Case("re_append_of_nothing", [again(2, 1)], [Row(2, message="1")], ["orphan 1 at 1"]),
    Case("re_append_of_another_time", [ONE, again(2, 1, old_due_ms=LATER)], [superseded(1), Row(2, message="1")],
         ["missing 1 at 1", "orphan 1 at 1"]),
    Case("missing_that_goes_on", [ONE, again(2, 1)], [Row(2, message="1")], ["missing 1 at 1"]),
    Case("missing_re_append", [ONE, again(2, 1)], [superseded(1)], ["missing 1 at 2"]),
    Case("lost_successor", [ONE], [superseded(1)], ["missing 1 at 1"]),
    Case("lost_successor_not_settled", [ONE], [superseded(1, audit_offset=UNTIL_MARK)], ["unsettled"]),
    Case("lost_successor_of_a_shard_without_marks", [ONE], [superseded(1)], ["unsettled"]),
    Case("lost_successor_among_others", [Record(A, "41"), Record(B, "79"), again(100, A, "41")],
         [superseded(A, "41"), superseded(B, "79"), Row(100, message="41")], ["missing 79 at 79"]),
    Case("lost_successor_and_fork_in_a_cell",
         [Record(A, "41"), Record(B, "79"), again(100, A, "41"), again(101, A, "41")],
         [superseded(A, "41"), superseded(B, "79"), Row(100, message="41"), Row(101, message="41")],
         ["duplicated 41 at 41", "missing 79 at 79"]),
    Case("replaced_by_a_newcomer", [ONE, Record(2, "2")],
         [Row(1, "superseded", "1", "2", "replaced"), Row(2, message="2")]),
    Case("duplicate_of_an_own_id", [ONE, Record(2, "2")],
         [Row(1, message="1"), Row(2, "duplicate", "2", "1", "own-id")]),
    Case("next_occurrence", [Record(1, "1~1"), again(2, 1, "1~2", LATER)],
         [Row(1, message="1~1", successor="1~2"), Row(2, message="1~2", due_ms=LATER, done_ms=LATER)]),
    Case("next_occurrence_of_a_dead_one", [Record(1, "1~1"), again(2, 1, "1~2")],
         [Row(1, "dead", "1~1", "1~2", "too-large"), Row(2, message="1~2")]),
    Case("next_occurrence_of_an_expired_one", [Record(1, "1~1", expires_ms=T), again(2, 1, "1~2", expires_ms=T)],
         [Row(1, "expired", "1~1", "1~2", "deadline"), Row(2, message="1~2")]),
    Case("next_occurrence_of_a_cancelled_one", [Record(1, "1~1"), again(2, 1, "1~2")],
         [Row(1, "cancelled", "1~1", "1~2", "cancelled"), Row(2, message="1~2")]),
    Case("next_occurrence_lost", [Record(1, "1~1")], [Row(1, message="1~1", successor="1~2")], ["missing 1~2 at 1"]),
    Case("operations", [instruction(1, "operation"), instruction(2, "operation")],
         [followed(1, reason="cancelled"), followed(2, "unmatched", reason="not-pending")]),
    Case("control_decision_rules", [instruction(1, "control"), instruction(2, "decision"), instruction(3, "rules")],
         [followed(1), followed(2), followed(3)]),
    Case("missing_operation", [instruction(1, "operation")], [], ["missing - at 1"]),
    Case("operation_twice", [instruction(1, "operation")], [followed(1, reason="cancelled")] * 2,
         ["two_outcomes - at 1"]),
    Case("operation_without_what_it_did", [instruction(1, "operation")], [followed(1)],
         ["wrong_outcome - at 1"]),
    Case("operation_that_paused", [instruction(1, "operation")], [followed(1, reason="paused")],
         ["wrong_outcome - at 1"]),
    Case("control_that_cancelled", [instruction(1, "control")], [followed(1, reason="cancelled")],
         ["wrong_outcome - at 1"]),
    Case("decision_that_was_unmatched", [instruction(1, "decision")], [followed(1, "unmatched")],
         ["wrong_outcome - at 1"]),
    Case("orphan_operation", [], [followed(1)], ["orphan - at 1"]),
    Case("row_with_another_time", [ONE], [Row(1, message="1", due_ms=T + 1)], ["missing 1 at 1", "orphan 1 at 1"]),
    Case("row_in_another_window", [ONE], [Row(1, message="1", due_ms=LATER, done_ms=LATER)],
         ["missing 1 at 1", "orphan 1 at 1"]),
    Case("row_with_another_id", [ONE], [Row(1, message="9")], ["missing 1 at 1", "orphan 9 at 1"]),
    Case("row_without_an_id", [ONE], [Row(1)], ["missing 1 at 1", "orphan - at 1"]),
    Case("row_and_another_with_another_id", [ONE], [Row(1, message="1"), Row(1, message="9")], ["orphan 9 at 1"]),
    Case("message_that_was_applied", [ONE], [Row(1, "applied", "1")], ["wrong_outcome 1 at 1"]),
    Case("message_that_was_unmatched_beside_others", [Record(A, "41"), Record(B, "79")],
         [Row(A, message="41"), Row(B, "unmatched", "79")], ["wrong_outcome 79 at 79"]),
    Case("message_that_was_applied_twice", [ONE], [Row(1, "applied", "1")] * 2, ["two_outcomes 1 at 1"]),
    Case("message_that_was_delivered_and_applied", [ONE], [Row(1, message="1"), Row(1, "applied", "1")],
         ["two_outcomes 1 at 1"]),
    Case("operation_that_was_delivered", [instruction(1, "operation")], [followed(1, "delivered")],
         ["wrong_outcome - at 1"]),
    Case("operation_that_was_cancelled", [instruction(1, "operation")], [followed(1, "cancelled")],
         ["wrong_outcome - at 1"]),
    Case("operation_that_was_delivered_and_applied", [instruction(1, "operation")],
         [followed(1, "delivered"), followed(1, reason="cancelled")], ["two_outcomes - at 1"]),
    Case("orphan_without_an_id_that_was_delivered", [], [followed(1, "delivered")], ["orphan - at 1"]),
    Case("re_append_under_another_id", [ONE, again(2, 1, "9")], [superseded(1), Row(2, message="9")],
         ["wrong_successor 1 at 1"]),
    Case("re_append_and_row_under_another_id", [ONE, again(2, 1, "9")],
         [superseded(1, successor="9"), Row(2, message="9")], ["wrong_successor 1 at 1"]),
    Case("re_appends_under_each_other_s_id",
         [Record(A, "41"), Record(B, "79"), again(100, A, "79"), again(101, B, "41")],
         [superseded(A, "41"), superseded(B, "79"), Row(100, message="79"), Row(101, message="41")],
         ["wrong_successor 41 at 41", "wrong_successor 79 at 79"]),
    Case("re_append_of_another_occurrence", [Record(1, "1~1"), again(2, 1, "1~3")],
         [Row(1, message="1~1", successor="1~2"), Row(2, message="1~3")], ["wrong_successor 1~1 at 1"]),
    Case("replaced_by_nobody", [ONE], [Row(1, "superseded", "1", "9", "replaced")], ["wrong_successor 1 at 1"]),
    Case("replaced_by_nobody_whose_name_is_none", [ONE], [Row(1, "superseded", "1", None, "replaced")],
         ["wrong_successor 1 at 1"]),
    Case("replaced_by_what_is_not_read_yet", [ONE],
         [Row(1, "superseded", "1", "9", "replaced", audit_offset=UNTIL_MARK)], ["unsettled"]),
    Case("duplicate_of_itself", [ONE], [Row(1, "duplicate", "1", "1", "own-id")], ["wrong_successor 1 at 1"]),
    Case("replaced_by_itself", [ONE], [Row(1, "superseded", "1", "1", "replaced")], ["wrong_successor 1 at 1"]),
    Case("duplicates_of_each_other", [ONE, Record(2, "2")],
         [Row(1, "duplicate", "1", "2", "own-id"), Row(2, "duplicate", "2", "1", "own-id")],
         ["wrong_successor 1 at 1", "wrong_successor 2 at 2"]),
    Case("duplicate_of_a_duplicate", [ONE, Record(2, "2"), Record(3, "3")],
         [Row(1, message="1"), Row(2, "duplicate", "2", "1", "own-id"), Row(3, "duplicate", "3", "2", "own-id")]),
    Case("duplicate_of_nobody", [ONE], [Row(1, "duplicate", "1", "9", "own-id")], ["wrong_successor 1 at 1"]),
    Case("duplicate_of_an_operation", [ONE, instruction(2, "operation")],
         [Row(1, "duplicate", "1", "2", "own-id"), followed(2, reason="cancelled")], ["wrong_successor 1 at 1"]),
    Case("duplicate_without_a_name", [ONE], [Row(1, "duplicate", "1")], ["wrong_successor 1 at 1"]),
    Case("duplicate_of_what_was_rescheduled", [ONE, again(2, 1, due_ms=LATER), Record(3, "3")],
         [superseded(1), Row(2, message="1", due_ms=LATER, done_ms=LATER), Row(3, "duplicate", "3", "1", "own-id")]),
    Case("duplicate_of_a_series", [Record(1, "1~1"), Record(2, "2")],
         [Row(1, message="1~1"), Row(2, "duplicate", "2", "1", "idempotency")]),
    Case("duplicate_of_what_no_run_has_read", [Record(7, "7")], [Row(7, "duplicate", "7", "3", "own-id")]),
    Case("superseded_without_a_name", [ONE], [superseded(1, successor=None)], ["missing 1 at 1"]),
    Case("superseded_without_a_word", [ONE], [superseded(1, successor=None, reason=None)], ["missing 1 at 1"]),
    Case("superseded_without_a_name_not_settled", [ONE], [superseded(1, successor=None, audit_offset=UNTIL_MARK)],
         ["unsettled"]),
    Case("superseded_without_a_name_and_re_appended", [ONE, again(2, 1)],
         [superseded(1, successor=None), Row(2, message="1")]),
    *TIMES,
    Case("untold", [Record(1, "1", LONG_AGO, accepted_ms=LONG_AGO)], [], ["unauditable 1 at 1"]),
    Case("untold_although_it_is_due_later", [Record(1, "1", accepted_ms=LONG_AGO)], [], ["unauditable 1 at 1"]),
    Case("two_untold_in_a_cell", [Record(at, str(at), LONG_AGO, accepted_ms=LONG_AGO) for at in (A, B)], [],
         ["unauditable 41 at 41", "unauditable 79 at 79"]),
]  # fmt: skip

RULES = Rules(
    LATE_AFTER_MS,
    {(case.name, 0): UNTIL_MARK for case in CASES if "without_marks" not in case.name},
    [AuditGap(0, Range(0, 1), T - 10_000, 1)],
    [Unread("duplicate_of_what_no_run_has_read", 0, 0, 7)],
)


def records(case: Case) -> list[testimony.Record]:
    return [
        testimony.Record(
            case.name,
            0,
            record.offset,
            record.kind,
            _id(case, record.message),
            record.due_ms,
            record.accepted_ms,
            record.accepted_ms if record.appended_ms is None else record.appended_ms,
            record.expires_ms,
        )
        for record in case.records
    ]


def with_origins(case: Case) -> list[SimpleNamespace]:
    """`records`, each with the due time and offset of the record that it carries on."""
    origins = [record.replaces or (None, None) for record in case.records]
    return [
        SimpleNamespace(**record._asdict(), replaces_due_ms=due_ms, replaces_offset=offset)
        for record, (due_ms, offset) in zip(records(case), origins, strict=True)
    ]


def rows(case: Case) -> list[testimony.Row]:
    return [
        testimony.Row(
            case.name,
            0,
            row.offset,
            _id(case, row.message),
            row.due_ms,
            row.accepted_ms,
            row.done_ms,
            row.outcome,
            _id(case, row.successor),
            row.reason,
            1,
            0,
            row.audit_offset,
        )
        for row in case.rows
    ]


def links(case: Case) -> list[testimony.Link]:
    return [
        testimony.Link(
            case.name,
            0,
            offset,
            due_ms,
            _id(case, record.message),
            record.offset,
            record.due_ms or 0,
            record.expires_ms,
        )
        for record in case.records
        if record.replaces
        for due_ms, offset in [record.replaces]
    ]


def moved(case: Case) -> list[Moved]:
    return [Moved(case.name, 0, *move) for move in case.moves]


def moved_into_the_past(case: Case) -> dict[tuple[str, int, int], int]:
    """As `lookup.moved_into_the_past` finds them, by topic, shard and offset."""
    movers = {(row.offset, row.due_ms) for row in case.rows if row.reason == RESCHEDULED}
    return {
        (case.name, 0, record.offset): record.appended_ms
        for record in case.records
        if record.replaces and record.appended_ms is not None and record.appended_ms > (record.due_ms or 0)
        if record.replaces[::-1] in movers
    }


def in_words(found: Sequence[Found]) -> dict[str, list[str]]:
    """By case, in the words of `Case.found`."""
    lines: dict[str, list[str]] = {case.name: [] for case in CASES}
    for one in found:
        settled = f"{one.category} {_message(one)} at {one.offset}"
        lines[one.topic].append(settled if one.settled else "unsettled")
    return {name: sorted(some) for name, some in lines.items()}


def _id(case: Case, message: str | None) -> str | None:
    if message is None:
        return None
    offset, tilde, occurrence = message.partition("~")
    records = {record.offset: record.due_ms for record in case.records}
    due_ms = LONG_AGO if records.get(int(offset)) == LONG_AGO else T
    return f"{case.name}.0.{offset}.{due_ms}{tilde}{occurrence}"


def _message(found: Found) -> str:
    if found.id is None:
        return "-"
    offset, rest = found.id.removeprefix(f"{found.topic}.0.").split(".")
    _, tilde, occurrence = rest.partition("~")
    return f"{offset}{tilde}{occurrence}"
