"""Frames that pass as they come, and those that are wanted whole."""

import contextlib
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq.errors import FrameTooLarge, Malformed, WireError
from rocketmq.wire.command import Command, decode_body, decode_frame, encode_frame, peek
from rocketmq.wire.frames import FRAME_BYTES_MAX
from rocketmq.wire.passing import HEADER_BYTES_MAX, Passing, PassingSplitter
from tests.tiers import examples
from tests.unit.rocketmq.strategies import commands


def never(_head: memoryview, _length: int) -> bool:
    return False


def frame_of(command: Command) -> bytes:
    return b"".join(encode_frame(command))


@given(st.lists(st.tuples(commands(), st.booleans()), max_size=5), st.data())
@settings(max_examples=examples(200))
def test_every_byte_comes_out_once_and_in_order_however_the_stream_is_torn(
    sent: list[tuple[Command, bool]], data: st.DataObject
) -> None:
    frames = [frame_of(one) for one, _ in sent]
    stream, heads, wanted, out = b"".join(frames), [], [], b""

    def wants(head: memoryview, length: int) -> bool:
        heads.append((bytes(head), length))
        return sent[len(heads) - 1][1]

    splitter = PassingSplitter(wants)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    for begin, end in pairwise([0, *cuts, len(stream)]):
        for one in splitter.feed(stream[begin:end]):
            if isinstance(one, Passing):
                out += one.data
            else:
                wanted.append(bytes(one.payload))
                out += struct.pack(">i", len(one.payload)) + one.payload
    assert out == stream
    assert wanted == [frame[4:] for frame, (_, is_wanted) in zip(frames, sent, strict=True) if is_wanted]
    assert [length for _, length in heads] == [len(frame) - 4 for frame in frames]
    assert all(frame[4:].startswith(head) for frame, (head, _) in zip(frames, heads, strict=True))
    assert not splitter.unfinished
    assert splitter.begun == len(frames)


@given(commands())
@settings(max_examples=examples(200))
def test_a_head_shows_what_the_whole_frame_does(command: Command) -> None:
    heads: list[bytes] = []
    frame = frame_of(command)
    list(PassingSplitter(lambda head, _: bool(heads.append(bytes(head)))).feed(frame))
    found, whole = peek(memoryview(heads[0])), decode_frame(memoryview(frame)[4:])
    assert (found.code, found.opaque, found.flag) == (whole.code, whole.opaque, whole.flag)
    assert decode_frame(memoryview(heads[0])).fields == whole.fields
    assert decode_body(memoryview(frame)[4:]) == whole.body


@pytest.mark.parametrize("length", [-1, 0, 3, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_length_beyond_the_limits_is_refused_behind_the_frames_before_it(length: int) -> None:
    good = frame_of(Command(34))
    passed: list[bytes] = []
    pieces = PassingSplitter(never).feed(good + struct.pack(">iI", length, 0))
    with pytest.raises(FrameTooLarge):
        passed.extend(bytes(one[0]) for one in pieces)
    assert passed == [good]


def test_a_header_longer_than_any_is_refused_before_it_is_gathered() -> None:
    with pytest.raises(FrameTooLarge, match="header"):
        list(PassingSplitter(never).feed(struct.pack(">iI", 8 << 20, HEADER_BYTES_MAX + 1)))


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(Malformed):
        list(PassingSplitter(never).feed(struct.pack(">iI", 20, 17)))


@given(st.binary(max_size=300))
@settings(max_examples=examples(300))
def test_arbitrary_bytes_pass_or_raise_a_wire_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        list(PassingSplitter(lambda head, _: bool(peek(head).code & 1)).feed(data))


def test_a_frame_of_which_nothing_more_comes_holds_no_more_than_its_header() -> None:
    frame = frame_of(Command(11, {"topic": "orders"}, bytes(100_000)))
    splitter = PassingSplitter(never)
    passed = sum(len(one.data) for one in splitter.feed(frame[:50_000]) if isinstance(one, Passing))
    assert passed == 50_000
    assert splitter.unfinished
