"""Cutting a stream into frames."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.protocol.errors import FrameTooLarge
from kafkawire.protocol.frames import FrameSplitter, Opaque, Piece, Whole


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Owner:
    """Wants the frames whose first byte is odd, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, int]] = []

    def wants(self, head: memoryview, length: int) -> bool:
        self.asked.append((bytes(head), length))
        return bool(head) and head[0] % 2 == 1


def replayed(pieces: list[Piece]) -> bytes:
    return b"".join(framed(bytes(one.payload)) if isinstance(one, Whole) else bytes(one.data) for one in pieces)


@given(st.lists(st.binary(max_size=40), max_size=12), st.lists(st.integers(0, 60), max_size=30), st.integers(1, 12))
def test_however_a_stream_is_torn_each_frame_is_asked_for_once_and_nothing_is_lost(
    payloads: list[bytes], lengths: list[int], head_bytes: int
) -> None:
    stream = b"".join(map(framed, payloads))
    owner = Owner()
    splitter = FrameSplitter(owner.wants, head_bytes)
    pieces: list[Piece] = []
    at = 0
    for length in [*lengths, len(stream)]:
        pieces += splitter.feed(stream[at : at + length])
        at += length
    assert replayed(pieces) == stream
    assert owner.asked == [(payload[:head_bytes], len(payload)) for payload in payloads]
    assert [bytes(one.payload) for one in pieces if isinstance(one, Whole)] == [
        payload for payload in payloads if payload and payload[0] % 2
    ]


def test_opaque_frames_that_came_together_leave_in_one_piece() -> None:
    stream = framed(b"\x00one") + framed(b"\x00two") + framed(b"\x01three") + framed(b"\x00four")
    pieces = list(FrameSplitter(Owner().wants, 4).feed(stream))
    assert [type(piece) for piece in pieces] == [Opaque, Whole, Opaque]


def test_an_opaque_frame_passes_before_it_is_complete() -> None:
    pieces = list(FrameSplitter(Owner().wants, 4).feed(framed(bytes(1000))[:20]))
    assert [type(piece) for piece in pieces] == [Opaque]


@pytest.mark.parametrize("length", [-1, 101, -(2**31), 2**31 - 1])
def test_a_frame_of_an_impossible_length_is_refused_at_once(length: int) -> None:
    splitter = FrameSplitter(Owner().wants, 4, frame_bytes_max=100)
    with pytest.raises(FrameTooLarge):
        list(splitter.feed(struct.pack(">i", length)))


def test_what_stands_before_a_frame_of_an_impossible_length_is_handed_out() -> None:
    splitter = FrameSplitter(Owner().wants, 4, frame_bytes_max=100)
    before = framed(b"\x01one") + framed(b"\x00two")
    pieces: list[Piece] = []
    with pytest.raises(FrameTooLarge):
        pieces.extend(splitter.feed(before + struct.pack(">i", 101)))
    assert replayed(pieces) == before


def test_a_frame_of_the_greatest_length_is_taken() -> None:
    splitter = FrameSplitter(Owner().wants, 4, frame_bytes_max=100)
    assert [len(one.payload) for one in splitter.feed(framed(b"\x01" * 100)) if isinstance(one, Whole)] == [100]


def test_a_length_prefix_alone_takes_no_memory() -> None:
    splitter = FrameSplitter(Owner().wants, 4)
    assert list(splitter.feed(struct.pack(">i", 90 * 1024 * 1024) + b"\x01abc")) == []
    assert len(splitter.held) < 100
