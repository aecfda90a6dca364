"""Requests, answers and pushes of one connection, without I/O: bytes in, events out.

                    ┌──────┐  close, or bytes that cannot be read   ┌────────┐
      (connected) ─▶│ OPEN │ ──────────────────────────────────────▶│ CLOSED │
                    └──────┘                                        └────────┘

Answers come in any order: `opaque` pairs them with their requests, and pulls that wait pass nothing on to the
sends behind them. What a request waits for ends in exactly one of three ways: its answer, its deadline, the end of
the connection.

An answer that comes behind its deadline is dropped and counted. An answer to what was never asked means that both
sides no longer speak of the same things: the connection has to end.
"""

import heapq
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from rocketmq.errors import AnswerLost, Malformed, TooManyPending
from rocketmq.wire.command import IS_ONE_WAY, Command, decode_frame, encode_frame
from rocketmq.wire.frames import FRAME_BYTES_MAX, FrameSplitter

_OPAQUE_MASK = 0x7FFF_FFFF
_STALE_MIN = 64
"""Deadlines of requests that were answered stay in the heap until there are so many, and as many as are pending."""


class SessionState(Enum):
    OPEN = "requests are sent and answers awaited"
    CLOSED = "nothing goes or comes any more"


class Answered(NamedTuple):
    """The answer to the request with this number."""

    opaque: int
    command: Command


class Pushed(NamedTuple):
    """A request or a notice of the peer."""

    command: Command


SessionEvent = Answered | Pushed


class Session:
    """One connection's. For one thread at a time."""

    def __init__(self, *, pending_max: int = 4096, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.state = SessionState.OPEN
        self.late_answers = 0
        self._frames = FrameSplitter(frame_bytes_max)
        self._pending_max = pending_max
        self._pending: dict[int, float] = {}  # when each was sent
        self._deadlines: list[tuple[float, int]] = []  # a heap
        self._last_opaque = 0
        self._has_wrapped = False
        self._heard_s = float("-inf")

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._pending)

    # --- out

    def request(self, command: Command, now_s: float, deadline_s: float) -> tuple[int, tuple[bytes, ...]]:
        """The number of the request, and what to send. Raises TooManyPending, InvalidRequest, AnswerLost once
        closed."""
        self._check_open()
        if len(self._pending) >= self._pending_max:
            raise TooManyPending(f"{self._pending_max} requests wait for their answers")
        command.opaque = self._next_opaque()
        data = encode_frame(command)
        self._pending[command.opaque] = now_s
        heapq.heappush(self._deadlines, (deadline_s, command.opaque))
        return command.opaque, data

    def one_way(self, command: Command) -> tuple[bytes, ...]:
        """What to send of a request that gets no answer. Raises InvalidRequest, AnswerLost once closed."""
        self._check_open()
        command.opaque = self._next_opaque()
        command.flag |= IS_ONE_WAY
        return encode_frame(command)

    def _check_open(self) -> None:
        if self.state is SessionState.CLOSED:
            raise AnswerLost("the connection is closed")

    def _next_opaque(self) -> int:
        opaque = self._last_opaque
        while True:
            opaque = opaque + 1 & _OPAQUE_MASK
            self._has_wrapped = self._has_wrapped or not opaque
            if opaque not in self._pending:
                self._last_opaque = opaque
                return opaque

    # --- in

    def receive(self, data: bytes | memoryview, now_s: float) -> Iterator[SessionEvent]:
        """The events that `data` completes, in order. To be iterated to the end. Raises WireError: the connection
        has to be closed."""
        self._heard_s = now_s
        for payload in self._frames.feed(data):
            command = decode_frame(payload)
            if not command.is_answer:
                yield Pushed(command)
            elif self._pending.pop(command.opaque, None) is not None:
                yield Answered(command.opaque, command)
            elif 0 < command.opaque <= self._last_opaque or self._has_wrapped:
                self.late_answers += 1
            else:
                raise Malformed(f"an answer to request {command.opaque}, which was never sent")

    # --- time

    def next_deadline_s(self) -> float | None:
        """When `expired` is worth asking again."""
        while self._deadlines and self._deadlines[0][1] not in self._pending:
            heapq.heappop(self._deadlines)
        if len(self._deadlines) > 2 * len(self._pending) + _STALE_MIN:
            self._deadlines = [one for one in self._deadlines if one[1] in self._pending]
            heapq.heapify(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now_s: float) -> "Expired":
        """The requests whose time is up; they are pending no longer."""
        found, silent = [], False
        while (deadline_s := self.next_deadline_s()) is not None and deadline_s <= now_s:
            _, opaque = heapq.heappop(self._deadlines)
            silent = self._pending.pop(opaque) > self._heard_s or silent
            found.append(opaque)
        return Expired(found, silent)

    # --- the end

    def close(self) -> Iterable[int]:
        """OPEN -> CLOSED. The requests that will have no answer."""
        self.state = SessionState.CLOSED
        lost = list(self._pending)
        self._pending.clear()
        self._deadlines.clear()
        return lost


class Expired(NamedTuple):
    """`is_silent`: nothing at all has come since one of them was sent. A peer that is gone without a word looks
    so."""

    opaques: list[int]
    is_silent: bool
