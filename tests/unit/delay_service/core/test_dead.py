"""Dead letters: the record as it came, with headers that have the reason."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.dead import as_it_came, encode_dead, left_out
from delayline.records import headers as names
from delayline.records.message import Key, Shard
from delayline.records.record import Record, decode_body, encode_body

ORDERS = Shard("orders", "3")
BYTES = st.binary(max_size=20)
RECORDS = st.builds(Record, st.none() | BYTES, st.none() | BYTES, st.lists(st.tuples(BYTES, st.none() | BYTES)))


@given(RECORDS)
def test_a_dead_letter_is_the_record_with_our_headers_behind_its_own(original: Record) -> None:
    body = encode_dead(ORDERS, Key(50, 7), "orders.3.7.50", "too-large", "12 bytes", original)
    found = decode_body(body)
    assert (found.key, found.value) == (original.key, original.value)
    count = len(original.headers)
    assert found.headers[:count] == original.headers
    assert dict(found.headers[count:]) == {
        names.DEAD_ID: b"orders.3.7.50",
        names.TOPIC: b"orders",
        names.DEAD_PARTITION: b"3",
        names.DEAD_OFFSET: b"7",
        names.DEAD_DUE: b"50",
        names.REASON: b"12 bytes",
        names.DEAD_ERROR_CODE: b"too-large",
    }


@given(RECORDS)
def test_what_is_left_out_is_described_by_its_size_and_its_digest(original: Record) -> None:
    body = encode_body(*original)
    expected = f"{len(body)} bytes, sha256 {sha256(body).hexdigest()}".encode()
    assert left_out(original) == Record(None, None, [(names.LEFT_OUT, expected)])


@given(RECORDS)
def test_the_body_of_a_record_comes_back_as_that_record(original: Record) -> None:
    assert as_it_came(encode_body(*original)) == original


def test_bytes_that_are_no_record_are_kept_as_a_value() -> None:
    assert as_it_came(b"\xff") == Record(None, b"\xff", [])
