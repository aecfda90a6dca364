"""Batches that a broker, or a reader of the buffer, would stumble over: renumbered or refused, in every shape."""

import struct
from dataclasses import replace
from random import Random

import google_crc32c
import pytest
import zstandard

from delayline.records.record import decode_body, encode_body, encode_varint
from delayline.schedule.rules import DEFAULT_RULES, Rules
from kafkawire.batch.compression import decompress
from kafkawire.batch.head import APPEND_TIME_BIT, Batch, Codec, read_batch
from kafkawire.batch.records import read_records
from kafkawire.protocol.errors import BatchError, ErrorCode, MalformedBatch, UnsupportedCompression
from proxy.kafka.produce.screen import Screen, check_compression
from tests.unit.mq.kafka.batches import CODECS, COMPRESS, LZ4, SNAPPY_XERIAL, batch_of, with_payload

SCREEN = Screen(lambda _: DEFAULT_RULES, horizon_max_ms=86_400_000)
BY_DEFAULT = Screen(lambda _: Rules(default_delay_ms=1000), horizon_max_ms=86_400_000)
DELAY = b"\x0adelay\x041h"
every_codec = pytest.mark.parametrize("codec", [c for c in CODECS if c != SNAPPY_XERIAL])


def body(delayed: bool = True) -> bytes:
    return b"\x02k\x02v" + (b"\x02" + DELAY if delayed else b"\x00")


def record(offset: int, content: bytes) -> bytes:
    rest = b"\x00\x00" + encode_varint(offset) + content
    return encode_varint(len(rest)) + rest


def batch(offsets: list[int], bodies: list[bytes], codec: int = 0) -> Batch:
    payload = b"".join(map(record, offsets, bodies))
    like = batch_of([])
    return read_batch(with_payload(like, COMPRESS[codec](payload), codec, len(offsets)))


def delayed_part(found: Batch, screen: Screen = SCREEN) -> Batch:
    seen = screen.look("orders", found, 0)
    assert seen.refusal is None
    part = seen.scan.split(seen.delayed).delayed
    assert part is not None
    return part


def read_back(part: Batch) -> list[bytes]:
    """As the wire reader of the buffer, whose times are the broker's, does it."""
    sent = read_batch(b"".join(part.encode(0)))
    sent.check()
    head = sent.head._replace(attributes=sent.head.attributes | APPEND_TIME_BIT)
    plain = decompress(sent.head.codec, sent.payload, 1 << 20)
    records = read_records(head, plain, 0)
    assert [offset for offset, _, _ in records] == list(range(len(records)))
    return [content for _, _, content in records]


@every_codec
@pytest.mark.parametrize("offsets", [[77], [-1], [0, 0], [1, 0], [0, 2], [1, 2], [5, 3, 9], [2**31 - 1, 1]])
@pytest.mark.parametrize("mixed", [False, True])
def test_records_under_any_offsets_reach_the_buffer_numbered(offsets: list[int], mixed: bool, codec: int) -> None:
    bodies = [body()] * len(offsets)
    if mixed:
        offsets, bodies = [*offsets, 0], [*bodies, body(delayed=False)]
    part = delayed_part(batch(offsets, bodies, codec))
    assert read_back(part) == [body()] * (len(offsets) - mixed)


def test_an_offset_in_more_bytes_than_it_needs_is_written_anew() -> None:
    padded = b"\x00\x00\x80\x00" + body()
    found = read_batch(with_payload(batch_of([]), encode_varint(len(padded)) + padded, 0, 1))
    assert read_back(delayed_part(found)) == [body()]


@every_codec
def test_what_is_numbered_already_goes_as_it_came(codec: int) -> None:
    found = batch([0, 1], [body()] * 2, codec)
    assert delayed_part(found).encode(40)[1] == found.payload


def headed(**fields: int) -> Batch:
    """A batch of one delayed record under another head, with a checksum that fits."""
    found = batch([0], [body()])
    head = found.head._replace(**fields)
    rest = struct.pack(">hiqqqhii", *head[5:]) + bytes(found.payload)
    return replace(found, head=head._replace(crc=google_crc32c.value(rest)))


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"attributes": 0x40}, "unknown attributes 0x40"),
        ({"attributes": -0x8000}, "unknown attributes 0x8000"),
        ({"attributes": 0x08}, "LogAppendTime"),
        ({"base_sequence": -1}, "sequence -1"),
        ({"producer_epoch": -1}, "epoch -1"),
        ({"producer_id": -2}, "producer -2"),
        ({"producer_id": -1, "attributes": 0x10}, "without a producer id"),
    ],
)
def test_a_head_that_no_broker_takes_refuses_delayed_records(fields: dict[str, int], about: str) -> None:
    if fields.get("producer_id") == -2:
        fields = {**fields, "base_sequence": -1}
    with pytest.raises(MalformedBatch, match=about):
        SCREEN.look("orders", headed(**fields), 0)


def test_zstd_in_a_produce_that_is_too_old_for_it_is_refused() -> None:
    head = batch([0], [body()], 4).head
    with pytest.raises(UnsupportedCompression):
        check_compression(head, 6)
    check_compression(head, 7)
    check_compression(batch([0], [body()], LZ4).head, 6)


@every_codec
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x03",
        b"\x02k",
        b"\x02k\x02v",
        b"\x02k\x02v\x01",
        b"\x02k\x02v\x02",
        b"\x02k\x02v\x02\x01\x00",
        b"\x02k\x02v\x00\x00",
    ],
)
def test_a_record_that_only_the_default_delays_is_refused_when_it_cannot_be_read(content: bytes, codec: int) -> None:
    """No key, half a key, no number of headers, a negative one, a header missing, one without a name, more."""
    with pytest.raises(BatchError):
        BY_DEFAULT.look("orders", batch([0], [content], codec), 0)


def test_every_record_of_a_default_delay_can_be_taken_apart_by_the_reader() -> None:
    part = delayed_part(batch([9, 9], [body(delayed=False)] * 2), BY_DEFAULT)
    assert [decode_body(one).key for one in read_back(part)] == [b"k", b"k"]


def test_a_null_key_in_two_bytes_is_none() -> None:
    content = b"\x81\x00" + b"\x02v\x02" + DELAY
    seen = SCREEN.look("orders", batch([0], [content]), 0)
    assert [one.has_key for one in seen.scan.found] == [False]


@pytest.mark.parametrize("cut", [1, 4, 40, 4000])
@pytest.mark.parametrize("codec", [c for c in CODECS if c not in (0, SNAPPY_XERIAL)])
def test_compressed_records_that_end_too_early_are_refused_wherever_they_break_off(codec: int, cut: int) -> None:
    """Also where no directive stands in the part that unpacks: a broker alone answers UNKNOWN_SERVER_ERROR."""
    content = Random(7).randbytes(200_000) + bytes(50_000)
    payload = COMPRESS[codec](record(0, encode_body(None, content)))
    short = read_batch(with_payload(batch_of([]), payload[:-cut], codec, 1))
    with pytest.raises(BatchError) as refused:
        SCREEN.look("orders", short, 0)
    assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [0, 1, 127, 70_000, 300_000])
@pytest.mark.parametrize("level", [1, 3, 19])
@pytest.mark.parametrize("checked", [False, True])
def test_whole_zstd_frames_are_taken_whoever_wrote_them(size: int, level: int, checked: bool) -> None:
    content = (Random(size).randbytes(size // 2) + bytes(size - size // 2))[:size]
    one = zstandard.ZstdCompressor(level, write_checksum=checked).compress(content)
    writer = zstandard.ZstdCompressor(level, write_checksum=checked).compressobj()
    unsized = writer.compress(content) + writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + writer.flush()
    for data, plain in ((one, content), (unsized, content), (one + unsized, content * 2)):
        assert decompress(Codec.ZSTD, data, 1 << 22) == plain
        with pytest.raises(MalformedBatch):
            decompress(Codec.ZSTD, data[:-1], 1 << 22)
