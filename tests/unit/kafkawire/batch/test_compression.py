"""The four compressions, and what does not let itself be decompressed."""

import gzip
import tracemalloc
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.batch.compression import compress, decompress
from kafkawire.batch.head import Codec
from kafkawire.protocol.errors import BatchTooLarge, ErrorCode, MalformedBatch
from tests.tiers import examples
from tests.unit.mq.kafka.batches import SNAPPY, SNAPPY_XERIAL, XERIAL, snappy, unsnappy

TEXT = b"".join(b"line %d of many\n" % n for n in range(10_000))
MIB = 1 << 20
BOMB = bytes(32 * MIB)

THEIRS = {
    "gzip": (Codec.GZIP, gzip.compress),
    "snappy": (Codec.SNAPPY, lambda data: snappy(data, SNAPPY)),
    "xerial": (Codec.SNAPPY, lambda data: snappy(data, SNAPPY_XERIAL)),
    "lz4": (Codec.LZ4, lz4.frame.compress),
    "lz4 without size": (Codec.LZ4, lambda data: lz4.frame.compress(data, store_size=False)),
    "zstd": (Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
    "zstd with size": (Codec.ZSTD, zstandard.ZstdCompressor().compress),
    "none": (Codec.NONE, bytes),
}
BACK = {
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: unsnappy,
    Codec.LZ4: lz4.frame.decompress,
    Codec.ZSTD: lambda data: zstandard.ZstdDecompressor().decompress(data, max_output_size=MIB),
    Codec.NONE: bytes,
}

every = pytest.mark.parametrize("name", THEIRS)
compressed = pytest.mark.parametrize("name", [name for name in THEIRS if name != "none"])


@every
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["nothing", "a byte", "text"])
def test_what_others_compressed_is_read(name: str, data: bytes) -> None:
    codec, theirs = THEIRS[name]
    assert decompress(codec, memoryview(theirs(data)), MIB) == data


@every
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["nothing", "a byte", "text"])
def test_what_is_compressed_is_read_by_others(name: str, data: bytes) -> None:
    codec, theirs = THEIRS[name]
    assert BACK[codec](compress(codec, data, theirs(TEXT))) == data


def test_snappy_keeps_its_framing() -> None:
    assert compress(Codec.SNAPPY, TEXT, snappy(b"x", SNAPPY_XERIAL)).startswith(XERIAL)
    assert not compress(Codec.SNAPPY, TEXT, snappy(b"x", SNAPPY)).startswith(XERIAL)


def test_lz4_is_written_in_independent_blocks() -> None:
    assert not lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT, b""))["block_linked"]


def test_members_and_frames_one_behind_the_other_are_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"a") + gzip.compress(b"b"), MIB) == b"ab"
    frames = zstandard.ZstdCompressor().compress(b"a") + zstandard.ZstdCompressor().compress(b"b")
    assert decompress(Codec.ZSTD, frames, MIB) == b"ab"


def test_gzip_of_endless_members_is_refused() -> None:
    with pytest.raises(MalformedBatch, match="members"):
        decompress(Codec.GZIP, gzip.compress(b"") * 17, MIB)


@every
def test_the_limit_itself_is_not_too_large_and_one_byte_more_is(name: str) -> None:
    codec, theirs = THEIRS[name]
    assert decompress(codec, theirs(TEXT), len(TEXT)) == TEXT
    with pytest.raises(BatchTooLarge) as refused:
        decompress(codec, theirs(TEXT), len(TEXT) - 1)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@compressed
def test_a_bomb_takes_no_more_memory_than_the_limit(name: str) -> None:
    codec, theirs = THEIRS[name]
    bomb = theirs(BOMB)
    tracemalloc.start()
    with pytest.raises(BatchTooLarge):
        decompress(codec, bomb, MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * MIB + 2 * len(bomb)


def test_data_longer_than_the_limit_is_refused_whatever_comes_out_of_it() -> None:
    with pytest.raises(BatchTooLarge):
        decompress(Codec.ZSTD, zstandard.ZstdCompressor().compress(b"") * 1000, 1000)


def test_a_snappy_block_is_not_taken_at_its_word() -> None:
    with pytest.raises(BatchTooLarge):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f", MIB)


@pytest.mark.parametrize("name", ["gzip", "snappy", "xerial", "lz4", "lz4 without size"])
def test_data_that_ends_too_early_is_refused(name: str) -> None:
    codec, theirs = THEIRS[name]
    data = theirs(TEXT)
    for length in (len(data) - 1, len(data) // 2, 17):
        with pytest.raises(MalformedBatch):
            decompress(codec, data[:length], MIB)


@settings(max_examples=examples(1200))
@given(st.sampled_from(sorted(THEIRS)), st.binary(max_size=60), st.integers(0, 1 << 16), st.integers(0, 255))
def test_arbitrary_and_damaged_data_is_read_or_refused_and_nothing_else(
    name: str, noise: bytes, at: int, byte: int
) -> None:
    codec, theirs = THEIRS[name]
    damaged = bytearray(theirs(b"some text, some more text, some text again" + noise))
    damaged[at % len(damaged)] = byte
    for data in (noise, bytes(damaged), XERIAL + noise, bytes(cramjam.snappy.compress_raw(noise))):
        with suppress(MalformedBatch, BatchTooLarge):
            decompress(codec, data, 1 << 16)
