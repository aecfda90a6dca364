"""Who is answered when: a connection's requests in order, and pieces of a stream with what was noted of them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kafkawire.protocol.frames import FrameSplitter, Piece, Whole
from kafkawire.protocol.primitives import Buffer
from proxy.limits import Grant

N = TypeVar("N")
PREFIX_BYTES = 4


class FrameTagger(Generic[N]):
    """A `FrameSplitter` that hands out each piece with the notes on the frames that begin in it: one for a whole
    frame, any number for opaque bytes. `note(head, length)` returns the note and whether the frame is wanted whole.
    `passing` are the bytes that an opaque frame still lacks, behind the piece that was handed out last."""

    def __init__(
        self, note: Callable[[memoryview, int], tuple[N, bool]], head_bytes: int, frame_bytes_max: int
    ) -> None:
        self._note = note
        self._noted: deque[tuple[N, bool, int]] = deque()
        self.passing = 0
        self._splitter = FrameSplitter(self._wants, head_bytes, frame_bytes_max)
        self._begun = 0

    def limit(self, frame_bytes_max: int) -> None:
        """For frames that begin from now on."""
        self._splitter.frame_bytes_max = frame_bytes_max

    @property
    def unfinished(self) -> int | None:
        """The number of the frame that is not complete; None where there is none."""
        return self._begun if self._splitter.unfinished else None

    def _wants(self, head: memoryview, length: int) -> bool:
        self._begun += 1
        note, whole = self._note(head, length)
        self._noted.append((note, whole, length))
        return whole

    def feed(self, data: bytes) -> Iterator[tuple[Piece, Sequence[N]]]:
        """Raises FrameTooLarge, and what `note` raises."""
        for piece in self._splitter.feed(data):
            if isinstance(piece, Whole):
                yield piece, (self._noted.popleft()[0],)
            else:
                yield piece, self._opaque_notes(len(piece.data))

    def _opaque_notes(self, size: int) -> list[N]:
        notes = []
        while self._noted and not self._noted[0][1]:
            note, _, length = self._noted.popleft()
            notes.append(note)
            self.passing += PREFIX_BYTES + length
        self.passing -= size
        return notes


@dataclass(slots=True, eq=False)
class Turn:
    """A request that is to be answered. `answer` is the frame to send, None while there is none. `relayed` is an
    answer that the broker gives as it is in the line; any other comes from the proxy, at its own time. `asked`:
    hidden topics that it named; `principal`: who the client is if this ends a login."""

    api_key: int
    version: int
    correlation_id: int
    relayed: bool = True
    asked: tuple[str, ...] = ()
    principal: str = ""
    grant: Grant | None = field(default=None, repr=False)
    answer: Sequence[Buffer] | None = field(default=None, repr=False)


class ResponseOrderer:
    """The turns of a connection in the order in which clients expect their answers (brokers keep it, and clients
    compare correlation ids)."""

    def __init__(self, write: Callable[[Sequence[Buffer]], None]) -> None:
        self._write = write
        self._turns: deque[Turn] = deque()
        self._own = 0

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def may_stream(self) -> bool:
        """Whether what comes from the broker is next in line, frame for frame."""
        return self._own == 0

    def join(self, turn: Turn) -> None:
        self._turns.append(turn)
        self._own += not turn.relayed

    def leave(self, turn: Turn) -> None:
        """The first turn's answer has passed by itself, to its end."""
        first = self._turns.popleft()
        assert first is turn, "answers come in the order of requests"
        self._send_ready()

    def answer(self, turn: Turn, frame: Sequence[Buffer]) -> None:
        """Sent as soon as everything before it is."""
        turn.answer = frame
        self._send_ready()

    def _send_ready(self) -> None:
        while self._turns and (ready := self._turns[0].answer) is not None:
            self._own -= not self._turns.popleft().relayed
            self._write(ready)
