"""What a client has sent, as one number: the same from its record in a buffer topic as from what was delivered of it.

The digest is the CRC-32 (ISO 3309, as `zlib` has it) of key, value and headers as they are sent, without the three
headers that Delayline adds behind the client's own. It is made where the buffer is read and where the target is read,
and nowhere between, so it takes no worker's word. It finds what was changed by mistake: a forger can keep it.
"""

from collections.abc import Sequence
from zlib import crc32

from delayline.records.headers import ACCEPTED, DUE, ID
from delayline.records.message import Header
from delayline.records.record import accepted_at, encode_header

UNLIKE = -1
"""The digest of a record that does not end as every delivery does: no other one is negative."""

_SEALING = [ACCEPTED, ID, DUE]


def digest_of_packed(packed: bytes, start: int = 0) -> int:
    """Of what the index keeps of a message (`delayline.records.record`), from `start` on; it ends with the moment of
    its acceptance. Hot: once per record that the reconcile job reads. Raises MalformedRecord."""
    return crc32(packed[start : accepted_at(packed)])


def digest_of_delivered(body: bytes, headers: Sequence[Header]) -> int:
    """Of a record of a target topic with these headers: `delayline.records.record.seal` has put three behind all
    others."""
    ours = headers[-len(_SEALING) :]
    if [name for name, _ in ours] != _SEALING:
        return UNLIKE
    return crc32(body[: -sum(len(encode_header(*header)) for header in ours)])
