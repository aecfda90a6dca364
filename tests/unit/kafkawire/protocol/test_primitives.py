"""Lengths, and tagged fields that a table does not know."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.records.record import encode_uvarint
from kafkawire.protocol.errors import Malformed
from kafkawire.protocol.message import decode, encode
from kafkawire.protocol.messages.fetch import FetchRequest
from kafkawire.protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from kafkawire.protocol.primitives import SPLICE_BYTES_MIN, Pieces, Reader

TAGS_AT = -1
"""A Fetch request without anything ends in the number of its tagged fields."""


@given(st.integers(0, 2**31 - 1))
def test_every_length_is_read_back(value: int) -> None:
    data = encode_uvarint(value)
    reader = Reader(data)
    assert reader.uvarint() == value
    assert reader.at == len(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends inside"),
        (b"\x80", "ends inside"),
        (b"\x80\x80\x80\x80\x80\x01", "longer than 32 bits"),
        (encode_uvarint(2**31), "beyond 31 bits"),
        (b"\xff\xff\xff\xff\x7f", "beyond 31 bits"),
    ],
)
def test_a_length_that_no_one_writes_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        Reader(data).uvarint()


def fetch_with_tags(tags: bytes) -> bytes:
    return b"".join(encode(FetchRequest(), 12))[:TAGS_AT] + tags


def test_tagged_fields_known_and_unknown_are_written_in_the_order_of_their_numbers() -> None:
    body = fetch_with_tags(bytes.fromhex("03  00 03 03 6964  01 01 aa  05 00"))
    request = decode(FetchRequest, 12, body)
    assert request.cluster_id == "id"
    assert request.unknown_tags == ((1, b"\xaa"), (5, b""))
    assert b"".join(encode(request, 12)) == body


@pytest.mark.parametrize(
    "tags",
    ["01 00 04 03 6964 ff", "01 00 02 03 6964", "01 00", "02 00 03 03 6964"],
    ids=["long", "short", "cut", "few"],
)
def test_a_tagged_field_of_another_length_than_its_value_is_refused(tags: str) -> None:
    with pytest.raises(Malformed):
        decode(FetchRequest, 12, fetch_with_tags(bytes.fromhex(tags)))


@pytest.mark.parametrize("size", [0, 10, SPLICE_BYTES_MIN, 3 * SPLICE_BYTES_MIN])
def test_pieces_are_written_as_if_they_were_one(size: int) -> None:
    parts = [b"head", bytes(size), b"", b"tail"]
    pieces: Any = Pieces(parts)
    partition = ProducePartition(3, pieces)
    whole = ProducePartition(3, b"".join(parts))
    for version in (3, 9):
        frames = [
            b"".join(encode(ProduceRequest(None, -1, 5, [ProduceTopic("t", [one])]), version))
            for one in (partition, whole)
        ]
        assert frames[0] == frames[1]
