"""A session without a socket: frames out, bytes in, and what ends it."""

import struct
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayline.errors import Bug
from kafkawire.client.session import CORRELATION_IDS, ROOM_BYTES, Answer, FrameState, Session
from kafkawire.protocol.errors import FrameTooLarge, Malformed, Truncated, Unreachable, UnsupportedVersion, WireError
from kafkawire.protocol.message import Message, decode, encode, read_request, response_frame
from kafkawire.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkawire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.tiers import examples

ASKED = MetadataRequest(topics=[])
VERSION = 12
NO_ANSWER = b"\0" * 4

KINDS: list[tuple[Message, int, Callable[[str], Message]]] = [
    (ASKED, VERSION, lambda text: MetadataResponse(cluster_id=text)),
    (FindCoordinatorRequest("group"), 3, lambda text: FindCoordinatorResponse(host=text)),
    (ApiVersionsRequest(), 3, lambda text: ApiVersionsResponse()),  # its answers have the old header (KIP-511)
]


def asking(*requests: tuple[Message, int]) -> Session:
    session = Session("test")
    for request, version in requests:
        session.request(request, version)
    return session


def answer_to(number: int, body: Message, version: int = VERSION) -> bytes:
    return b"".join(response_frame(body.api, version, number, encode(body, version)))


def fed(session: Session, pieces: Iterable[bytes]) -> list[Answer]:
    return [answer for piece in pieces for answer in session.feed(piece)]


def cut_up(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    ends = [*sorted({cut % len(data) for cut in cuts} - {0}), len(data)]
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def test_a_frame_has_client_and_api_under_a_new_number_each_time() -> None:
    session = Session("ann")
    for number in (1, 2):
        frame = b"".join(session.request(ASKED, VERSION))
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        header, body = read_request(frame[4:])
        assert header[:4] == (ASKED.api, VERSION, number, "ann")
        assert decode(MetadataRequest, VERSION, body) == ASKED
        assert session.in_flight == number


def test_numbers_begin_anew_behind_the_largest() -> None:
    session = Session("test")
    session.correlation_id = CORRELATION_IDS - 1
    header, _ = read_request(b"".join(session.request(ASKED, VERSION))[4:])
    assert header.correlation_id == 0


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.text(max_size=40)), min_size=1, max_size=6),
    st.lists(st.integers(0, 1 << 16), max_size=12),
)
def test_answers_come_whole_and_in_order_wherever_their_frames_are_cut(
    asked: list[tuple[tuple[Message, int, Callable[[str], Message]], str]], cuts: list[int]
) -> None:
    session = asking(*((request, version) for (request, version, _), _ in asked))
    bodies = [(version, made(text)) for (_, version, made), text in asked]
    stream = b"".join(answer_to(number, body, version) for number, (version, body) in enumerate(bodies, 1))
    found = fed(session, cut_up(stream, cuts))
    assert [
        (answer.version, decode(type(body), answer.version, answer.body))
        for answer, (_, body) in zip(found, bodies, strict=True)
    ] == bodies
    assert (session.state, session.in_flight) == (FrameState.LENGTH, 0)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 1 << 16), st.lists(st.integers(0, 1 << 16), max_size=4))
def test_a_stream_that_ends_inside_a_frame_ends_the_session(kept: int, cuts: list[int]) -> None:
    session = asking((ASKED, VERSION))
    frame = answer_to(1, MetadataResponse(cluster_id="orders"))
    begun = frame[: kept % len(frame)]
    assert fed(session, cut_up(begun, cuts) if begun else []) == []
    with pytest.raises(Truncated):
        fed(session, [b""])
    assert (session.state, session.in_flight) == (FrameState.ENDED, 1)


def test_a_body_is_awaited_once_its_length_is_known() -> None:
    session = asking((ASKED, VERSION))
    assert fed(session, [b"\0\0\0"]) == []
    assert session.state is FrameState.LENGTH
    assert fed(session, [b"\x10"]) == []
    assert session.state is FrameState.BODY
    assert len(session.receive_buffer()) == 16


@pytest.mark.parametrize("length", [3, 0, -1, -(1 << 31), 101, (1 << 31) - 1])
def test_a_length_out_of_bounds_ends_the_session(length: int) -> None:
    session = Session("test", frame_bytes_max=100)
    session.request(ASKED, VERSION)
    with pytest.raises(FrameTooLarge, match=f"a frame of {length} bytes"):
        fed(session, [struct.pack(">i", length)])
    assert session.state is FrameState.ENDED


@pytest.mark.parametrize("length", [4, 100])
def test_a_length_within_bounds_is_awaited(length: int) -> None:
    session = Session("test", frame_bytes_max=100)
    assert fed(session, [struct.pack(">i", length)]) == []
    assert session.state is FrameState.BODY


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (struct.pack(">iib", 5, 99, 0), Malformed, "an answer to request 99 instead of 1"),
        (struct.pack(">ii", 4, 1), Malformed, "inside a varint"),
    ],
)
def test_what_is_no_answer_to_the_request_ends_the_session(answer: bytes, error: type[WireError], why: str) -> None:
    session = asking((ASKED, VERSION))
    with pytest.raises(error, match=why):
        fed(session, [answer])
    assert session.state is FrameState.ENDED


def test_an_answer_to_nothing_ends_the_session() -> None:
    session = asking((ASKED, VERSION))
    answers = session.feed(answer_to(1, MetadataResponse()) * 2)
    assert next(answers).version == VERSION
    with pytest.raises(Malformed, match="an answer to nothing"):
        next(answers)
    assert session.state is FrameState.ENDED


def test_a_version_that_the_tables_do_not_have_is_not_asked() -> None:
    session = Session("test")
    with pytest.raises(UnsupportedVersion):
        session.request(ASKED, 99)
    assert (session.state, session.in_flight) == (FrameState.LENGTH, 0)


@pytest.mark.parametrize("size", [ROOM_BYTES - 100, ROOM_BYTES, ROOM_BYTES + 1, 4 * ROOM_BYTES + 7])
def test_room_is_made_as_bytes_come_and_never_beyond_the_frame(size: int) -> None:
    session = asking((ASKED, VERSION))
    frame = answer_to(1, MetadataResponse(cluster_id="x" * size)) + NO_ANSWER
    at, answer = 0, None
    while answer is None:
        count = len(session.receive_buffer())
        assert count <= max(4, ROOM_BYTES, at)
        session.receive_buffer()[:] = frame[at : at + count]
        answer, at = session.took(count), at + count
    assert at == len(frame) - len(NO_ANSWER)
    assert len(decode(MetadataResponse, VERSION, answer.body).cluster_id or "") == size


def test_a_session_that_has_ended_neither_asks_nor_takes() -> None:
    session = asking((ASKED, VERSION))
    session.end()
    assert not session.is_open
    with pytest.raises(Unreachable, match="the connection is closed"):
        session.request(ASKED, VERSION)
    with pytest.raises(Bug):
        session.receive_buffer()
    with pytest.raises(Bug):
        session.took(0)


def test_a_login_with_a_lifetime_is_used_for_most_of_it() -> None:
    session = Session("test")
    session.authenticated(0, 100.0)
    assert session.use_until_s == float("inf")
    session.authenticated(10_000, 100.0)
    assert session.use_until_s == 108.0
