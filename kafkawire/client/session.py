"""One connection's half of the conversation with a broker, without I/O: messages to frames, bytes to answers.

            the length                the last byte: an Answer
    LENGTH ───────────▶ BODY ─────────────────────────────────▶ LENGTH
      │                   │
      └─────────┬─────────┘
                ▼  `end`, the end of the stream, or an error
              ENDED

Brokers answer in the order in which they were asked, so an answer belongs to the oldest request that has none, and
its correlation id has to match. After an error it is unknown what the bytes behind it are worth: the session has
ended, and its requests without an answer may have been carried out, or not.

    Malformed            an answer to nothing, to another request, or one whose header cannot be read
    FrameTooLarge        a length beyond the limit, or below what a correlation id takes
    Truncated            the stream ended, between two frames or inside one
    UnsupportedVersion   an API, or a version of it, that the tables do not have
    Unreachable          a request to a session that has ended: nothing is to be sent

A shell has the socket, the deadlines and TLS: `blocking` for a thread, `aio` for an event loop. What a login asks,
step by step, is `kafkawire.security.sasl`; what comes of it is kept here.
"""

import struct
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, NoReturn

from delayline.errors import Bug
from kafkawire.protocol.errors import FrameTooLarge, Malformed, Truncated, Unreachable, WireError
from kafkawire.protocol.frames import FRAME_BYTES_MAX
from kafkawire.protocol.message import Message, RequestHeader, encode, read_answer, request_frame
from kafkawire.protocol.primitives import Buffer

LIFETIME_USED = 0.8
"""Of a session's lifetime (KIP-368), before another connection takes over that authenticates anew."""

ROOM_BYTES = 2 << 20
"""The first room for an answer: twice what a fetch brings, mostly. More is made as bytes come, never on the word of a
length."""

CORRELATION_IDS = 1 << 31
"""They are int32; ours are never negative."""

_LENGTH = struct.Struct(">i")


class FrameState(Enum):
    """What the next byte belongs to. Transitions are those of the module's graph."""

    LENGTH = "to the length of a frame; -> BODY, ENDED"
    BODY = "to a frame whose length is known; -> LENGTH, ENDED"
    ENDED = "to nothing: no more is sent or taken"


class Answer(NamedTuple):
    """The body of an answer, and the version of its request, in which it is written."""

    version: int
    body: memoryview


class _Asked(NamedTuple):
    """A request without an answer."""

    api_key: int
    version: int
    correlation_id: int


class Session:
    """For one connection. `use_until_s` is the monotonic time at which another connection takes over."""

    def __init__(self, client_id: str, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.state = FrameState.LENGTH
        self.use_until_s = float("inf")
        self._client_id = client_id
        self._frame_bytes_max = frame_bytes_max
        self._asked: deque[_Asked] = deque()  # bounded by the shell's callers, who wait for what they asked
        self.correlation_id = 0
        self._held = bytearray(_LENGTH.size)  # room for the frame that is arriving, or for its length
        self._filled = 0
        self._missing = 0  # bytes of the frame that there is no room for yet

    @property
    def is_open(self) -> bool:
        return self.state is not FrameState.ENDED

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._asked)

    def authenticated(self, lifetime_ms: int, now_s: float) -> None:
        """The login is over; the broker gives it so long, 0 where for ever."""
        # 0 is "no lifetime" (KIP-368), and not one that is over.
        if lifetime_ms > 0:
            self.use_until_s = now_s + LIFETIME_USED * lifetime_ms / 1000

    def end(self) -> None:
        """From any state. What has no answer gets none."""
        self.state = FrameState.ENDED
        self._held = bytearray()

    # --- out

    def request(self, message: Message, version: int) -> list[Buffer]:
        """The frame to send; its answer is expected from now on. Raises Unreachable."""
        if not self.is_open:
            raise Unreachable("the connection is closed")
        self.correlation_id = (self.correlation_id + 1) % CORRELATION_IDS
        asked = _Asked(message.api, version, self.correlation_id)
        # Encoded before it is expected: a message that cannot be encoded must not wait for an answer.
        frame = request_frame(RequestHeader(*asked, self._client_id), encode(message, version))
        self._asked.append(asked)
        return frame

    # --- in

    def feed(self, data: Buffer) -> Iterator[Answer]:
        """The answers that these bytes complete, in order; no bytes are the end of the stream. To be iterated to the
        end before the next. Raises WireError behind the answers before it."""
        rest = memoryview(data)
        if not rest:
            self.took(0)
        while rest:
            count = min(len(self._held) - self._filled, len(rest))
            self.receive_buffer()[:count] = rest[:count]
            rest = rest[count:]
            if (answer := self.took(count)) is not None:
                yield answer

    def receive_buffer(self) -> memoryview:
        """Where the next bytes are to be put: never room for more than the frame that is arriving. It may move once
        they are there: no caller keeps it until `took`."""
        if not self.is_open:
            raise Bug("room in a session that has ended")
        return memoryview(self._held)[self._filled :]

    def took(self, count: int) -> Answer | None:
        """So many bytes were put into `receive_buffer`, 0 at the end of the stream: the answer that they complete.
        Raises WireError."""
        if not self.is_open:
            raise Bug("bytes for a session that has ended")
        if not count:
            self._fail(Truncated("closed by the broker"))
        self._filled += count
        if self._filled < len(self._held):
            return None
        if self.state is FrameState.LENGTH:
            self._begin(_LENGTH.unpack(self._held)[0])
            return None
        if self._missing:
            self._widen()
            return None
        payload = self._held
        self._expect(FrameState.LENGTH, _LENGTH.size)
        return self._answer(payload)

    def _begin(self, length: int) -> None:
        # An answer holds its correlation id at least. A huge length is a peer that speaks another protocol, such as
        # HTTP.
        if not _LENGTH.size <= length <= self._frame_bytes_max:
            self._fail(FrameTooLarge(f"a frame of {length} bytes"))
        self._expect(FrameState.BODY, length)

    def _expect(self, state: FrameState, size: int) -> None:
        self.state, self._filled = state, 0
        # A peer that announces 100 MB and sends nothing holds 2 MB of ours, not 100.
        self._held = bytearray(min(size, ROOM_BYTES))
        self._missing = size - len(self._held)

    def _widen(self) -> None:
        """It doubles, now that what there was has been used."""
        more = min(self._missing, len(self._held))
        self._held += bytes(more)
        self._missing -= more

    def _answer(self, payload: bytearray) -> Answer:
        if not self._asked:
            self._fail(Malformed("an answer to nothing"))
        # Oldest first: Kafka answers a connection's requests in order (one request in process per connection).
        asked = self._asked.popleft()
        try:
            return Answer(asked.version, read_answer(*asked, payload))
        except WireError as error:
            self._fail(error)

    def _fail(self, error: WireError) -> NoReturn:
        self.end()
        raise error
