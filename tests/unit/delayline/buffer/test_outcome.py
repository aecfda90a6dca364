"""Outcomes and audit records."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.buffer.outcome import ROWS_PER_RECORD_MAX, AuditRow, Outcome, PlainRows, decode_audit, encode_audit
from delayline.errors import UnknownFormat
from delayline.records.message import Shard
from delayline.records.record import decode_body

SHARD = Shard("orders", "3")
ROWS = st.builds(
    AuditRow,
    offset=st.integers(0, 1 << 62),
    id=st.none() | st.text(max_size=20),
    due_ms=st.none() | st.integers(0, 1 << 62),
    accepted_at_ms=st.integers(0, 1 << 62),
    outcome=st.sampled_from(Outcome),
    successor=st.none() | st.text(max_size=20),
    reason=st.none() | st.text(max_size=20),
)


def values(rows: list[AuditRow]) -> list[bytes]:
    found = [decode_body(body).value for body in encode_audit(SHARD, 7, 1_767_225_600_000, rows)]
    return [value for value in found if value is not None]


@given(st.lists(ROWS, max_size=5))
def test_rows_read_back_as_themselves(rows: list[AuditRow]) -> None:
    assert [row for value in values(rows) for row in decode_audit(value)[1]] == rows


def test_a_commit_without_outcomes_writes_no_audit_record() -> None:
    assert values([]) == []


def test_many_rows_travel_in_records_of_bounded_size() -> None:
    rows = [AuditRow(offset, None, None, 0, Outcome.APPLIED) for offset in range(2 * ROWS_PER_RECORD_MAX + 1)]
    assert [len(decode_audit(value)[1]) for value in values(rows)] == [ROWS_PER_RECORD_MAX, ROWS_PER_RECORD_MAX, 1]


def test_a_record_names_the_shard_and_commit_of_its_rows() -> None:
    record, _ = decode_audit(values([AuditRow(1, None, None, 0, Outcome.APPLIED)])[0])
    assert (record.topic, record.shard, record.epoch, record.at) == ("orders", "3", 7, 1_767_225_600_000)


def test_rows_of_a_shard_share_a_key() -> None:
    body = next(encode_audit(SHARD, 7, 0, [AuditRow(1, None, None, 0, Outcome.APPLIED)]))
    assert decode_body(body).key == b"orders.3"


def plain(offsets: range) -> PlainRows:
    dues_ms = [2000 + offset for offset in offsets]
    places = [b"%d.%d" % place for place in zip(offsets, dues_ms, strict=True)]
    return PlainRows(
        offsets=list(offsets), dues_ms=dues_ms, places=places, accepted=b",".join([b"500"] * len(offsets))
    )


def both(rows: list[AuditRow], *blocks: PlainRows, shard: Shard = SHARD) -> list[bytes]:
    return list(encode_audit(shard, 7, 1_767_225_600_000, rows, blocks))


@pytest.mark.parametrize("shard", [SHARD, Shard('or"ders\\', "broker:0")], ids=str)
def test_plain_rows_are_written_as_the_same_rows_one_by_one(shard: Shard) -> None:
    block = plain(range(3))
    assert both([], block, shard=shard) == both(list(block.rows(shard)), shard=shard)


@given(st.lists(ROWS, max_size=3))
def test_rows_stand_behind_plain_ones_in_the_same_record(rows: list[AuditRow]) -> None:
    block = plain(range(2))
    assert both(rows, block) == both([*block.rows(SHARD), *rows])


def test_rows_beside_plain_ones_fill_up_the_last_record_and_then_others() -> None:
    rows = [AuditRow(offset, None, None, 0, Outcome.APPLIED) for offset in range(1500)]
    blocks = plain(range(ROWS_PER_RECORD_MAX)), plain(range(ROWS_PER_RECORD_MAX - 300))
    found = [decode_audit(decode_body(body).value or b"")[1] for body in both(rows, *blocks)]
    assert [len(part) for part in found] == [1000, 1000, 1000, 200]
    assert [row for part in found for row in part] == [row for each in blocks for row in each.rows(SHARD)] + rows


GOOD = msgspec.json.decode(values([AuditRow(1, None, None, 0, Outcome.APPLIED)])[0])


@pytest.mark.parametrize(
    "change", [{"v": 2}, {"out": ["vanished"]}, {"off": [1, 2]}, {"due": ["soon"]}, {"topic": None}], ids=str
)
def test_a_record_with_other_content_is_an_unknown_format(change: dict[str, object]) -> None:
    with pytest.raises(UnknownFormat):
        decode_audit(msgspec.json.encode(GOOD | change))


@given(st.binary(max_size=60))
def test_any_bytes_are_an_audit_record_or_an_unknown_format(value: bytes) -> None:
    with suppress(UnknownFormat):
        decode_audit(value)
