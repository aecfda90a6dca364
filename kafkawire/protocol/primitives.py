"""The protocol's primitive types, read from and written to bytes (Kafka protocol guide, "Protocol primitive types").

A `Reader` never looks behind its end, and hands out at most `items_max` array elements in all, so that what a message
takes in memory is bounded by its length and that number. A `Writer` gathers small fields and leaves large ones
where they are: its result is a list of buffers for `writelines`.
"""

import struct
from collections.abc import Sequence

from delayline.records.record import encode_uvarint
from kafkawire.protocol.errors import Malformed

Buffer = bytes | bytearray | memoryview

ITEMS_MAX = 200_000
"""Array elements of one decoded message: ten times the topics and partitions that a client names at once, and, at
some 200 bytes each, 40 MB. Longer answers (Metadata of a large cluster) are walked, not decoded."""

SPLICE_BYTES_MIN = 4096
"""Below it, copying is cheaper than one more buffer in a write."""

NULL = -1

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Reader:
    """A position in a message."""

    __slots__ = ("at", "data", "end", "items_left")

    def __init__(self, data: Buffer, items_max: int = ITEMS_MAX) -> None:
        self.data = memoryview(data)
        self.at = 0
        self.end = len(self.data)
        self.items_left = items_max

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """The values of `layout`. Raises Malformed, as everything here does."""
        at = self.at
        self.advance(layout.size)
        return layout.unpack_from(self.data, at)

    def advance(self, length: int) -> None:
        if length > self.end - self.at:
            raise Malformed("the message ends too early")
        self.at += length

    def take(self, length: int) -> memoryview:
        """The next `length` bytes, not copied."""
        at = self.at
        self.advance(length)
        return self.data[at : self.at]

    def text(self, length: int) -> str:
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise Malformed("a string is not UTF-8") from None

    def uvarint(self) -> int:
        """An unsigned varint of at most 31 bits (lengths, counts, tags). Hot where a long answer is walked."""
        at = self.at
        if at < self.end and self.data[at] < 0x80:
            self.at = at + 1
            return self.data[at]
        return self._long_uvarint()

    def _long_uvarint(self) -> int:
        rest = shift = 0
        while True:
            if self.at >= self.end:
                raise Malformed("the message ends inside a varint")
            byte = self.data[self.at]
            self.at += 1
            rest |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            # Five bytes hold 35 bits; without a bound a peer could make this loop run through a whole frame.
            if shift > 28:
                raise Malformed("a varint is longer than 32 bits")
        if rest > 0x7FFF_FFFF:
            raise Malformed("a length beyond 31 bits")
        return rest

    def int8_length(self) -> int:
        return self._signed(_INT8)

    def int16_length(self) -> int:
        return self._signed(_INT16)

    def int32_length(self) -> int:
        return self._signed(_INT32)

    def compact_length(self) -> int:
        return self.uvarint() - 1

    def _signed(self, layout: struct.Struct) -> int:
        (length,) = self.unpack(layout)
        if length < NULL:
            raise Malformed("a length below -1")
        return length

    def count_items(self, count: int, item_bytes_min: int) -> None:
        """Take `count` array elements from the budget, each of them at least `item_bytes_min` bytes long."""
        # First of all: an array cannot hold more than the bytes that are left, whatever the budget allows.
        if count * item_bytes_min > self.end - self.at:
            raise Malformed("an array is longer than its message")
        self.items_left -= count
        # Elements of no bytes (empty structures) pass the check above, so their number is bounded by itself.
        if self.items_left < 0:
            raise Malformed("too many array elements")


class Pieces:
    """Bytes in several buffers, for a field to be written from without joining them: of a megabyte, the copy and the
    room for it cost more than everything else about writing it."""

    __slots__ = ("_size", "parts")

    def __init__(self, parts: Sequence[Buffer]) -> None:
        self.parts = parts
        self._size = length_of(parts)

    def __len__(self) -> int:
        return self._size


class Writer:
    """The buffers of a message under construction."""

    __slots__ = ("_parts", "small")

    def __init__(self) -> None:
        self._parts: list[Buffer] = []
        self.small = bytearray()

    def splice(self, data: "Buffer | Pieces") -> None:
        """Append `data` as it is; a large piece without copying it."""
        if isinstance(data, Pieces):
            for part in data.parts:
                self.splice(part)
            return
        # Below it a copy is cheaper than one more buffer in the list, and in `sendmsg`.
        if len(data) < SPLICE_BYTES_MIN:
            self.small += data
            return
        if self.small:
            self._parts.append(self.small)
            self.small = bytearray()
        self._parts.append(data)

    def uvarint(self, value: int) -> None:
        self.small += encode_uvarint(value)

    def int8_length(self, length: int) -> None:
        self.small += _INT8.pack(length)

    def int16_length(self, length: int) -> None:
        self.small += _INT16.pack(length)

    def int32_length(self, length: int) -> None:
        self.small += _INT32.pack(length)

    def compact_length(self, length: int) -> None:
        self.uvarint(length + 1)

    def finish(self) -> list[Buffer]:
        """What was written, in order. The writer is used up."""
        return [*self._parts, self.small] if self.small else self._parts


def length_of(parts: Sequence[Buffer]) -> int:
    """Bytes in all."""
    return sum(map(len, parts))
