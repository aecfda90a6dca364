"""A stream of bytes cut into frames, without I/O.

    stream = (int32 length | payload)*

Memory is bounded by what was fed last and by one frame, and grows as bytes come, never on the word of a length.
(`org.apache.rocketmq.remoting.netty.NettyDecoder`)
"""

import struct
from collections.abc import Iterator

from rocketmq.errors import FrameTooLarge, InvalidRequest

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""RocketMQ's own limit for both sides (com.rocketmq.remoting.frameMaxLength)."""

HEAD_BYTES = 4
"""The header's length and encoding, at the beginning of each payload."""

_PREFIX = struct.Struct(">i")


class FrameSplitter:
    """One direction of a connection. After an error it is of no more use: the connection has to be closed."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._held = bytearray()
        self._wanted = _PREFIX.size  # how much has to be held before it is worth looking again

    @property
    def unfinished(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._held)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
        """The payloads that `data` completes, in order. To be iterated to the end before the next. Raises
        FrameTooLarge, behind the frames before that one."""
        if self._held:
            self._held += data
            if len(self._held) < self._wanted:
                return
            data, self._held = self._held, bytearray()
        view = memoryview(data)
        at = 0
        while (end := self._end(view, at)) <= len(view):
            yield view[at + _PREFIX.size : end]
            at = end
        self._held += view[at:]
        self._wanted = end - at

    def _end(self, view: memoryview, at: int) -> int:
        """Where the frame at `at` ends, or how far its length reaches."""
        body_at = at + _PREFIX.size
        if body_at > len(view):
            return body_at
        (length,) = _PREFIX.unpack_from(view, at)
        if not HEAD_BYTES <= length <= self.frame_bytes_max:
            raise FrameTooLarge(f"a frame of {length} bytes; {HEAD_BYTES} to {self.frame_bytes_max} are read")
        return body_at + int(length)


def frame(payload_parts: tuple[bytes, ...], frame_bytes_max: int = FRAME_BYTES_MAX) -> tuple[bytes, ...]:
    """The parts with the length before them. Raises InvalidRequest."""
    length = sum(map(len, payload_parts))
    if length > frame_bytes_max:
        raise InvalidRequest(f"a frame of {length} bytes; the other side reads up to {frame_bytes_max}")
    return (_PREFIX.pack(length), *payload_parts)
