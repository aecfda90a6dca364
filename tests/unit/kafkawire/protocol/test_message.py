"""Frames of requests and answers, and their headers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader as OtherHeader

from kafkawire.protocol.apis import APIS, ApiKey, is_let_through
from kafkawire.protocol.errors import Malformed, UnsupportedVersion, WireError
from kafkawire.protocol.message import (
    RequestHeader,
    decode,
    encode,
    peek,
    read_request,
    read_response,
    request_frame,
    response_frame,
    with_correlation_id,
)
from kafkawire.protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from kafkawire.protocol.primitives import SPLICE_BYTES_MIN

some_api = st.sampled_from(sorted(APIS.values()))
client_ids = st.none() | st.text(max_size=20)


def payload_of(frame: bytes) -> bytes:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:]


@given(some_api, st.integers(-(2**31), 2**31 - 1), client_ids, st.binary(max_size=30))
def test_a_request_frame_is_read_back(api: tuple[int, ...], correlation_id: int, client_id: str, body: bytes) -> None:
    header = RequestHeader(api[0], api[3], correlation_id, client_id)
    payload = payload_of(b"".join(request_frame(header, [body])))
    assert read_request(payload) == (header, body)
    assert peek(payload) == header[:3]


@pytest.mark.parametrize("version", [8, 9])
def test_another_codec_writes_the_same_header(version: int) -> None:
    other = OtherHeader(request_api_key=3, request_api_version=version, correlation_id=7, client_id="web")
    header = RequestHeader(ApiKey.METADATA, version, 7, "web")
    assert payload_of(b"".join(request_frame(header, []))) == other.encode(flexible=version >= 9)


def test_tagged_fields_of_a_header_go_on_as_they_came() -> None:
    tagged = bytes.fromhex("0003 0009 00000007 ffff 01 05 02 abcd")
    header, body = read_request(tagged + b"body")
    assert b"".join(request_frame(header, [body]))[4:] == tagged + b"body"


@given(some_api, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=30))
def test_an_answer_frame_is_read_back(api: tuple[int, ...], correlation_id: int, body: bytes) -> None:
    for version in (api[2], api[3]):
        payload = payload_of(b"".join(response_frame(api[0], version, correlation_id, [body])))
        assert read_response(api[0], version, payload) == (correlation_id, body)


def test_an_answer_to_api_versions_never_has_tagged_fields_in_its_header() -> None:
    assert (
        b"".join(response_frame(ApiKey.API_VERSIONS, 4, 1, [b"body"])) == bytes.fromhex("0000000800000001") + b"body"
    )
    assert b"".join(response_frame(ApiKey.METADATA, 9, 1, [b"body"])) == bytes.fromhex("000000090000000100") + b"body"


def test_a_request_goes_on_under_another_correlation_id() -> None:
    frame = b"".join(request_frame(RequestHeader(ApiKey.PRODUCE, 9, 1, "web"), [b"body"]))
    again = b"".join(with_correlation_id(frame[4:], 77))
    assert again == b"".join(request_frame(RequestHeader(ApiKey.PRODUCE, 9, 77, "web"), [b"body"]))


def test_large_records_are_neither_copied_when_read_nor_when_written() -> None:
    records = bytes(SPLICE_BYTES_MIN)
    request = ProduceRequest(acks=-1, topic_data=[ProduceTopic("orders", [ProducePartition(0, records)])])
    parts = encode(request, 9)
    assert any(part is records for part in parts)
    framed = request_frame(RequestHeader(ApiKey.PRODUCE, 9, 1), parts)
    assert any(part is records for part in framed)
    body = b"".join(parts)
    found = decode(ProduceRequest, 9, body).topic_data[0].partition_data[0].records
    assert isinstance(found, memoryview)
    assert found.obj is body


def test_an_array_longer_than_its_message_is_refused_before_it_is_made() -> None:
    body = bytes.fromhex("ffff 0001 00000000 7fffffff")
    with pytest.raises(Malformed, match="longer than its message"):
        decode(ProduceRequest, 3, body)


def test_more_elements_than_the_limit_are_refused() -> None:
    topics = [ProduceTopic("t", [ProducePartition(n) for n in range(60)]) for _ in range(3)]
    body = b"".join(encode(ProduceRequest(topic_data=topics), 9))
    assert len(decode(ProduceRequest, 9, body, items_max=183).topic_data) == 3
    with pytest.raises(Malformed, match="too many"):
        decode(ProduceRequest, 9, body, items_max=182)


def test_an_api_that_is_not_let_through_is_refused() -> None:
    with pytest.raises(UnsupportedVersion):
        read_request(bytes.fromhex("004e 0001 00000001 ffff 00"))


@pytest.mark.parametrize(("key", "version"), [(0, 13), (1, 16), (8, 10), (17, 0), (18, 5), (24, 4), (76, 1), (78, 1)])
def test_what_could_not_be_kept_is_not_let_through(key: int, version: int) -> None:
    assert not is_let_through(key, version)


@given(st.binary(max_size=40), st.integers(-1, 100), st.integers(-1, 20))
def test_arbitrary_bytes_are_read_or_refused_and_nothing_else(payload: bytes, key: int, version: int) -> None:
    with suppress(WireError):
        read_request(payload)
    with suppress(WireError):
        read_response(key, version, payload)
