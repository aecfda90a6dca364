"""Values are what was written at their place, or nothing; and no nonce comes twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.encryption.cipher import ADDED_BYTES, NAME_BYTES, Cipher
from delayline.errors import Altered

ID, KEY = b"12345678", bytes(range(32))


def cipher(purpose: bytes = b"index", key: bytes = KEY, numbers: int = 1 << 32) -> Cipher:
    return Cipher(ID, key, purpose, numbers)


def head_of(value: bytes) -> bytes:
    """What no two values may share: salt and number."""
    return value[1:21]


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_a_value_comes_back_from_its_place_also_to_a_later_process(value: bytes, place: bytes) -> None:
    written = cipher().encrypt(value, place)
    assert cipher().decrypt(written, place) == value
    assert len(written) == len(value) + ADDED_BYTES
    assert len(value) < 8 or value not in written


@given(st.integers(0, 8 * 60 - 1))
def test_one_flipped_bit_anywhere_is_noticed(bit: int) -> None:
    written = bytearray(cipher().encrypt(bytes(23), b"place"))
    written[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Altered):
        cipher().decrypt(bytes(written), b"place")


@pytest.mark.parametrize("length", [0, 1, 20, 36, 42])
def test_a_value_that_was_cut_is_noticed(length: int) -> None:
    written = cipher().encrypt(b"hello!", b"place")
    with pytest.raises(Altered):
        cipher().decrypt(written[:length], b"place")


@pytest.mark.parametrize(
    "other", [cipher(b"log"), cipher(key=bytes(32))], ids=["another purpose", "another data key"]
)
def test_another_key_does_not_read_it(other: Cipher) -> None:
    with pytest.raises(Altered):
        other.decrypt(cipher().encrypt(b"hello", b"place"), b"place")


def test_a_value_is_not_that_of_another_place() -> None:
    one = cipher()
    with pytest.raises(Altered):
        one.decrypt(one.encrypt(b"hello", b"here"), b"there")


def test_no_two_values_have_the_same_salt_and_number_also_of_several_processes() -> None:
    ciphers = [cipher(), cipher()]
    written = [one.encrypt(b"same", b"place") for _ in range(500) for one in ciphers]
    assert len({head_of(value) for value in written}) == len(written) == 1000
    assert len({value[1:17] for value in written}) == 2


def test_after_its_numbers_a_cipher_has_another_salt() -> None:
    one = cipher(numbers=3)
    written = [one.encrypt(b"%d" % n, b"place") for n in range(8)]
    assert [value[17:21][-1] for value in written] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert len({head_of(value) for value in written}) == 8
    assert [cipher().decrypt(value, b"place") for value in written] == [b"%d" % n for n in range(8)]


def test_many_salts_are_read_though_few_keys_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delayline.encryption.cipher.SALTS_KEPT", 4)
    written = [cipher().encrypt(b"%d" % n, b"place") for n in range(20)]
    reader = cipher()
    for _ in range(2):
        assert [reader.decrypt(value, b"place") for value in written] == [b"%d" % n for n in range(20)]


def test_a_hidden_name_is_always_the_same_and_shows_nothing() -> None:
    hidden = cipher().hidden(b"order-7")
    assert hidden == cipher().hidden(b"order-7")
    assert len(hidden) == NAME_BYTES
    assert len({hidden, cipher().hidden(b"order-8"), cipher(b"log").hidden(b"order-7")}) == 3
    assert hidden != cipher(key=bytes(32)).hidden(b"order-7")
