"""Entries of a log that is encrypted: everything behind the head is, bound to the entry's key and head.

The head stays readable (offsets, counts, times): how far a log goes, and what it lacks, is found without a key.
"""

from typing import TYPE_CHECKING

from delayline.errors import Altered
from mq.embedded.entry import ENCRYPTED_VERSION, HEAD_BYTES, VERSION
from mq.errors import QueueFormat, QueueUnavailable

if TYPE_CHECKING:
    from delayline.encryption.cipher import Cipher

PURPOSE = b"log"
"""Of the cipher for a log."""


def encrypted(key: bytes, entry: bytes, cipher: "Cipher") -> bytes:
    """An entry of VERSION as one of ENCRYPTED_VERSION, for this key of the log."""
    head = bytes((ENCRYPTED_VERSION,)) + entry[1:HEAD_BYTES]
    return head + cipher.encrypt(entry[HEAD_BYTES:], key + head)


def decrypted(key: bytes, entry: bytes, cipher: "Cipher | None") -> bytes:
    """The entry of VERSION. Raises QueueFormat (it is encrypted, and there is no key), QueueUnavailable (it was
    altered, or is not encrypted in a log that is)."""
    if cipher is None:
        if entry[0] == ENCRYPTED_VERSION:
            raise QueueFormat("the log is encrypted: set store.encryption_key")
        return entry
    if entry[0] != ENCRYPTED_VERSION:
        raise QueueUnavailable("the log is damaged: an entry is not encrypted")
    head = entry[:HEAD_BYTES]
    try:
        return bytes((VERSION,)) + head[1:] + cipher.decrypt(entry[HEAD_BYTES:], key + head)
    except Altered as error:
        raise QueueUnavailable(f"the log is damaged: {error}") from error
