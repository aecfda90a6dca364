"""Frames and both encodings of their headers."""

import contextlib
import dataclasses
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq.errors import FrameTooLarge, InvalidRequest, Malformed, UnreadableHeader, WireError
from rocketmq.wire.codes import NEEDS_JSON, Request
from rocketmq.wire.command import Command, Encoding, Language, answer_to, decode_frame, encode_frame
from rocketmq.wire.frames import FrameSplitter
from tests.tiers import examples
from tests.unit.rocketmq.strategies import commands


def framed(header: bytes, body: bytes = b"", encoding: int = 0) -> memoryview:
    return memoryview((encoding << 24 | len(header)).to_bytes(4, "big") + header + body)


@given(commands())
@settings(max_examples=examples(200))
def test_a_command_is_read_as_it_was_written(command: Command) -> None:
    (payload,) = FrameSplitter().feed(b"".join(encode_frame(command)))
    found = decode_frame(payload)
    assert dataclasses.replace(found, body=bytes(found.body)) == command


@given(st.lists(commands(), max_size=4), st.data())
@settings(max_examples=examples(100))
def test_frames_come_out_whole_however_the_stream_is_torn(sent: list[Command], data: st.DataObject) -> None:
    stream = b"".join(b"".join(encode_frame(one)) for one in sent)
    splitter, found, at = FrameSplitter(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += [decode_frame(payload).opaque for payload in splitter.feed(stream[at : at + size])]
        at += size
    assert found == [one.opaque for one in sent]
    assert not splitter.unfinished


_ODD: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.sampled_from([1 << 31, -1 << 31, (-1 << 31) - 1])
    | st.text(max_size=3)
    | st.just([])
)
_HEADERS = st.fixed_dictionaries(
    {"code": st.integers(0, 400) | _ODD},
    optional={
        **dict.fromkeys(("opaque", "flag", "version"), st.integers(0, 9) | _ODD),
        **dict.fromkeys(("language", "more"), st.sampled_from(["JAVA", "GO"]) | _ODD),
        "extFields": st.dictionaries(st.text(max_size=2), st.text(max_size=3) | _ODD, max_size=3) | _ODD,
    },
)


@given(_HEADERS)
@settings(max_examples=examples(400))
def test_a_header_is_read_alike_whether_or_not_all_of_it_is_as_java_writes_it(header: dict[str, Any]) -> None:
    def read(header: dict[str, Any]) -> Command | type[Malformed]:
        try:
            return decode_frame(framed(json.dumps(header).encode()))
        except Malformed:
            return Malformed

    assert read(header) == read({**header, "remark": False})


@given(st.binary(max_size=200), st.sampled_from([0, 1]))
@settings(max_examples=examples(400))
def test_arbitrary_headers_raise_a_wire_error_or_are_read(header: bytes, encoding: int) -> None:
    with contextlib.suppress(WireError):
        decode_frame(framed(header, b"", encoding))


@given(commands(), st.data())
@settings(max_examples=examples(300))
def test_damaged_frames_raise_a_wire_error_or_are_read(command: Command, data: st.DataObject) -> None:
    frame = bytearray(b"".join(encode_frame(command))[4:])
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        decode_frame(memoryview(frame))


def test_a_length_beyond_the_limit_is_refused_before_anything_is_gathered() -> None:
    splitter = FrameSplitter(frame_bytes_max=100)
    with pytest.raises(FrameTooLarge, match="101 bytes"):
        list(splitter.feed((101).to_bytes(4, "big")))


def test_a_length_below_that_of_an_empty_frame_is_refused() -> None:
    with pytest.raises(FrameTooLarge, match="-1 bytes"):
        list(FrameSplitter().feed(b"\xff" * 4))


def test_frames_before_one_that_is_too_large_come_out() -> None:
    feed = FrameSplitter(100).feed(b"\0\0\0\x04abcd" + b"\x7f" * 4)
    assert bytes(next(feed)) == b"abcd"
    with pytest.raises(FrameTooLarge):
        next(feed)


def test_a_frame_that_the_other_side_would_not_read_is_not_sent() -> None:
    with pytest.raises(InvalidRequest, match="16777216"):
        encode_frame(Command(10, body=bytes(16 << 20)))


def test_numbers_and_booleans_of_old_clients_are_read_as_text() -> None:
    found = decode_frame(framed(b'{"code":10,"opaque":3,"extFields":{"a":1,"b":true,"c":null,"d":false,"e":1.5}}'))
    assert found.fields == {"a": "1", "b": "true", "d": "false", "e": "1.5"}


def test_numbers_as_text_are_read_as_numbers() -> None:
    found = decode_frame(framed(b'{"code":"310","opaque":"-3","flag":"+2","version":"1"}'))
    assert (found.code, found.opaque, found.flag, found.version) == (310, -3, 2, 1)


_SMALL = st.integers(-(1 << 31), (1 << 31) - 1)
_TEXTS = st.sampled_from(["", "opaque:3", "flag:9", "it's", '"opaque":3', "\\"])


@given(
    _SMALL, st.integers(0, 3), _TEXTS, st.lists(st.sampled_from(["'", '"', ""]), min_size=2, max_size=2), st.data()
)
@settings(max_examples=examples(400))
def test_of_json_that_is_none_no_number_is_found_but_its_own(
    opaque: int, flag: int, text: str, quotes: list[str], data: st.DataObject
) -> None:
    """Names and numbers in other quotes or in none, more behind the end."""
    names, numbers = quotes
    written = {"code": 310, "opaque": opaque, "flag": flag}
    parts = [f"{names}{name}{names}:{numbers}{value}{numbers}" for name, value in written.items()]
    parts.append(f"{names}extFields{names}:{{{names}i{names}:{json.dumps(text)}}}")
    behind = data.draw(st.text(max_size=9))
    header = f"{{{','.join(data.draw(st.permutations(parts)))}}}{behind}".encode(errors="replace")
    try:
        found: Command | UnreadableHeader = decode_frame(framed(header))
    except UnreadableHeader as error:
        found = error
    except Malformed:
        assert "opaque" in text + behind or "flag" in text + behind
        return
    assert (found.opaque, found.flag) == (opaque, flag)


def test_a_header_in_the_other_encoding_is_known_by_its_number() -> None:
    with pytest.raises(UnreadableHeader) as found:
        decode_frame(framed(bytes(5) + b"\0\0\0\x07" + b"\0\0\0\x02" + b"\x7f\xff\xff\xff", encoding=1))
    assert (found.value.opaque, found.value.flag, found.value.encoding) == (7, 2, Encoding.ROCKETMQ)


def test_what_a_header_leaves_out_has_a_default() -> None:
    found = decode_frame(framed(b'{"code":0,"language":"KLINGON"}', b"body"))
    assert (found.code, found.opaque, found.flag, found.remark, found.version) == (0, 0, 0, "", 0)
    assert (found.language, bytes(found.body)) == (Language.OTHER, b"body")


def test_a_header_without_a_code_is_refused_since_zero_would_mean_success() -> None:
    with pytest.raises(Malformed, match="without code"):
        decode_frame(framed(b'{"flag":1}'))


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":"ten"}',
        b'{"code":"9999999999"}',
        b'{"code":10.5}',
        b'{"code":true}',
        b'{"code":99999999999}',
        b'{"code":1,"extFields":[1]}',
        b'{"code":1,"extFields":{"a":{}}}',
        b"[" * 100_000,
        b'{"code":',
        b"\xff",
        b"[]",
    ],
)
def test_json_that_is_no_header_is_refused(header: bytes) -> None:
    with pytest.raises(Malformed):
        decode_frame(framed(header))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb'"a\ud800"', "a?"),
        (rb'"\udc00b"', "?b"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\\ud800"', "\\ud800"),
        (b'"a\xffb"', "a\ufffdb"),
    ],
)
def test_text_that_is_no_unicode_is_read_as_java_would_store_it(text: bytes, read: str) -> None:
    assert decode_frame(framed(b'{"code":10,"extFields":{"i":' + text + b"}}")).fields == {"i": read}


def test_text_in_the_other_encoding_that_is_no_utf8_is_read_as_java_would_store_it() -> None:
    pair = b"\0\x01i" + b"\0\0\0\x03a\xffb"
    header = bytes(13) + bytes(4) + len(pair).to_bytes(4, "big") + pair
    assert decode_frame(framed(header, encoding=1)).fields == {"i": "a\ufffdb"}


def test_keys_that_are_numbers_without_quotes_are_read() -> None:
    found = decode_frame(framed(b'{"code":0,"extFields":{0:"a, {1:2}", 12 :"\\"{3:"}}'))
    assert found.fields == {"0": "a, {1:2}", "12": '"{3:'}


def test_bytes_behind_the_ext_fields_are_refused() -> None:
    header = bytes(13) + bytes(4) + bytes(4)  # no remark, no ext fields
    assert decode_frame(framed(header, encoding=1)).fields == {}
    with pytest.raises(Malformed, match="0 bytes of ext fields where there are 3"):
        decode_frame(framed(header + b"abc", encoding=1))


def test_the_cost_of_a_frame_in_pieces_grows_with_its_length_alone() -> None:
    costs = []
    for size in (1 << 20, 8 << 20):
        splitter, piece = FrameSplitter(), bytes(1024)
        list(splitter.feed(size.to_bytes(4, "big")))
        before = time.process_time()
        found = [payload for _ in range(size // 1024) for payload in splitter.feed(piece)]
        costs.append(time.process_time() - before)
        assert len(found) == 1
    assert costs[1] < 30 * costs[0] + 0.02  # sixty-four times, were it copied anew for each piece


def test_an_encoding_that_there_is_not_is_refused() -> None:
    with pytest.raises(Malformed, match="encoding 2"):
        decode_frame(framed(b"{}", b"", 2))


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(Malformed, match="a header of 100 bytes in a frame of 6"):
        decode_frame(memoryview((100).to_bytes(4, "big") + b"ab"))


def test_an_answer_goes_out_in_the_encoding_of_its_request() -> None:
    for encoding in Encoding:
        request = Command(105, {"topic": "t"}, opaque=9, encoding=encoding)
        (payload,) = FrameSplitter().feed(b"".join(encode_frame(answer_to(request, 17, remark="none"))))
        found = decode_frame(payload)
        assert (found.encoding, found.opaque, found.code, found.is_answer) == (encoding, 9, 17, True)


def test_codes_of_pop_are_refused_in_sixteen_bits() -> None:
    assert Request.POP_MESSAGE in NEEDS_JSON
    with pytest.raises(InvalidRequest, match="200050"):
        encode_frame(Command(Request.POP_MESSAGE, encoding=Encoding.ROCKETMQ))


def test_every_code_has_a_meaning() -> None:
    assert all(one.meaning.endswith((".", "?")) for one in Request)
