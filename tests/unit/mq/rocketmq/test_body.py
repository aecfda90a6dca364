"""mq.rocketmq.body: records as messages, and back."""

import zlib
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayline.records.headers import ACCEPTED, DUE, EXACT, ID
from delayline.records.record import encode_body
from mq.rocketmq.added import is_added
from mq.rocketmq.body import (
    MARK,
    MEMBERS_BYTES_MAX,
    Identity,
    chunks,
    has_mark,
    marked,
    member_bytes,
    to_body,
    to_member,
)
from rocketmq.errors import InvalidRequest
from rocketmq.wire.batch import BatchMember, decode_batch, encode_batch
from rocketmq.wire.properties import decode_properties
from rocketmq.wire.stored import StoredMessage, SysFlag
from tests.tiers import examples

PLAIN = [b"src", b"TAGS", "Grüße".encode(), b"", b"\xff", b"a\x01b"]
NAMES = st.sampled_from([*PLAIN, b"KEYS", b"UNIQ_KEY", b"MSG_REGION", b"TIMER_DELAY_SEC", EXACT, MARK])
VALUES = st.none() | st.sampled_from([b"", b"web", b"\x02", b"\x00\xff", b"x\x01"]) | st.binary(max_size=8)
DELIVERED: list[tuple[bytes, bytes | None]] = [
    (ACCEPTED, b"1767225600000"),
    (ID, b"orders.a:0.1.1767225630000"),
    (DUE, b"1767225630000"),
]
HEADERS = st.builds(add, st.lists(st.tuples(NAMES, VALUES), max_size=4), st.sampled_from([[], DELIVERED]))


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
    message = stored(marked([to_member(body)], "orders/a:0/1/2/0")[0])
    assert (to_body(message), has_mark(message, "orders/a:0/1/2/0")) == (body, True)
    assert not has_mark(message, "orders/a:0/1/2/1")
    assert not has_mark(message, "orders/a:0/1/2/")


def test_consumers_find_key_and_headers_as_rocketmqs_own_properties() -> None:
    member = to_member(encode_body(b"42", b"hello", [(b"TAGS", b"a"), (b"UNIQ_KEY", b"7F"), (b"src", b"web")]))
    found = {"KEYS": "42", "TAGS": "a", "UNIQ_KEY": "7F", "src": "web"}
    assert (member.body, decode_properties(member.properties)) == (b"hello", found)


def test_a_delivered_message_has_an_id_of_rocketmqs_that_is_the_same_again_and_no_part_of_the_record() -> None:
    body = encode_body(b"42", b"hello", DELIVERED)
    again = encode_body(b"43", b"other", DELIVERED)
    other = encode_body(b"42", b"hello", [DELIVERED[0], (ID, b"orders.a:0.2.1767225630000"), DELIVERED[2]])
    first, second, third = (decode_properties(to_member(one).properties)["UNIQ_KEY"] for one in (body, again, other))
    assert first == second != third
    assert to_body(stored(to_member(body))) == body
    assert "UNIQ_KEY" not in to_member(encode_body(b"42", b"hello", DELIVERED[:2])).properties


def test_what_goes_straight_to_its_topic_gets_an_id_as_well() -> None:
    body = encode_body(b"42", b"hello", [])
    member = to_member(body, Identity(b"its own", 1_767_225_630_000))
    assert is_added(b"UNIQ_KEY", decode_properties(member.properties)["UNIQ_KEY"].encode())
    assert to_body(stored(member)) == body


@pytest.mark.parametrize("region", ["DefaultRegion", "DefaultRegion-2"])
def test_a_delivered_message_has_a_region_so_that_consumers_trace_it(region: str) -> None:
    """Another than the default is one that a broker has added to the half of a transaction."""
    given = [] if region == "DefaultRegion" else [(b"MSG_REGION", region.encode())]
    body = encode_body(b"42", b"hello", [*given, *DELIVERED])
    member = to_member(body)
    assert member.properties.count("MSG_REGION") == 1
    assert decode_properties(member.properties)["MSG_REGION"] == region
    assert to_body(stored(member)) == body


def test_the_id_that_a_client_gives_stays_the_only_one() -> None:
    member = to_member(encode_body(None, b"", [(b"UNIQ_KEY", b"7F"), *DELIVERED]))
    assert member.properties.count("UNIQ_KEY") == 1
    assert decode_properties(member.properties)["UNIQ_KEY"] == "7F"


def test_an_id_of_ours_that_a_consumer_sends_on_is_not_that_of_the_new_message() -> None:
    delivered = to_member(encode_body(None, b"", [(b"TIMER_DELAY_SEC", b"5"), *DELIVERED]))
    received = [(name.encode(), value.encode()) for name, value in decode_properties(delivered.properties).items()]
    assert {b"UNIQ_KEY", b"TIMER_OUT_MS", b"MSG_REGION"} < dict(received).keys()
    sent_on = to_member(encode_body(None, b"", [header for header in received if header not in DELIVERED]))
    assert decode_properties(sent_on.properties) == {"TIMER_DELAY_SEC": "5"}


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_delay_of_rocketmqs_own_is_marked_as_over_unless_a_client_has_done_it(name: str) -> None:
    body = encode_body(None, b"", [(name.encode(), b"5"), *DELIVERED])
    assert int(decode_properties(to_member(body).properties)["TIMER_OUT_MS"]) == 1_767_225_630_000
    assert to_body(stored(to_member(body))) == body
    marked_already = encode_body(None, b"", [(name.encode(), b"5"), (b"TIMER_OUT_MS", b"1"), *DELIVERED])
    assert decode_properties(to_member(marked_already).properties)["TIMER_OUT_MS"] == "1"


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
