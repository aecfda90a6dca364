"""The layout of many records in one value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.contract import LogRecord
from mq.embedded.entry import ENTRY_BYTES_MAX, ENTRY_RECORDS_MAX, decode_entry, encode_entries, read_head
from mq.errors import QueueFormat
from mq.local.group import Batch

SIZES = st.lists(st.sampled_from([0, 1, 200, 30_000, ENTRY_BYTES_MAX, ENTRY_BYTES_MAX + 1]), min_size=1, max_size=12)


def batch(sizes: list[int], *, own_times: bool = False) -> Batch:
    bodies = [bytes([turn % 251]) * size for turn, size in enumerate(sizes)]
    return Batch(100, 7, bodies, [turn * 11 for turn in range(len(sizes))] if own_times else None)


@given(SIZES, st.booleans())
def test_what_is_encoded_is_decoded(sizes: list[int], own_times: bool) -> None:
    encoded = batch(sizes, own_times=own_times)
    found = [
        record
        for base, entry in encode_entries(encoded)
        for record in decode_entry(entry, base, base, len(sizes), sum(sizes) + 1)
    ]
    times_ms = encoded.times_ms or [7] * len(sizes)
    expected = zip(range(100, 100 + len(sizes)), times_ms, encoded.bodies, strict=True)
    assert found == [LogRecord(*row) for row in expected]


@given(SIZES)
def test_entries_follow_each_other(sizes: list[int]) -> None:
    entries = list(encode_entries(batch(sizes)))
    ends = [base + read_head(entry).records for base, entry in entries]
    assert [base for base, _ in entries] == [100, *ends[:-1]]
    assert ends[-1] == 100 + len(sizes)


@given(SIZES)
def test_an_entry_of_several_records_is_bounded_in_bytes(sizes: list[int]) -> None:
    for _, entry in encode_entries(batch(sizes)):
        records = read_head(entry).records
        assert records == 1 or len(entry) <= ENTRY_BYTES_MAX + 16 + 4 * records


def test_an_entry_holds_a_bounded_number_of_records() -> None:
    entries = list(encode_entries(batch([0] * (ENTRY_RECORDS_MAX + 1))))
    assert [read_head(entry).records for _, entry in entries] == [ENTRY_RECORDS_MAX, 1]


@given(SIZES, st.data())
def test_any_part_of_an_entry_can_be_read(sizes: list[int], data: st.DataObject) -> None:
    encoded = batch(sizes, own_times=True)
    base, entry = next(iter(encode_entries(encoded)))
    first = data.draw(st.integers(0, read_head(entry).records - 1))
    limit = data.draw(st.integers(1, 12))
    found = decode_entry(entry, base, base + first, limit, 1 << 30)
    assert [record.body for record in found] == encoded.bodies[first : min(first + limit, read_head(entry).records)]
    assert [record.appended_at_ms for record in found] == [11 * (first + turn) for turn in range(len(found))]


@pytest.mark.parametrize(("bytes_max", "least", "records"), [(0, 1, 1), (9, 1, 1), (20, 1, 2), (29, 0, 2), (9, 0, 0)])
def test_bytes_bound_what_is_read(bytes_max: int, least: int, records: int) -> None:
    _, entry = next(iter(encode_entries(batch([10, 10, 10]))))
    assert len(decode_entry(entry, 0, 0, 10, bytes_max, least=least)) == records


def test_behind_the_entry_there_is_nothing() -> None:
    _, entry = next(iter(encode_entries(batch([1, 1]))))
    assert decode_entry(entry, 100, 102, 10, 10) == []


@pytest.mark.parametrize("entry", [b"", b"\x01", b"\x04" + bytes(40)])
def test_an_entry_of_another_version_is_refused(entry: bytes) -> None:
    with pytest.raises(QueueFormat):
        read_head(entry)
