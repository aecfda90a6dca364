"""Answers leave in the order of the requests, and pieces of a stream come with their notes."""

import struct
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.protocol.frames import Whole
from kafkawire.protocol.primitives import Buffer
from proxy.kafka.response_order import FrameTagger, ResponseOrderer, Turn


def turn(number: int, relayed: bool = True) -> Turn:
    return Turn(3, 1, number, relayed)


class Sent:
    """What a line has written."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.line = ResponseOrderer(self._write)

    def _write(self, parts: Sequence[Buffer]) -> None:
        self.numbers.append(int(bytes(parts[0])))

    def joined(self, *turns: Turn) -> "Sent":
        for one in turns:
            self.line.join(one)
        return self

    def answer(self, one: Turn) -> None:
        self.line.answer(one, [b"%d" % one.correlation_id])


def test_an_answer_waits_for_those_before_it() -> None:
    first, second, third = turn(1), turn(2), turn(3)
    sent = Sent().joined(first, second, third)
    sent.answer(third)
    sent.answer(first)
    assert sent.numbers == [1]
    sent.answer(second)
    assert sent.numbers == [1, 2, 3]


def test_what_the_broker_sends_may_stream_while_no_turn_is_our_own() -> None:
    ours = turn(2, relayed=False)
    sent = Sent().joined(turn(1))
    assert sent.line.may_stream
    sent.joined(ours)
    assert not sent.line.may_stream


def test_our_own_answer_waits_for_the_end_of_one_that_streams() -> None:
    streaming, ours = turn(1), turn(2, relayed=False)
    sent = Sent().joined(streaming, ours)
    sent.answer(ours)
    assert sent.numbers == []
    sent.line.leave(streaming)
    assert sent.numbers == [2]
    assert sent.line.may_stream


@given(st.permutations(range(6)), st.lists(st.booleans(), min_size=6, max_size=6))
def test_whatever_the_order_of_answers_the_order_of_requests_holds(order: list[int], relayed: list[bool]) -> None:
    turns = [turn(n, relayed[n]) for n in range(6)]
    sent = Sent().joined(*turns)
    for n in order:
        sent.answer(turns[n])
    assert sent.numbers == list(range(6))
    assert len(sent.line) == 0
    assert sent.line.may_stream


# --- notes

FRAMES = st.lists(st.tuples(st.booleans(), st.integers(4, 40)), min_size=1, max_size=12)


@given(FRAMES, st.data())
def test_every_piece_comes_with_the_notes_of_the_frames_that_begin_in_it(
    frames: list[tuple[bool, int]], data: Any
) -> None:
    stream = b"".join(struct.pack(">ii", size, number) + bytes(size - 4) for number, (_, size) in enumerate(frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    noting: FrameTagger[int] = FrameTagger(
        lambda head, _: (int.from_bytes(head, "big"), frames[int.from_bytes(head, "big")][0]), 4, 1000
    )
    noted: list[int] = []
    opaque_bytes = 0
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        for piece, notes in noting.feed(stream[start:end]):
            noted += notes
            if isinstance(piece, Whole):
                assert len(notes) == 1
                assert len(piece.payload) == frames[notes[0]][1]
            else:
                opaque_bytes += len(piece.data)
                begun = sum(4 + frames[number][1] for number in noted if not frames[number][0])
                assert noting.passing == begun - opaque_bytes
    assert noted == list(range(len(frames)))
    assert noting.passing == 0
