"""A stream of bytes cut into frames, without I/O.

    stream = (int32 length | payload)*

`FrameSplitter` asks its owner once per frame, as soon as the frame's first bytes are there, whether it is wanted
whole. What is not wanted passes as `Opaque` pieces, in the runs in which it came and never gathered; a frame that is
wanted is handed out as one `Whole` payload. Memory is bounded by what was fed last and by one wanted frame, and
grows as bytes come, never on the word of a length prefix.
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkawire.protocol.errors import FrameTooLarge, PeerError

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""A broker's own limit (socket.request.max.bytes)."""

_PREFIX = struct.Struct(">i")


class Opaque(NamedTuple):
    """Bytes to pass on as they are, length prefixes included: any number of frames, or parts of one."""

    data: memoryview


class Whole(NamedTuple):
    """The payload of one frame, without its length."""

    payload: memoryview


Piece = Opaque | Whole


class FrameSplitter:
    """One direction of a connection.

    `wants(head, length)` is called once per frame, in order, with the first `head_bytes` of the payload (fewer only
    where the whole payload is shorter) and the payload's length; true asks for the frame whole. What it raises comes
    out of `feed`. After an error the splitter is of no more use: the connection has to be closed.
    """

    def __init__(
        self, wants: Callable[[memoryview, int], bool], head_bytes: int, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self._wants = wants
        self._head_bytes = head_bytes
        self.frame_bytes_max = frame_bytes_max
        self.held = bytearray()  # the beginning of a frame: too little of it to ask, or wanted and not complete
        self._missing = 0  # bytes until the wanted frame that is held is complete
        self._passing = 0  # bytes of an opaque frame still to come

    @property
    def unfinished(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self.held or self._passing)

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces that `data` completes, in order; they are slices of it. To be iterated to the end before the
        next. Raises FrameTooLarge, behind the pieces before that frame."""
        view = memoryview(data)
        if self.held and not self._missing:
            view = memoryview(bytes(self.held) + data)  # once per head that was torn apart
            self.held.clear()
        elif self.held:
            # Only a frame that is wanted whole is gathered; everything else passes without being copied.
            self.held += view[: self._missing]
            rest = view[self._missing :]
            self._missing = max(self._missing - len(view), 0)
            if self._missing:
                return
            whole = Whole(memoryview(self.held)[_PREFIX.size :])
            self.held = bytearray()
            yield whole
            view = rest
        yield from self._cut(view)

    def _cut(self, view: memoryview) -> Iterator[Piece]:
        size = len(view)
        run_at = 0
        at = min(self._passing, size)
        self._passing -= at
        try:
            while (head_end := self._head_end(view, at)) is not None:
                end = at + _PREFIX.size + _PREFIX.unpack_from(view, at)[0]
                # Asked in order and once per frame: the owner keeps its own list of requests by these calls.
                if not self._wants(view[at + _PREFIX.size : head_end], end - at - _PREFIX.size):
                    self._passing = max(end - size, 0)
                    at = min(end, size)
                    continue
                if at > run_at:
                    yield Opaque(view[run_at:at])
                run_at = at
                if end > size:
                    self._missing = end - size
                    break
                yield Whole(view[at + _PREFIX.size : end])
                at = run_at = end
        except PeerError:
            if at > run_at:
                yield Opaque(view[run_at:at])
            raise
        if at > run_at:
            yield Opaque(view[run_at:at])
        # At most a head and a prefix, or the beginning of one wanted frame: the rest has been handed out.
        self.held += view[at:]

    def _head_end(self, view: memoryview, at: int) -> int | None:
        """Where the head of the frame at `at` ends; None while it is not all there."""
        body_at = at + _PREFIX.size
        if body_at > len(view):
            return None
        (length,) = _PREFIX.unpack_from(view, at)
        # Checked at the prefix, before anything is kept for a frame of that length.
        if not 0 <= length <= self.frame_bytes_max:
            raise FrameTooLarge(f"a frame of {length} bytes")
        head_end: int = body_at + min(length, self._head_bytes)
        return head_end if head_end <= len(view) else None
