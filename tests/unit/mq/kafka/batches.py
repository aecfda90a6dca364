"""Batches written and read by another implementation, in every compression."""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, Unpack

import cramjam
import google_crc32c
from kafka.codec import gzip_encode, lz4_encode, zstd_encode
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

T0 = 1_767_225_600_000
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
SNAPPY_XERIAL = 12
"""Snappy in Java's framing; its codec is SNAPPY."""

CODECS = [NONE, GZIP, SNAPPY, SNAPPY_XERIAL, LZ4, ZSTD]


class ProducerId(TypedDict):
    """What a batch names as its producer."""

    producer_id: int
    producer_epoch: int


class Origin(ProducerId):
    """A producer, and the sequence of a batch's first record."""

    base_sequence: int


class Changes(TypedDict, total=False):
    """Of PRODUCER."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


PRODUCER: Origin = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 40}
NO_PRODUCER: Origin = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


class Sent(NamedTuple):
    """A record as a client gives it to its library."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def plain(n: int = 0, **headers: bytes | None) -> Sent:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Sent(T0 + n, b"k%d" % n, b"v%d" % n, named)


def batch_of(
    records: list[Sent], codec: int = NONE, transactional: bool = False, **producer: Unpack[Changes]
) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,  # with one, the library leaves small records uncompressed
        is_transactional=transactional,
        batch_size=1 << 30,
        **{**PRODUCER, **producer},
    )
    for offset, record in enumerate(records):
        assert builder.append(offset, record.timestamp, record.key, record.value, record.headers)
    data = bytes(builder.build())
    return with_payload(data, COMPRESS[codec](data[61:]), SNAPPY if codec == SNAPPY_XERIAL else codec)


def snappy(data: bytes, codec: int) -> bytes:
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + 1000])) for at in range(0, len(data), 1000)]
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NONE: bytes,
    GZIP: gzip_encode,
    SNAPPY: lambda data: snappy(data, SNAPPY),
    SNAPPY_XERIAL: lambda data: snappy(data, SNAPPY_XERIAL),
    LZ4: lz4_encode,
    ZSTD: zstd_encode,
}


def unsnappy(data: bytes) -> bytes:
    if not data.startswith(XERIAL[:8]):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, at = b"", 16
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        out += bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return out


def with_payload(data: bytes, payload: bytes, codec: int, count: int | None = None) -> bytes:
    """The batch `data` with other records behind its head, and with lengths and checksum that fit."""
    head = bytearray(data[:61])
    struct.pack_into(">i", head, 8, 49 + len(payload))
    (attributes,) = struct.unpack_from(">h", head, 21)
    struct.pack_into(">h", head, 21, attributes & ~7 | codec)
    if count is not None:
        struct.pack_into(">i", head, 23, count - 1)
        struct.pack_into(">i", head, 57, count)
    struct.pack_into(">I", head, 17, google_crc32c.value(bytes(head[21:]) + payload))
    return bytes(head) + payload


def read(data: bytes) -> Any:
    """The batch as another implementation sees it; its checksum must fit."""
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    return batch


def records_of(data: bytes) -> list[tuple[int, Sent]]:
    """(offset, record) for each record of a batch."""
    batch = read(data)
    if batch.compression_type == SNAPPY:
        batch = read(with_payload(data, unsnappy(data[61:]), NONE))
    return [(one.offset, Sent(one.timestamp, one.key, one.value, one.headers)) for one in batch]
