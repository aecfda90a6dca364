"""Decision records: they name records that became terminal other than by the cursor. Page: docs/formats/buffer.md."""

import re
from collections.abc import Iterable

import msgspec

from delayline.errors import Foreign, UnknownFormat
from delayline.records.headers import DECISION
from delayline.records.message import Key
from delayline.records.record import decode_body, encode_body

VERSION = 1
_NUMBER = re.compile(rb"[1-9][0-9]{0,8}")
_OFFSET_MAX = (1 << 63) - 1


class _DecisionValue(msgspec.Struct, frozen=True):
    due: list[int]
    off: list[int]


def encode_decision(names: Iterable[Key]) -> bytes:
    """The body of a decision record."""
    columns = list(zip(*names, strict=True))
    value = msgspec.msgpack.encode(_DecisionValue(list(columns[0]), list(columns[1])))
    return encode_body(None, value, [(DECISION, b"%d" % VERSION)])


def read_keys(body: bytes, version: bytes | None) -> tuple[Key, ...]:
    """What a decision record of that version names. Raises Foreign, UnknownFormat."""
    if version != b"%d" % VERSION:
        later = _NUMBER.fullmatch(version or b"") and int(version or b"") > VERSION
        kind = UnknownFormat if later else Foreign
        raise kind(f"a decision record of version {(version or b'')[:20].decode('ascii', 'replace')!r}")
    try:
        value = msgspec.msgpack.decode(decode_body(body).value or b"", type=_DecisionValue)
        if not all(0 <= number <= _OFFSET_MAX for number in (*value.due, *value.off)):
            raise ValueError("a key that no record has")
        return tuple(map(Key._make, zip(value.due, value.off, strict=True)))
    except (ValueError, RecursionError) as error:
        raise Foreign(f"a decision record that cannot be read: {error}") from error
