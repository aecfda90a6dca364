"""A stream of frames most of which pass as they come, without I/O: one direction of a connection through a proxy.

    stream = (int32 length | int32 encoding and length of the header | header | body)*

Memory is bounded by what was fed last, one header, and one frame that is wanted whole. It grows as bytes come, never
on the word of a length.
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rocketmq.errors import FrameTooLarge, Malformed, WireError
from rocketmq.wire.command import HEADER_LENGTH_MASK
from rocketmq.wire.frames import FRAME_BYTES_MAX, HEAD_BYTES

HEADER_BYTES_MAX = 1 << 20
"""Of what is gathered before it is known whether a frame passes. The largest of a header are a message's properties:
32 KiB at most, and in JSON six times that."""

_LENGTHS = struct.Struct(">iI")
_PREFIX_BYTES = 4


class Passing(NamedTuple):
    """Bytes to pass on as they are, lengths included: any number of frames, or parts of one."""

    data: memoryview


class Wanted(NamedTuple):
    """The payload of one frame, without its length."""

    payload: memoryview


class PassingSplitter:
    """`wants(head, length)` is called once for each frame, in order, with the payload up to the end of its header and
    with the payload's length; true asks for the frame whole. What it raises comes out of `feed`. After an error the
    splitter is of no more use: the connection has to be closed."""

    def __init__(self, wants: Callable[[memoryview, int], bool], frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._wants = wants
        self._frame_bytes_max = frame_bytes_max
        self._held = bytearray()  # a header that is not complete, or a frame that is wanted
        self._missing = 0  # of the frame that is held and wanted
        self._passing = 0  # of a frame that passes
        self.begun = 0
        """How many frames have begun: numbers the one that is not complete."""

    @property
    def is_within(self) -> bool:
        """Whether what has been yielded ends in the midst of a frame that passes."""
        return self._passing > 0

    @property
    def unfinished(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._held or self._passing)

    def feed(self, data: bytes) -> Iterator[Passing | Wanted]:
        """What `data` completes, in order, as slices of it. To be iterated to the end before the next. The rest of a
        frame that has passed in part comes by itself. Raises FrameTooLarge and Malformed, behind what stands before
        that frame."""
        view = memoryview(data)
        if self._missing:
            self._held += view[: self._missing]
            view, self._missing = view[self._missing :], max(self._missing - len(view), 0)
            if self._missing:
                return
            held, self._held = self._held, bytearray()
            yield Wanted(memoryview(held)[_PREFIX_BYTES:])
        elif self._held:
            view = memoryview(bytes(self._held) + data)  # once for each read that ends within a header
            self._held.clear()
        yield from self._cut(view)

    def _cut(self, view: memoryview) -> Iterator[Passing | Wanted]:
        """Hot: once for each read of a socket, and its loop once for each frame: 0.7 us, beside `wants`."""
        size, run_at, at = len(view), 0, min(self._passing, len(view))
        self._passing -= at
        if at:
            yield Passing(view[:at])
            run_at = at
        trouble: WireError | None = None
        try:
            while at + _LENGTHS.size <= size:
                length, head = _LENGTHS.unpack_from(view, at)
                header = head & HEADER_LENGTH_MASK
                if header > HEADER_BYTES_MAX or not HEAD_BYTES + header <= length <= self._frame_bytes_max:
                    raise self._wrong(length, header)
                payload_at = at + _PREFIX_BYTES
                head_end, end = payload_at + HEAD_BYTES + header, payload_at + length
                if head_end > size:
                    break
                self.begun += 1
                if not self._wants(view[payload_at:head_end], length):
                    self._passing = max(end - size, 0)
                    at = min(end, size)
                    continue
                if at > run_at:
                    yield Passing(view[run_at:at])
                run_at = at
                if end > size:
                    self._missing = end - size
                    break
                yield Wanted(view[payload_at:end])
                at = run_at = end
        except WireError as error:
            trouble = error
        if at > run_at:
            yield Passing(view[run_at:at])
        if trouble is not None:
            raise trouble
        self._held += view[at:]

    def _wrong(self, length: int, header: int) -> WireError:
        if not HEAD_BYTES <= length <= self._frame_bytes_max:
            return FrameTooLarge(f"a frame of {length} bytes; {HEAD_BYTES} to {self._frame_bytes_max} are read")
        if header > HEADER_BYTES_MAX:
            return FrameTooLarge(f"a header of {header} bytes; up to {HEADER_BYTES_MAX} are read")
        return Malformed(f"a header of {header} bytes in a frame of {length}")
