"""The data key of a directory: random, and kept in the directory, encrypted with the key of the settings.

`encryption.json`: {"version": 1, "id": 16 hex digits, "encrypted": base64 of 12 bytes nonce | 48 bytes ciphertext}

So a new key in the settings takes one small file written anew, whatever there is to read. The key of the settings
encrypts a few data keys in its life, with random nonces.
"""

import os
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from delayline.errors import ConfigError, DelaylineError
from delayline.process import logs
from delayline.process.durably import write_durably
from delayline.process.links import read_file

if TYPE_CHECKING:
    from delayline.encryption.cipher import Cipher

log = logs.get(__name__)

FILE = "encryption.json"
VERSION = 1
KEY_BYTES = 32
_ID_BYTES, _NONCE_BYTES = 8, 12
_SETTING = "store.encryption_key"


@dataclass(frozen=True, slots=True)
class DataKey:
    """What a directory is encrypted with. It can be pickled, to go to another process of the same user."""

    id: bytes
    secret: bytes = field(repr=False)

    def cipher(self, purpose: bytes) -> "Cipher":
        """One for what is written for this purpose alone."""
        from delayline.encryption.cipher import Cipher

        return Cipher(self.id, self.secret, purpose)


class _KeyFile(msgspec.Struct, frozen=True):
    version: int
    id: str
    encrypted: bytes


class Stored(Enum):
    """What a directory holds, as far as its files show."""

    NOTHING = auto()
    DATA = auto()
    ENCRYPTED = auto()


def find_data_key(data_dir: Path, key: str, before: str = "", stored: Stored = Stored.NOTHING) -> DataKey | None:
    """The data key of what is in `data_dir`, of which nothing is changed; None where there is none. `key` and
    `before`, of the settings, are base64, empty where they are not set. Raises ConfigError, also where `stored` needs
    a data key that is gone, or where `key` is set and it is not encrypted."""
    if os.path.lexists(data_dir / FILE):
        if not key:
            why = f"the data in {data_dir} is encrypted: set the key that it was encrypted with."
            raise ConfigError(f"{_SETTING}: {why}")
        with _package():
            return _decrypted(data_dir / FILE, _decoded(key, before))[0]
    if stored is Stored.ENCRYPTED:
        gone = f"the data in {data_dir} is encrypted, and {FILE} is gone"
        raise ConfigError(f"{_SETTING}: {gone}: put it back, nothing can be read without it. Nothing was changed.")
    if key and stored is Stored.DATA:
        raise ConfigError(
            f"{_SETTING}: there is data in {data_dir}, and no {FILE}. If the data was never encrypted, "
            f"`delayline data encrypt` does it; if {FILE} is gone, put it back: nothing can be read without it."
        )
    return None


def open_data_key(data_dir: Path, key: str, before: str = "", *, stored: Stored) -> DataKey | None:
    """The same for a server: it makes one where there is no data yet, and where `before` was in use, it encrypts the
    data key with `key` from now on. Raises ConfigError, DelaylineError (the file cannot be written)."""
    found = find_data_key(data_dir, key, before, stored)
    if found is not None:
        _renew(data_dir / FILE, _decoded(key, before))
        return found
    return make_data_key(data_dir, key) if key else None


def make_data_key(data_dir: Path, key: str) -> DataKey:
    """A new one, in its file, unless another process has just made one. Raises ConfigError, DelaylineError (the file
    cannot be written)."""
    made = DataKey(os.urandom(_ID_BYTES), os.urandom(KEY_BYTES))
    file = data_dir / FILE
    with _package():
        data = _encrypted(made, _decoded(key)[0])
    with _writing(file):
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _put(file, data):
            return _decrypted(file, _decoded(key))[0]
    log.info("what is written to disk is encrypted from now on: keep a copy of the file", file=str(file))
    return made


def _put(file: Path, data: bytes) -> bool:
    """Durably; whether there was no such file. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=f"{FILE}.", dir=file.parent) as folder:
        write_durably(Path(folder, FILE), data, mode=0o600)
        try:
            # A link, because a rename would replace the file of a process that starts at the same moment.
            file.hardlink_to(Path(folder, FILE))
        except FileExistsError:
            return False
    _sync(file.parent)
    return True


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DelaylineError(f"{file} cannot be written: {error.strerror}") from error


def _renew(file: Path, keys: Sequence[bytes]) -> None:
    found, by = _decrypted(file, keys)
    if by == 0:
        return
    with _writing(file):
        write_durably(file, _encrypted(found, keys[0]), mode=0o600)
    log.info("the data key is encrypted with the new key from now on: the one before may be removed", file=str(file))


def _decoded(*keys: str) -> list[bytes]:
    return [b64decode(key) for key in keys if key]


def _encrypted(data_key: DataKey, key: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, data_key.secret, _place(data_key.id))
    return msgspec.json.encode(_KeyFile(VERSION, data_key.id.hex(), sealed)) + b"\n"


def _decrypted(file: Path, keys: Sequence[bytes]) -> tuple[DataKey, int]:
    """And which of the keys it was. Raises ConfigError."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key_id, sealed = _read(file)
    for number, key in enumerate(keys):
        try:
            secret = AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _place(key_id))
        except InvalidTag:
            continue
        return DataKey(key_id, secret), number
    tried = f"neither {_SETTING} nor {_SETTING}_before is" if len(keys) > 1 else "it is not"
    raise ConfigError(f"{_SETTING}: {tried} the key of {file}, or the file was altered. Nothing was changed.")


def _read(file: Path) -> tuple[bytes, bytes]:
    """Its id, and what is encrypted. Raises ConfigError."""
    try:
        found = msgspec.json.decode(read_file(file), type=_KeyFile)
        if found.version != VERSION:
            raise ConfigError(f"{file} has version {found.version}, this program knows {VERSION}.")
        key_id = bytes.fromhex(found.id)
        if (len(key_id), len(found.encrypted)) != (_ID_BYTES, _NONCE_BYTES + KEY_BYTES + 16):
            raise ValueError("it was cut")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # also what msgspec raises
        raise ConfigError(f"{file} is damaged ({error}): put back a copy of it, nothing was changed.") from error
    return key_id, found.encrypted


def _place(key_id: bytes) -> bytes:
    return b"delayline-data-key 1 " + key_id


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _package() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{_SETTING}: it needs the package {error.name}; `pip install 'delayline[encryption]'` installs it."
        ) from error
