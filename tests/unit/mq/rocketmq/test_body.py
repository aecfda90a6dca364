"""mq.rocketmq.body: records as messages, and back."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayline.records.headers import EXACT
from delayline.records.record import encode_body
from mq.rocketmq.body import MARK, MEMBERS_BYTES_MAX, chunks, has_mark, marked, member_bytes, to_body, to_member
from rocketmq.errors import InvalidRequest
from rocketmq.wire.batch import BatchMember, decode_batch, encode_batch
from rocketmq.wire.properties import decode_properties
from rocketmq.wire.stored import StoredMessage, SysFlag
from tests.tiers import examples

NAMES = st.sampled_from([b"src", b"TAGS", b"KEYS", b"", b"\xff", b"a\x01b", EXACT, MARK, "Grüße".encode()])
VALUES = st.none() | st.sampled_from([b"", b"web", b"\x02", b"\x00\xff", b"x\x01"]) | st.binary(max_size=8)
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=4)


def stored(member: BatchMember, sys_flag: int = 0) -> StoredMessage:
    """As a pull brings it."""
    ((body, properties, _),) = decode_batch(encode_batch([member]))
    fixed = (0, 0, b"\x7f\0\0\1", 1, 0, b"\x7f\0\0\1", 1, 0, 0, 0)
    return StoredMessage("t", 0, 0, 0, bytes(body), properties.encode(), 0, sys_flag, *fixed[1:])


@settings(max_examples=examples(400))
@given(key=VALUES, value=VALUES, headers=HEADERS)
def test_every_record_comes_back_byte_for_byte(
    key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]]
) -> None:
    body = encode_body(key, value, headers)
    assert to_body(stored(to_member(body))) == body


@settings(max_examples=examples(100))
@given(key=VALUES, value=VALUES, headers=HEADERS)
def test_a_mark_is_no_part_of_the_record(
    key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]]
) -> None:
    body = encode_body(key, value, headers)
    message = stored(marked(to_member(body), "orders/a:0/1/2/0"))
    assert (to_body(message), has_mark(message, "orders/a:0/1/2/0")) == (body, True)
    assert not has_mark(message, "orders/a:0/1/2/1")
    assert not has_mark(message, "orders/a:0/1/2/")


def test_consumers_find_key_and_headers_as_rocketmqs_own_properties() -> None:
    member = to_member(encode_body(b"42", b"hello", [(b"TAGS", b"a"), (b"UNIQ_KEY", b"7F"), (b"src", b"web")]))
    found = {"KEYS": "42", "TAGS": "a", "UNIQ_KEY": "7F", "src": "web"}
    assert (member.body, decode_properties(member.properties)) == (b"hello", found)


def test_what_properties_cannot_express_leaves_them_the_rest() -> None:
    member = to_member(encode_body(b"42", b"", [(b"TAGS", b"a"), (b"raw", b"\xff"), (b"none", None)]))
    found = decode_properties(member.properties)
    assert {name: value for name, value in found.items() if name != EXACT.decode()} == {"KEYS": "42", "TAGS": "a"}


def test_headers_larger_than_properties_may_be_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="headers of"):
        to_member(encode_body(None, b"", [(b"h", b"x" * 40_000)]))


def test_a_clients_compressed_body_is_read_plain() -> None:
    message = stored(BatchMember(zlib.compress(b"hello"), "KEYS\x0142\x02"), int(SysFlag.COMPRESSED))
    assert to_body(message) == encode_body(b"42", b"hello")


@pytest.mark.parametrize("exact", ["!", "AA==", "/w=="])
def test_an_intruders_property_of_our_name_stops_nobody(exact: str) -> None:
    message = stored(BatchMember(b"v", f"{EXACT.decode()}\x01{exact}\x02a\x01b\x02"))
    assert to_body(message) == encode_body(None, b"v", [(EXACT, exact.encode()), (b"a", b"b")])


def test_a_body_that_cannot_be_decompressed_is_read_as_it_is() -> None:
    message = stored(BatchMember(b"no zlib", ""), int(SysFlag.COMPRESSED))
    assert to_body(message) == encode_body(None, b"no zlib")


def test_chunks_hold_what_one_request_may_and_leave_out_nothing() -> None:
    members = [BatchMember(b"x" * (1 << 20), "a\x01b\x02")] * 9
    found = list(chunks(members))
    assert [len(chunk) for chunk in found] == [3, 3, 3]
    assert all(sum(map(member_bytes, chunk)) <= MEMBERS_BYTES_MAX for chunk in found)
    assert len(encode_batch(found[0])) == sum(map(member_bytes, found[0]))
