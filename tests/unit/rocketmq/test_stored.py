"""Stored messages, batches, properties, compressed bodies."""

import contextlib
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq.errors import BodyTooLarge, CorruptBody, InvalidRequest, Malformed, UnknownCompression, WireError
from rocketmq.wire.batch import BatchMember, decode_batch, encode_batch, member
from rocketmq.wire.compression import Compression, compress, compression_of, decompress, flags_of
from rocketmq.wire.properties import decode_properties, encode_properties
from rocketmq.wire.stored import (
    StoredMessage,
    SysFlag,
    TransactionState,
    encode_message,
    read_messages,
    unwrap,
)
from tests.tiers import examples
from tests.unit.rocketmq.strategies import PROPERTIES, members, stored_messages

PLAIN = StoredMessage(
    *("topic", 1, 10, 1000, b"body", b"KEYS\x01a\x02", 0, 0, 1, bytes(4), 1, 2, bytes([127, 0, 0, 1]), 10911, 0, 0, 0)
)


def written(*messages: StoredMessage) -> bytes:
    return b"".join(map(encode_message, messages))


@given(st.lists(stored_messages(), max_size=4))
@settings(max_examples=examples(200))
def test_messages_are_read_as_they_were_stored(messages: list[StoredMessage]) -> None:
    found = read_messages(written(*messages))
    assert [one._replace(body_crc=0) for one in found.messages] == messages
    assert found.cut_bytes == 0


@given(stored_messages(), st.data())
@settings(max_examples=examples(100))
def test_a_message_that_is_cut_short_is_left_and_counted(message: StoredMessage, data: st.DataObject) -> None:
    whole = written(PLAIN, message)
    cut = data.draw(st.integers(1, len(written(message)) - 1))
    found = read_messages(whole[:-cut])
    assert len(found.messages) == 1
    assert found.cut_bytes == len(whole) - cut - len(written(PLAIN))


@given(stored_messages(), st.data())
@settings(max_examples=examples(400))
def test_damaged_messages_raise_a_wire_error_or_are_read(message: StoredMessage, data: st.DataObject) -> None:
    damaged = bytearray(written(message, PLAIN))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        for one in read_messages(bytes(damaged)).messages:
            one.plain_body(1000)
            one.properties_map()
            unwrap(one)
    except WireError:
        pass


@given(st.binary(max_size=300))
@settings(max_examples=examples(300))
def test_arbitrary_bytes_raise_a_wire_error_or_are_read(data: bytes) -> None:
    for read in (read_messages, decode_batch, decode_properties):
        with contextlib.suppress(WireError):
            read(data)


def test_a_body_that_changed_on_the_way_is_noticed() -> None:
    damaged = bytearray(written(PLAIN))
    damaged[damaged.index(b"body")] ^= 1
    with pytest.raises(CorruptBody, match="queue 1, offset 10"):
        read_messages(bytes(damaged))
    assert read_messages(bytes(damaged), checks_crc=False).messages[0].body == b"cody"


def test_a_message_is_named_by_its_broker_and_its_place_there() -> None:
    assert PLAIN.offset_message_id == "7F000001" + "00002A9F" + "00000000000003E8"


def test_the_state_of_a_transaction_is_two_bits_together() -> None:
    states = [PLAIN._replace(sys_flag=bits | 0xFF0).transaction for bits in (0, 4, 8, 12)]
    assert states == list(TransactionState)


@pytest.mark.parametrize("size", [0, 3, 40, -1])
def test_a_size_that_no_message_has_is_refused(size: int) -> None:
    data = size.to_bytes(4, "big", signed=True) + bytes(100)
    with pytest.raises(Malformed):
        read_messages(data)


def test_the_filling_at_the_end_of_a_log_file_is_no_message() -> None:
    with pytest.raises(Malformed, match="magic cbd43194"):
        read_messages((100).to_bytes(4, "big") + bytes.fromhex("cbd43194") + bytes(92))


# --- batches


@given(st.lists(members(), max_size=5))
@settings(max_examples=examples(100))
def test_members_of_a_batch_are_read_as_they_were_written(sent: list[BatchMember]) -> None:
    found = decode_batch(encode_batch(sent))
    assert [one._replace(body=bytes(one.body)) for one in found] == sent


def test_a_message_that_is_a_batch_within_is_taken_apart() -> None:
    flags = int(SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP) | flags_of(Compression.ZSTD)
    body = compress(Compression.ZSTD, encode_batch([member(b"a", {"k": "v"}), member(b"b", {}, 3)]))
    found = unwrap(PLAIN._replace(sys_flag=flags, body=body))
    assert [(one.queue_offset, one.plain_body(), one.flag) for one in found] == [(10, b"a", 0), (11, b"b", 3)]
    assert found[0].properties_map() == {"k": "v"}
    assert unwrap(PLAIN) == [PLAIN]


def test_a_batch_is_read_as_brokers_read_it() -> None:
    """By the inner lengths; its properties are bytes to them."""
    data = bytearray(encode_batch([member(b"abc", {"k": "vv"}), member(b"d", {})]))
    data[3] += 1
    data[data.index(b"vv")] = 0xFF
    found = [(bytes(one.body), one.properties_map()) for one in decode_batch(bytes(data))]
    assert found == [(b"abc", {"k": "\ufffdv"}), (b"d", {})]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (encode_batch([member(b"abc", {})]) + b"xyz", "not a batch"),
        (encode_batch([member(b"abc", {})])[:-1], "not a batch"),
        (encode_batch([member(b"abc", {"k": "v"})])[:-1], "do not fit"),
        (encode_batch([member(b"abc", {})])[:-2] + b"\xff\xff", "do not fit"),
        (bytes(16) + b"\xff\xff\xff\xff\0\0", "not a batch"),
    ],
)
def test_a_batch_that_brokers_cannot_read_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        decode_batch(data)


# --- properties


@given(PROPERTIES)
@settings(max_examples=examples(100))
def test_properties_are_read_as_they_were_written(properties: dict[str, str]) -> None:
    text = encode_properties(properties)
    assert decode_properties(text) == properties
    assert decode_properties(text.encode().removesuffix(b"\x02")) == properties


def test_a_reader_passes_over_what_is_no_pair_as_java_does() -> None:
    assert decode_properties("a\x01\x02\x01b\x02c\x02\x02d\x01e\x01f\x02d2\x01g") == {"d": "e\x01f", "d2": "g"}


@pytest.mark.parametrize("properties", [{"": "a"}, {"a": ""}, {"a\x01": "b"}, {"a": "b\x02"}, {"a": "b" * 32766}])
def test_properties_that_would_not_come_back_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        encode_properties(properties)


def test_the_limit_counts_bytes_and_not_characters() -> None:
    encode_properties({"a": "b" * 32764})
    with pytest.raises(InvalidRequest, match="32767"):
        encode_properties({"a": "ä" * 16383})


# --- compression


@given(st.sampled_from(Compression), st.binary(max_size=2000))
@settings(max_examples=examples(100))
def test_bodies_come_out_as_they_went_in(compression: Compression, body: bytes) -> None:
    assert compression_of(flags_of(compression)) is compression
    assert decompress(compression, compress(compression, body), len(body)) == body


@pytest.mark.parametrize("compression", Compression)
def test_a_small_body_that_stands_for_a_huge_one_stops_at_the_limit(compression: Compression) -> None:
    bomb = compress(compression, bytes(64 << 20))
    with pytest.raises(BodyTooLarge, match="1000000"):
        decompress(compression, bomb, 1_000_000)


@pytest.mark.parametrize("compression", Compression)
def test_a_compressed_body_that_ends_early_is_refused(compression: Compression) -> None:
    data = compress(compression, b"a body that is long enough to be cut" * 20)
    for size in range(len(data) - 4):
        with pytest.raises(Malformed):
            decompress(compression, data[:size])


@given(st.sampled_from(Compression), st.binary(max_size=200))
@settings(max_examples=examples(200))
def test_bytes_that_are_not_compressed_raise_a_wire_error_or_are_read(compression: Compression, data: bytes) -> None:
    with contextlib.suppress(WireError):
        decompress(compression, data, 10_000)


def test_a_body_from_before_there_was_a_choice_is_zlib() -> None:
    assert PLAIN._replace(sys_flag=1, body=zlib.compress(b"old")).plain_body() == b"old"


def test_a_compression_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownCompression, match="compression 5"):
        PLAIN._replace(sys_flag=0x501).plain_body()
