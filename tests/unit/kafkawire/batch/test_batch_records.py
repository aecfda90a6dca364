"""kafkawire.batch.records."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.records.record import encode_body, encode_varint
from kafkawire.batch.head import RECORDS_AT, checked_at, head_at
from kafkawire.batch.records import Record, read_records
from kafkawire.protocol.errors import BatchError, MalformedBatch
from tests.unit.mq.kafka.batches import T0, batch_of, plain
from tests.unit.mq.kafka.logged import APPEND_TIME, batch, sealed, wire_record


def read(data: bytes) -> list[Record]:
    head = head_at(data, 0)
    return read_records(head, checked_at(head, data, 0), RECORDS_AT)


def body(size: int) -> bytes:
    return encode_body(None, b"x" * size)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 8191, 8192, 9000])
def test_records_stand_at_their_offsets_whatever_the_length_of_a_delta(count: int) -> None:
    bodies = [body(n % 100) for n in range(count)]
    assert read(batch(1000, bodies)) == [(1000 + n, T0, one) for n, one in enumerate(bodies)]


@pytest.mark.parametrize("size", [0, 50, 55, 57, 58, 60, 8180, 8185, 8190, 100_000, 1_100_000])
def test_a_body_of_any_length_comes_out_whole(size: int) -> None:
    bodies = [body(size)] * 2 + [body(1)] * 70 + [body(size)] * 3
    assert [one for _, _, one in read(batch(0, bodies))] == bodies


@pytest.mark.parametrize("after_ms", [63, 64, 8192, -70, 1 << 40])
def test_a_record_whose_own_time_takes_more_bytes_comes_out_whole(after_ms: int) -> None:
    bodies = [body(n) for n in range(150)]
    found = [read(batch(0, bodies, after_ms=times * 75)) for times in ([0, after_ms], [after_ms, 0])]
    assert found == [[(n, T0, one) for n, one in enumerate(bodies)]] * 2


def test_without_append_times_records_have_their_own() -> None:
    data = batch(7, [body(1), body(2)], attributes=0, after_ms=[-3, 70_000])
    assert read(data) == [(7, T0 - 3, body(1)), (8, T0 + 70_000, body(2))]


def test_offsets_with_gaps_are_those_of_the_records() -> None:
    data = batch(10, {2: body(1), 3: body(2), 300: body(3)}, last_delta=400)
    assert read(data) == [(12, T0, body(1)), (13, T0, body(2)), (310, T0, body(3))]


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    assert read(sealed(5, APPEND_TIME, 9, 1, 0, b"")) == []


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=150), st.booleans())
def test_what_another_implementation_has_written_is_read(values: list[bytes], times_differ: bool) -> None:
    sent = [plain(n if times_differ else 0)._replace(value=value) for n, value in enumerate(values)]
    bodies = [encode_body(one.key, one.value, []) for one in sent]
    assert read(batch_of(sent)) == [(n, T0 + (n if times_differ else 0), one) for n, one in enumerate(bodies)]


# --- what is not a batch of records


def dense(rows: list[bytes], count: int | None = None) -> bytes:
    count = len(rows) if count is None else count
    return sealed(0, APPEND_TIME, count - 1, -1, count, b"".join(rows))


ROWS = [wire_record(n, body(100 + n % 9)) for n in range(100)]
NEGATIVE = b"of a length below zero"


@pytest.mark.parametrize("at", [0, 1, 63, 64, 70, 99])
@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        NEGATIVE,
        encode_varint(-9),
        encode_varint(3) + b"\x00\x00\x00",  # nothing behind its offset
        encode_varint(1 << 33),
        b"\x80" * 11,
        b"\xff\xff\xff\xff\x7f",
    ],
)
def test_a_record_that_does_not_fit_is_an_error(at: int, wrong: bytes) -> None:
    if wrong == NEGATIVE:
        wrong = bytes([ROWS[at][0] | 1]) + ROWS[at][1:]
    with pytest.raises(MalformedBatch):
        read(dense([*ROWS[:at], wrong, *ROWS[at + 1 :]], 100))


@pytest.mark.parametrize("at", [0, 63, 64, 70])
def test_a_delta_written_longer_than_it_has_to_be_is_understood(at: int) -> None:
    canonical = encode_varint(at)
    longer = canonical[:-1] + bytes([canonical[-1] | 0x80]) + b"\x00"
    record = b"\x00\x00" + longer + body(4)
    found = read(dense([*ROWS[:at], encode_varint(len(record)) + record, *ROWS[at + 1 :]]))
    assert (found[at], len(found)) == ((at, T0, body(4)), 100)


@pytest.mark.parametrize("count", [99, 101, -1, 1 << 30, 0])
def test_more_or_fewer_records_than_in_the_head_are_an_error(count: int) -> None:
    with pytest.raises(BatchError):
        read(sealed(0, APPEND_TIME, max(count, 1) - 1, -1, count, b"".join(ROWS)))


def test_bytes_behind_the_last_record_are_an_error() -> None:
    with pytest.raises(MalformedBatch):
        read(dense([*ROWS, b"\x00"], 100))


def test_offsets_outside_their_batch_are_an_error() -> None:
    with pytest.raises(MalformedBatch):
        read(batch(0, {0: body(1), 9: body(1)}, last_delta=8))


@given(st.binary(max_size=300), st.integers(-1, 40), st.sampled_from([0, APPEND_TIME]))
def test_any_bytes_are_records_or_an_error(payload: bytes, count: int, attributes: int) -> None:
    data = sealed(0, attributes, max(0, count - 1), -1, count, payload)
    try:
        found = read(data)
    except BatchError:
        return
    assert len(found) == count
    assert all(one for _, _, one in found)


def test_a_batch_with_another_checksum_is_an_error() -> None:
    data = bytearray(batch(0, [body(3)]))
    struct.pack_into(">I", data, 17, 1)
    with pytest.raises(BatchError):
        checked_at(head_at(data, 0), data, 0)


# --- deltas that a broker does not look at: it gives every record of an uncompressed batch the next offset
#     (LogValidator.assignOffsetsNonCompressed), and leaves the record's own offset as it is


@pytest.mark.parametrize("attributes", [0, APPEND_TIME])
@pytest.mark.parametrize("deltas", [[77], [-1], [0, 0], [1, 0], [0, 5, 2], [-(1 << 31)] * 3, [1 << 40, 0]])
def test_a_record_that_names_another_place_stands_where_the_broker_has_counted_it(
    attributes: int, deltas: list[int]
) -> None:
    bodies = [body(n) for n in range(len(deltas))]
    payload = b"".join(wire_record(delta, one) for delta, one in zip(deltas, bodies, strict=True))
    found = read(sealed(40, attributes, len(deltas) - 1, -1, len(deltas), payload))
    assert found == [(40 + n, T0, one) for n, one in enumerate(bodies)]


@pytest.mark.parametrize("at", [0, 1, 63, 64, 70, 99])
def test_one_wrong_place_among_many_moves_no_other_record(at: int) -> None:
    wrong = wire_record(at + 1, body(7))
    found = read(dense([*ROWS[:at], wrong, *ROWS[at + 1 :]]))
    assert ([offset for offset, _, _ in found], found[at]) == (list(range(100)), (at, T0, body(7)))


def test_a_time_that_no_delay_fits_behind_is_an_error() -> None:
    with pytest.raises(MalformedBatch):
        read(batch(0, [body(1)], attributes=0, after_ms=[1 << 60]))


def test_a_time_before_the_epoch_is_its_beginning() -> None:
    assert read(batch(0, [body(1)], attributes=0, after_ms=[-(T0 + 5)])) == [(0, 0, body(1))]


def test_a_record_in_a_batch_with_gaps_has_no_other_place_than_the_one_that_it_names() -> None:
    with pytest.raises(MalformedBatch):
        read(sealed(40, APPEND_TIME, 5, -1, 2, wire_record(3, body(1)) + wire_record(3, body(2))))
