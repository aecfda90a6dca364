"""What an operator has a shard pass over: the cursor passes it, and the audit and the dead letters record it."""

import pytest

from delay_service.core.errors import COMMIT, UNKNOWN_FORMAT, UNREADABLE, BufferRecreated, BufferTruncated, CursorLost
from delay_service.core.skipping import AT_TAKEOVER, SKIPPED, WAYS_OUT, skip
from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, decode_audit
from delayline.records import headers as names
from delayline.records.message import Key, Shard
from delayline.records.record import decode_body, encode_body

ORDERS = Shard("orders", "0")
CURSOR = Cursor(
    topic_id=b"t", owner_epoch=3, next_offset=5, delivered_key=Key(40, 2), low_offset=1, skipped=((1, 2),)
)


def test_skipping_moves_nothing_of_the_cursor_but_the_ranges_that_are_passed_over() -> None:
    cursor = skip(ORDERS, CURSOR, (7, 9), b"", 1000, "unreadable_log").batch.cursor
    assert cursor.skipped == ((1, 2), (7, 10))
    assert cursor == Cursor(
        topic_id=b"t",
        owner_epoch=3,
        next_offset=5,
        delivered_key=Key(40, 2),
        low_offset=1,
        skipped=((1, 2), (7, 10)),
    )


def test_skipping_leaves_a_dead_letter_with_what_could_be_read() -> None:
    (body,) = skip(ORDERS, CURSOR, (7, 7), encode_body(b"k", b"v", [(b"h", b"1")]), 1000, "unknown_format").batch.dead
    letter = decode_body(body)
    assert (letter.key, letter.value, letter.headers[0]) == (b"k", b"v", (b"h", b"1"))
    headers = dict(letter.headers)
    assert headers[names.DEAD_ERROR_CODE] == SKIPPED.encode()
    assert headers[names.REASON] == b"unknown_format: an operator has had the offsets 7 to 7 skipped"


def test_skipping_writes_the_range_and_its_end_into_the_audit() -> None:
    taken = skip(ORDERS, CURSOR, (7, 9), b"", 1000, "unreadable_log")
    rows, passed = (decode_body(body).value or b"" for body in taken.batch.audit)
    record, found = decode_audit(rows)
    assert (record.epoch, found) == (
        3,
        [AuditRow(7, "orders.0.7.1000", 1000, 1000, Outcome.DEAD, None, SKIPPED)],
    )
    skipped, none = decode_audit(passed)
    assert (skipped.kind, skipped.first, skipped.next, none) == ("skipped", 7, 10, [])


@pytest.mark.parametrize("reason", [UNKNOWN_FORMAT, UNREADABLE, COMMIT, *sorted(AT_TAKEOVER)])
def test_each_stall_that_does_not_end_by_itself_has_a_way_out_with_what_is_lost(reason: str) -> None:
    assert WAYS_OUT[reason].does
    assert WAYS_OUT[reason].loses


def test_what_stalls_a_takeover_is_known_as_such() -> None:
    assert {CursorLost.reason, BufferRecreated.reason, BufferTruncated.reason} == AT_TAKEOVER
