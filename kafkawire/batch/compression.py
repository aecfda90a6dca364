"""The four compressions of a batch's records, in both directions.

Decompressing stops at a limit, whatever the data claims: a few kilobytes of zstd can stand for hundreds of
megabytes. Output grows piece by piece; where a format states its size in advance, that is compared first.

Snappy comes in two framings, both read by every client: raw blocks (librdkafka) and xerial's chunks (Java). What is
compressed again keeps the framing that it came in.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO

import cramjam
import lz4.frame
import zstandard

from kafkawire.batch.head import Buffer, Codec
from kafkawire.protocol.errors import BatchTooLarge, MalformedBatch

PIECE_BYTES = 256 * 1024

GZIP_LEVEL = 1
ZSTD_LEVEL = 3
"""Java's default; for gzip the default costs five times as much for a tenth less."""

GZIP_MEMBERS_MAX = 16
"""Clients write one."""

ZSTD_BLOCKS_MAX = 100_000
"""Of 128 KiB each, but for writers that flush: 0.05 s to walk over."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_CHUNK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")


class Allowance:
    """How many bytes decompressing may still give, for several batches together."""

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max

    def decompress(self, codec: Codec, data: Buffer, bytes_max: int) -> bytes:
        """Like the function, and within the allowance. What is not compressed takes nothing of it."""
        if codec is Codec.NONE:
            return decompress(codec, data, bytes_max)
        # Checked before decompressing: data that is larger than the allowance would use it up in any case.
        if len(data) > self.left:
            raise BatchTooLarge("more compressed records than one request may have")
        plain = decompress(codec, data, min(bytes_max, self.left))
        # Only what came out counts, so that a request of many small batches is bounded like one large batch.
        self.left -= len(plain)
        return plain


def decompress(codec: Codec, data: Buffer, bytes_max: int) -> bytes:
    """The records themselves. Raises MalformedBatch, and BatchTooLarge beyond `bytes_max`, on either side: pieces
    without content take time too."""
    if len(data) > bytes_max:
        raise BatchTooLarge(f"more than {bytes_max} bytes")
    if codec is Codec.NONE:
        return _bounded((bytes(data),), bytes_max)
    try:
        return _bounded(_PIECES[codec](bytes(data), bytes_max), bytes_max)
    except (zlib.error, RuntimeError, ValueError, cramjam.DecompressionError, zstandard.ZstdError) as error:
        raise MalformedBatch(f"{codec.name.lower()}: {error}") from error


def compress(codec: Codec, data: bytes, like: Buffer) -> bytes:
    """`data` in the compression, and for snappy in the framing, that `like` has."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return _gzip(data)
        case Codec.SNAPPY:
            return _xerial(data) if like[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC else _snappy(data)
        case Codec.LZ4:
            return _lz4(data)
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(ZSTD_LEVEL).compress(data)


def _bounded(pieces: "Iterator[bytes] | tuple[bytes, ...]", bytes_max: int) -> bytes:
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > bytes_max:
            raise BatchTooLarge(f"more than {bytes_max} bytes of records")
        gathered.append(piece)
    # A join of one piece would copy it: most batches fit one.
    return gathered[0] if len(gathered) == 1 else b"".join(gathered)


def _gzip_pieces(data: bytes, _bytes_max: int) -> Iterator[bytes]:
    """One member after the other, as Java's GZIPInputStream reads them; each costs a copy of what follows it."""
    for _ in range(GZIP_MEMBERS_MAX):
        if not data:
            return
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while not member.eof:
            piece = member.decompress(data, PIECE_BYTES)
            data = member.unconsumed_tail
            if not piece and not data and not member.eof:
                raise MalformedBatch("gzip: the data ends too early")
            yield piece
        # Further members are legal gzip (RFC 1952, 2.2), and some clients write them; a loop without end is not.
        data = member.unused_data
    if data:
        raise MalformedBatch("gzip: too many members")


def _lz4_pieces(data: bytes, _bytes_max: int) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    while not frame.eof:
        piece: bytes = frame.decompress(data, PIECE_BYTES)
        data = b""
        # The library waits for more input here instead of failing: without the check the loop would never end.
        if not piece and frame.needs_input and not frame.eof:
            raise MalformedBatch("lz4: the data ends too early")
        yield piece


def _zstd_pieces(data: bytes, _bytes_max: int) -> Iterator[bytes]:
    """Windows beyond 128 MiB are refused by the library. Data that ends early is none to its reader."""
    # The stream reader returns what it has at the end of the input, so cut data would pass for fewer records.
    _check_zstd_ends(data)
    reader = zstandard.ZstdDecompressor().stream_reader(BytesIO(data), read_across_frames=True)
    while piece := reader.read(PIECE_BYTES):
        yield piece


def _check_zstd_ends(data: bytes) -> None:
    """That the last frame is whole (RFC 8878, 3.1): by the heads of its blocks. What is no frame is left to the
    library. Raises MalformedBatch."""
    at, blocks = 0, 0
    while data[at : at + 4] == _ZSTD_MAGIC:
        described = data[at + 4] if at + 4 < len(data) else 0
        is_single = described >> 5 & 1
        content_bytes = (is_single, 2, 4, 8)[described >> 6]
        at += 5 + (1 - is_single) + (0, 1, 2, 4)[described & 3] + content_bytes
        is_last = False
        while not is_last and at + 3 <= len(data):
            head = int.from_bytes(data[at : at + 3], "little")
            is_last, at, blocks = bool(head & 1), at + 3 + (1 if head >> 1 & 3 == 1 else head >> 3), blocks + 1
            if blocks > ZSTD_BLOCKS_MAX:
                raise MalformedBatch("zstd: too many blocks")
        at += 4 * (described >> 2 & 1)
        if not is_last or at > len(data):
            raise MalformedBatch("zstd: the data ends too early")
    if 0 < len(data) - at < 4:
        raise MalformedBatch("zstd: the data ends too early")


def _snappy_pieces(data: bytes, bytes_max: int) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield _snappy_block(data, bytes_max)
        return
    at = len(_XERIAL_HEAD)
    while at < len(data):
        if at + _INT32.size > len(data):
            raise MalformedBatch("snappy: the data ends too early")
        (length,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        # Negative lengths would move `at` backwards, and the loop would not end.
        if not 0 <= length <= len(data) - at:
            raise MalformedBatch("snappy: a chunk longer than the data")
        yield _snappy_block(data[at : at + length], bytes_max)
        at += length


def _snappy_block(block: bytes, bytes_max: int) -> bytes:
    """A block begins with its size, which the library takes at its word for the memory it asks for."""
    # The length is in the first bytes of the block, under the sender's control: 5 bytes may ask for 4 GiB.
    if cramjam.snappy.decompress_raw_len(block) > bytes_max:
        raise BatchTooLarge(f"more than {bytes_max} bytes of records")
    return bytes(cramjam.snappy.decompress_raw(block))


_PIECES: dict[Codec, Callable[[bytes, int], Iterator[bytes]]] = {
    Codec.GZIP: _gzip_pieces,
    Codec.SNAPPY: _snappy_pieces,
    Codec.LZ4: _lz4_pieces,
    Codec.ZSTD: _zstd_pieces,
}


def _gzip(data: bytes) -> bytes:
    return zlib.compress(data, GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _xerial(data: bytes) -> bytes:
    """Chunks as Java writes them (org.xerial.snappy.SnappyOutputStream)."""
    parts = [_XERIAL_HEAD]
    for at in range(0, len(data), _XERIAL_CHUNK_BYTES):
        block = _snappy(data[at : at + _XERIAL_CHUNK_BYTES])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _lz4(data: bytes) -> bytes:
    """Independent blocks and no content checksum: Kafka's reader refuses the one and does not check the other
    (Lz4BlockInputStream)."""
    compressed: bytes = lz4.frame.compress(
        data, compression_level=0, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return compressed
