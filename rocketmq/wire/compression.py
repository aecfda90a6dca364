"""Compressed bodies: the message's sysFlag names the algorithm. Decompressing stops at a limit, whatever the data
claims.

(`org.apache.rocketmq.common.compression`: LZ4 frames, zstd, zlib; 0 is zlib too, from before there was a choice.)
"""

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from io import BytesIO

import lz4.frame
import zstandard

from rocketmq.errors import BodyTooLarge, Malformed, UnknownCompression

Buffer = bytes | bytearray | memoryview

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Decompressed, where the caller gives no other limit: sixteen of the largest bodies that a broker takes by
default."""

COMPRESSED = 0x1
_TYPE_SHIFT, _TYPE_MASK = 8, 0x7
_PIECE_BYTES = 256 * 1024
_WINDOW_BYTES_MAX = 128 * 1024 * 1024
_LEVEL = 5
"""The Java producer's (rocketmq.message.compressLevel)."""


class Compression(IntEnum):
    """Bits 8 to 10 of sysFlag."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def compression_of(sys_flag: int) -> Compression | None:
    """None where the body is as it is. Raises UnknownCompression."""
    if not sys_flag & COMPRESSED:
        return None
    number = sys_flag >> _TYPE_SHIFT & _TYPE_MASK
    try:
        return Compression(number or Compression.ZLIB)
    except ValueError:
        raise UnknownCompression(f"compression {number}") from None


def flags_of(compression: Compression) -> int:
    """The sysFlag bits of a body that is compressed this way."""
    return COMPRESSED | compression << _TYPE_SHIFT


def compress(compression: Compression, body: bytes) -> bytes:
    """As the Java producer does it."""
    match compression:
        case Compression.LZ4:
            return bytes(lz4.frame.compress(body))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(_LEVEL).compress(body)
        case Compression.ZLIB:
            return zlib.compress(body, _LEVEL)


def decompress(compression: Compression, data: Buffer, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Raises Malformed for what is none or ends early, BodyTooLarge beyond the limit."""
    pieces, size = [], 0
    try:
        for piece in _PIECES[compression](bytes(data)):
            size += len(piece)
            if size > bytes_max:
                raise BodyTooLarge(f"a body of more than {bytes_max} bytes")
            pieces.append(piece)
    except (zlib.error, RuntimeError, ValueError, zstandard.ZstdError) as error:
        raise Malformed(f"{compression.name.lower()}: {error}") from error
    return b"".join(pieces)


def _zlib_pieces(data: bytes) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    while not stream.eof:
        piece = stream.decompress(data, _PIECE_BYTES)
        data = stream.unconsumed_tail
        if not piece and not data and not stream.eof:
            raise Malformed("zlib: the data ends too early")
        yield piece


def _lz4_pieces(data: bytes) -> Iterator[bytes]:
    stream = lz4.frame.LZ4FrameDecompressor()
    while not stream.eof:
        piece: bytes = stream.decompress(data, _PIECE_BYTES)
        data = b""
        if not piece and stream.needs_input and not stream.eof:
            raise Malformed("lz4: the data ends too early")
        yield piece


def _zstd_pieces(data: bytes) -> Iterator[bytes]:
    """One frame, as each message has. The library's own reader takes a frame that ends early for one that ends."""
    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    stream = reader.decompressobj(write_size=_PIECE_BYTES)
    source = BytesIO(data)
    while not stream.eof:
        # Small steps: one call gives back all that its input stands for, up to 128 KiB for every three bytes of it.
        step = source.read(_ZSTD_STEP_BYTES)
        if not step:
            raise Malformed("zstd: the data ends too early")
        yield stream.decompress(step)


_ZSTD_STEP_BYTES = 256
_PIECES: dict[Compression, Callable[[bytes], Iterator[bytes]]] = {
    Compression.LZ4: _lz4_pieces,
    Compression.ZSTD: _zstd_pieces,
    Compression.ZLIB: _zlib_pieces,
}
