"""Values encrypted with AES-256-GCM, each bound to its place. Needs the package `cryptography`.

    value = u8 version (1) | 16 bytes salt | u32 number, big endian | ciphertext | 16 bytes tag

GCM must never see a nonce twice under one key (NIST SP 800-38D, 8). Random nonces allow 2^32 values for one key:
an index writes them in days. So each `Cipher` makes a key of its own: HKDF-SHA256 (RFC 5869) of the data key and a
random salt of 128 bits; its nonce is the number, counted from 0. Two processes, or one directory that was copied and
is used twice, meet only where two salts are equal. After 2^32 values there is another salt.

A fork would go on with the same numbers: open what encrypts after it.
"""

import hashlib
import os
import struct
from itertools import count

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from delayline.errors import Altered

VERSION = 1
NUMBERS = 1 << 32
"""Values under one salt. Of 1 MiB each they are 2^48 blocks of AES, of which an attacker learns with a probability of
2^-33; the average is far below."""

ADDED_BYTES = 37
"""How much longer a value gets."""

NAME_BYTES = 16
SALTS_KEPT = 1024
"""Keys that are kept for reading; each process that wrote has made one."""

_SALT_BYTES = 16
_HEAD_BYTES = 1 + _SALT_BYTES
_BODY_AT = _HEAD_BYTES + 4
_number = struct.Struct(">I").pack
_NONCE_BEGINS = bytes(8)
_LABEL = b"delayline 1 "


class Cipher:
    """Of one purpose: values of another one cannot be decrypted with it. Any thread may decrypt, and one at a time
    encrypt."""

    def __init__(self, key_id: bytes, data_key: bytes, purpose: bytes, numbers: int = NUMBERS) -> None:
        self.key_id = key_id
        self._data_key = data_key
        self._purpose = purpose
        self._numbers_max = numbers
        self._known: dict[bytes, AESGCM] = {}
        self._name_key = self._derived(b"names", b"")
        self._renew()

    def _derived(self, use: bytes, salt: bytes) -> bytes:
        return HKDF(SHA256(), 32, salt, _LABEL + self._purpose + b" " + use).derive(self._data_key)

    def _renew(self) -> None:
        self._head = bytes((VERSION,)) + os.urandom(_SALT_BYTES)
        self._own = self._key_of(self._head)
        self._numbers = count()

    def _key_of(self, head: bytes) -> AESGCM:
        found = self._known.get(head)
        if found is None:
            if len(self._known) >= SALTS_KEPT:
                self._known.clear()
            found = self._known[head] = AESGCM(self._derived(b"values", head[1:]))
        return found

    def encrypt(self, value: bytes, place: bytes) -> bytes:
        """Hot: 1.5 us for 256 bytes. Only `decrypt` for the same `place` gives it back."""
        number = next(self._numbers)
        if number >= self._numbers_max:
            self._renew()
            number = next(self._numbers)
        packed = _number(number)
        return self._head + packed + self._own.encrypt(_NONCE_BEGINS + packed, value, place)

    def decrypt(self, value: bytes, place: bytes) -> bytes:
        """Hot: 1.6 us for 256 bytes. Raises Altered."""
        head = value[:_HEAD_BYTES]
        if value[:1] != b"\x01" or len(value) < ADDED_BYTES:
            raise Altered("it is no encrypted value")
        try:
            return self._key_of(head).decrypt(_NONCE_BEGINS + value[_HEAD_BYTES:_BODY_AT], value[_BODY_AT:], place)
        except InvalidTag:
            raise Altered("it was altered, or belongs to another place") from None

    def hidden(self, name: bytes) -> bytes:
        """Always the same NAME_BYTES for a name, which cannot be found from them without the data key."""
        return hashlib.blake2b(name, digest_size=NAME_BYTES, key=self._name_key).digest()
