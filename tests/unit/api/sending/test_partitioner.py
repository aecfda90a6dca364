"""Vectors from Kafka's own UtilsTest.testMurmur2 and from its producer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.sending.partitioner import murmur2, partition_index


def _signed(hash_: int) -> int:
    return hash_ - 2**32 if hash_ >= 2**31 else hash_


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_a_key_has_the_hash_that_kafkas_own_tests_expect(key: bytes, hash_: int) -> None:
    assert _signed(murmur2(key)) == hash_


def test_a_negative_hash_loses_its_sign_bit_and_is_not_negated() -> None:
    assert partition_index(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7


def _java(key: bytes) -> int:
    """Utils.murmur2, byte by byte as Java does it, with Java's signed ints made by hand."""

    def i32(number: int) -> int:
        number &= 0xFFFFFFFF
        return number - 2**32 if number >= 2**31 else number

    def shifted(number: int, bits: int) -> int:
        return (number & 0xFFFFFFFF) >> bits

    m, length = 0x5BD1E995, len(key)
    h = i32(0x9747B28C ^ length)
    for i in range(0, length & ~3, 4):
        k = i32(key[i] | key[i + 1] << 8 | key[i + 2] << 16 | key[i + 3] << 24)
        k = i32(k * m)
        k = i32((k ^ shifted(k, 24)) * m)
        h = i32(i32(h * m) ^ k)
    rest = key[length & ~3 :]
    for i in reversed(range(len(rest))):
        h = i32(h ^ rest[i] << 8 * i)
    if rest:
        h = i32(h * m)
    h = i32((h ^ shifted(h, 13)) * m)
    return i32(h ^ shifted(h, 15))


@given(st.binary(max_size=100))
def test_any_key_has_the_hash_of_the_literal_transcription(key: bytes) -> None:
    assert _signed(murmur2(key)) == _java(key)


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_an_index_is_always_a_partition(key: bytes, partitions: int) -> None:
    assert 0 <= partition_index(key, partitions) < partitions
