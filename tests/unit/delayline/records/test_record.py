"""Records as bytes."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayline.errors import MalformedRecord
from delayline.records.headers import ACCEPTED, DUE, ID
from delayline.records.message import Header
from delayline.records.record import (
    Record,
    accepted_at_ms_of,
    decode_body,
    decode_packed,
    encode_body,
    encode_varint,
    pack,
    read_varint,
    seal,
    split_directives,
)
from tests.unit.delayline.bodies import BYTES, HEADERS, NAMES, PARTS

MOMENTS = st.one_of(st.integers(0, 1 << 62), st.integers(10**12, 10**13 - 1))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_varint_reads_back_as_itself(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varint(b"x" + encoded, 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\x00"), (-1, b"\x01"), (63, b"\x7e"), (64, b"\x80\x01"), (-65, b"\x81\x01")]
)
def test_varints_are_those_of_protocol_buffers(value: int, encoded: bytes) -> None:
    assert encode_varint(value) == encoded


@pytest.mark.parametrize("body", [b"", b"\x80", b"\x80" * 20, b"\xff" * 10 + b"\x01"])
def test_a_varint_that_ends_too_soon_or_too_late_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRecord):
        read_varint(body, 0)


@given(PARTS, PARTS, HEADERS)
def test_a_body_reads_back_as_its_parts(key: bytes | None, value: bytes | None, headers: list[Header]) -> None:
    assert decode_body(encode_body(key, value, headers)) == Record(key, value, headers)


def test_a_body_is_what_kafka_writes_behind_the_offset() -> None:
    assert encode_body(b"k", None, [(b"n", b"v"), (b"m", None)]) == b"\x02k\x01\x04\x02n\x02v\x02m\x01"


@given(BYTES)
def test_any_bytes_are_a_body_or_malformed(body: bytes) -> None:
    with suppress(MalformedRecord):
        record = decode_body(body)
        assert decode_body(encode_body(*record)) == record


@given(BYTES, st.sets(NAMES))
@example(b"\x01\x01\x02\x02", set())
def test_splitting_calls_malformed_what_decoding_does(body: bytes, names: set[bytes]) -> None:
    try:
        decode_body(body)
    except MalformedRecord:
        with pytest.raises(MalformedRecord):
            split_directives(body, names)
    else:
        split_directives(body, names)


def joined(split_key_and_value: bytes, count: int, kept: bytes) -> Record:
    return decode_body(split_key_and_value + encode_varint(count) + kept)


@given(PARTS, PARTS, HEADERS, st.sets(NAMES))
@example(None, None, [(b"n" * 64, b"v"), (b"a", b"v" * 64), (b"a", None), (b"b", b"")], {b"a", b"n" * 64})
def test_splitting_takes_out_the_named_headers_and_nothing_else(
    key: bytes | None, value: bytes | None, headers: list[Header], names: set[bytes]
) -> None:
    split = split_directives(encode_body(key, value, headers), names)
    assert split.directives == [header for header in headers if header[0] in names]
    assert joined(split.key_and_value, split.kept_count, split.kept) == Record(
        key, value, [header for header in headers if header[0] not in names]
    )


@given(st.binary(max_size=20))
def test_what_stands_in_key_or_value_is_no_directive(extra: bytes) -> None:
    lookalike = extra + encode_body(None, None, [(b"delay-ms", b"5")])
    assert split_directives(encode_body(lookalike, lookalike), {b"delay-ms"}).directives == []


@given(PARTS, PARTS, st.lists(st.tuples(st.binary(max_size=3), st.none()), max_size=70), MOMENTS)
def test_a_packed_record_is_the_message_and_the_moment_of_its_acceptance(
    key: bytes | None, value: bytes | None, headers: list[Header], accepted_at_ms: int
) -> None:
    packed = pack(split_directives(encode_body(key, value, headers), set()), accepted_at_ms)
    accepted: Header = (ACCEPTED, b"%d" % accepted_at_ms)
    assert decode_packed(packed) == Record(key, value, [*headers, accepted])
    assert accepted_at_ms_of(packed) == accepted_at_ms


@pytest.mark.slow
@given(PARTS, HEADERS, MOMENTS, MOMENTS, st.binary(max_size=130))
def test_a_sealed_record_is_a_body_with_id_and_due_behind(
    value: bytes | None, headers: list[Header], accepted_at_ms: int, due_ms: int, message_id: bytes
) -> None:
    packed = pack(split_directives(encode_body(None, value, headers), set()), accepted_at_ms)
    ours: list[Header] = [(ACCEPTED, b"%d" % accepted_at_ms), (ID, message_id), (DUE, b"%d" % due_ms)]
    assert decode_body(seal(packed, message_id, due_ms)) == Record(None, value, headers + ours)


def test_the_worked_example_of_the_format_holds() -> None:
    body = encode_body(b"7", b"hi", [(b"delay", b"5s"), (b"src", b"web")])
    packed = pack(split_directives(body, {b"delay"}), 1_767_225_600_000)
    assert packed == b"\x027\x04hi\x08\x06src\x06web\x24delayline-accepted\x1a1767225600000"


@pytest.mark.parametrize("packed", [b"", b"\x01\x01\x00", b"delayline-accepted", b"delayline-accepted\x02"])
def test_bytes_that_are_not_packed_have_no_moment_of_acceptance(packed: bytes) -> None:
    with pytest.raises(MalformedRecord):
        accepted_at_ms_of(packed)
