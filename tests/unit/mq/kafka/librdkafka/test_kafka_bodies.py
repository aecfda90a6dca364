"""Bodies and librdkafka's messages: the short ways give what the general ones give."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayline.errors import MalformedRecord
from delayline.records.record import decode_body, encode_body

bodies = pytest.importorskip("mq.kafka.librdkafka.bodies")

SIZES = st.sampled_from([0, 1, 63, 64, 65, 8191, 8192, 8193])
SOME_BYTES = st.none() | st.binary(max_size=70) | SIZES.map(bytes)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=70)
HEADERS = st.lists(st.tuples(NAMES, SOME_BYTES), max_size=3) | st.just([("n", b"v")] * 64)


class Message:
    """What `body_of` asks a message for."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
        self._key, self._value, self._headers = key, value, headers

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers or None


@given(SOME_BYTES, SOME_BYTES, HEADERS)
def test_a_message_becomes_the_body_of_its_parts(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    expected = encode_body(key, value, [(name.encode(), header) for name, header in headers])
    assert bodies.body_of(Message(key, value, headers)) == expected


@given(SOME_BYTES, SOME_BYTES, HEADERS)
def test_a_body_is_taken_apart_into_what_it_was_made_of(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    body = encode_body(key, value, [(name.encode(), header) for name, header in headers])
    assert bodies.parts_of(body) == (key, value, headers)


@given(st.binary(max_size=40))
@example(b"")
@example(encode_body(b"k", b"v", [(b"n", b"v")])[:-1])
@example(encode_body(b"k", b"v", [(b"n", b"v")]) + b"\0")
def test_any_bytes_are_read_as_in_the_general_way_or_refused(body: bytes) -> None:
    try:
        record = decode_body(body)
        named = [(name.decode(), value) for name, value in record.headers]
        if any("\0" in name for name, _ in named):
            raise MalformedRecord("NUL")
    except (MalformedRecord, UnicodeDecodeError):
        with pytest.raises(MalformedRecord):
            bodies.parts_of(body)
    else:
        assert bodies.parts_of(body) == (record.key, record.value, named)


@pytest.mark.parametrize("name", [b"\xff", b"a\0b"])
def test_a_header_name_that_the_library_would_change_is_refused(name: bytes) -> None:
    with pytest.raises(MalformedRecord):
        bodies.parts_of(encode_body(None, b"v", [(name, b"v")]))
