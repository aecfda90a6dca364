"""Records as bytes: the one layout in which a message crosses every seam of Delayline.

A *body* is a Kafka v2 record after its offsetDelta (Kafka protocol, "Record"; KIP-98), all lengths zigzag varints:

    body   = varint keyLen (null 01) | key | varint valueLen (null 01) | value | varint headerCount | headers
    header = varint nameLen | name | varint valueLen (null 01) | value

The queue adapters hand out bodies as the client sent them. Ingest *packs* one: the directives are taken out, the
count is final, and one header of ours stands at the end:

    packed = key and value as they came | varint (kept + 3) | kept headers as they came
             | 24 "delayline-accepted" 1a <13 digits>

Dispatch *seals* it by appending `delayline-id` and `delayline-due`, which follow from the index key, so that neither
takes room in the index; the result is a body again. A broker adapter writes it behind a length and three small
varints and never has to look inside. Moments outside 13 digits and names or ids of 64 bytes and more take
the general varint form; the bytes differ, the layout does not.
"""

from collections.abc import Container, Sequence
from functools import lru_cache
from typing import NamedTuple

from delayline.errors import MalformedRecord
from delayline.records.headers import ACCEPTED, DUE, ID
from delayline.records.message import Header

SEALING_HEADERS = 3


def encode_varint(value: int) -> bytes:
    """Zigzag varint of a signed 64-bit integer (Protocol Buffers `sint64`, as Kafka uses it). Hot: five times per
    message of the HTTP API, nearly always a length."""
    if 0 <= value < _LENGTHS_READY:
        return _LENGTHS[value]
    return encode_uvarint((value << 1) ^ (value >> 63))


def encode_uvarint(value: int) -> bytes:
    """Varint of a number that is not negative."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_LENGTHS_READY = 1024
_LENGTHS = [encode_uvarint(length << 1) for length in range(_LENGTHS_READY)]
"""Those of keys, header names and values, and of most values."""


def read_varint(body: bytes, at: int) -> tuple[int, int]:
    """`(value, position behind it)` of the zigzag varint at `at`. Raises MalformedRecord."""
    rest = shift = 0
    try:
        while True:
            byte = body[at]
            at += 1
            rest |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise MalformedRecord("a varint is longer than 64 bits")
    except IndexError:
        raise MalformedRecord("the record ends inside a varint") from None
    return (rest >> 1) ^ -(rest & 1), at


def encode_bytes(value: bytes | None) -> bytes:
    """A nullable byte string behind its varint length; null is length -1. Hot: twice per message of the HTTP API."""
    if value is None:
        return b"\x01"
    length = len(value)
    return (_LENGTHS[length] if length < _LENGTHS_READY else encode_varint(length)) + value


def encode_header(name: bytes, value: bytes | None) -> bytes:
    return encode_varint(len(name)) + name + encode_bytes(value)


def encode_body(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bytes:
    """The body of a record with these parts."""
    return encode_bytes(key) + encode_bytes(value) + encode_headers(headers)


def encode_headers(headers: Sequence[Header]) -> bytes:
    """What stands behind key and value."""
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        parts += (encode_varint(len(name)), name, encode_bytes(value))
    return b"".join(parts)


class Record(NamedTuple):
    """The parts of a body."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


def _read_bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(body, at)
    if length < -1:
        raise MalformedRecord("a length below -1")
    if length == -1:
        return None, at
    end = at + length
    if end > len(body):
        raise MalformedRecord("a length reaches behind the record's end")
    return body[at:end], end


def _read_header(body: bytes, at: int) -> tuple[Header, int]:
    name, at = _read_bytes(body, at)
    if name is None:
        raise MalformedRecord("a header without a name")
    value, at = _read_bytes(body, at)
    return (name, value), at


def decode_body(body: bytes) -> Record:
    """The parts of `body`. Raises MalformedRecord for anything that `encode_body` could not have made.

    Hot: once per message that RocketMQ gets. Lengths below 64 are read in line.
    """
    key, at = _read_bytes(body, 0)
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    if not 0 <= count <= len(body):
        raise MalformedRecord("an impossible number of headers")
    headers: list[Header] = []
    try:
        for _ in range(count):
            name_size, name_at = body[at], at + 1
            name_to = name_at + (name_size >> 1)
            value_size = name_size if name_size & _NOT_SHORT else body[name_to]
            if value_size & _NOT_SHORT:
                header, at = _read_header(body, at)
                headers.append(header)
            else:
                at = name_to + 1 + (value_size >> 1)
                headers.append((body[name_at:name_to], body[name_to + 1 : at]))
    except IndexError:
        raise MalformedRecord("the record ends inside a header") from None
    if at != len(body):
        raise MalformedRecord("the last header does not end with the record")
    return Record(key, value, headers)


class Split(NamedTuple):
    """A body taken apart at its directives: everything else stays as encoded bytes."""

    key_and_value: bytes
    kept_count: int
    kept: bytes
    directives: list[Header]


def split_directives(body: bytes, names: Container[bytes]) -> Split:
    """Separate the headers called one of `names` from the rest, in one pass. Raises MalformedRecord.

    Hot: once per buffered record. Lengths below 64 are read in line, a longer one falls back to `read_varint`
    (see bench/floors.py for its cost).
    """
    directives: list[Header] = []
    kept: list[bytes] = []
    try:
        headers_at = behind_key_and_value(body)
        count, at = body[headers_at], headers_at + 1
        if count & _NOT_SHORT:
            count, at = read_varint(body, headers_at)
            if not 0 <= count <= len(body):
                raise MalformedRecord("an impossible number of headers")
        else:
            count >>= 1
        run_at = at
        for _ in range(count):
            header_at = at
            name_size = body[at]
            name_end = at + 1 + (name_size >> 1)
            value_size = body[name_end] if not name_size & _NOT_SHORT else name_size
            if value_size & _NOT_SHORT:
                header, at = _read_header(body, header_at)
                if header[0] not in names:
                    continue
                directives.append(header)
            else:
                at = name_end + 1 + (value_size >> 1)
                name = body[header_at + 1 : name_end]
                if name not in names:
                    continue
                directives.append((name, body[name_end + 1 : at]))
            if header_at > run_at:
                kept.append(body[run_at:header_at])
            run_at = at
    except IndexError:
        raise MalformedRecord("the record ends too early") from None
    if at != len(body):
        raise MalformedRecord("the headers do not end where the record does")
    if not directives:
        return Split(body[:headers_at], count, body[run_at:], directives)
    kept.append(body[run_at:])
    return Split(body[:headers_at], count - len(directives), b"".join(kept), directives)


_NOT_SHORT = 0x81
"""Set in the first byte of a length that is negative (zigzag: odd) or takes more bytes than this one."""


def behind_key_and_value(body: bytes) -> int:
    """Where the header count stands; that may be behind the body's end. Hot: lengths of one and two bytes are read in
    line. Raises MalformedRecord, IndexError."""
    at = 0
    for _ in range(2):
        length = body[at]
        if not length & _NOT_SHORT:
            at += 1 + (length >> 1)
        elif length >= 0x80 and not length & 1 and body[at + 1] < 0x80:
            at += 2 + (length >> 1 & 0x3F | body[at + 1] << 6)
        else:
            exact, at = read_varint(body, at)
            if exact < -1:
                raise MalformedRecord("a length below -1")
            at += max(exact, 0)
    return at


_ACCEPTED_13 = encode_varint(len(ACCEPTED)) + ACCEPTED + encode_varint(13)
_ACCEPTED_AT = -13 - len(_ACCEPTED_13)
_DUE_13 = encode_varint(len(DUE)) + DUE + encode_varint(13)
_ID_NAME = encode_varint(len(ID)) + ID
_THIRTEEN_DIGITS = range(10**12, 10**13)
_COUNTS = [encode_varint(n) for n in range(64)]


def _moment_header(name: bytes, short: bytes, moment_ms: int) -> bytes:
    if moment_ms in _THIRTEEN_DIGITS:
        return short + b"%d" % moment_ms
    return encode_header(name, b"%d" % moment_ms)


def pack(split: Split, accepted_at_ms: int) -> bytes:
    """What the index keeps of a message: without its directives, lacking only id and due time."""
    count = split.kept_count + SEALING_HEADERS
    count_bytes = _COUNTS[count] if count < 64 else encode_varint(count)
    return split.key_and_value + count_bytes + split.kept + accepted_header(accepted_at_ms)


@lru_cache(1024)
def accepted_header(accepted_at_ms: int) -> bytes:
    """What `pack` ends with. Remembered: records that were appended together share their time."""
    return _moment_header(ACCEPTED, _ACCEPTED_13, accepted_at_ms)


def seal(packed: bytes, message_id: bytes, due_ms: int) -> bytes:
    """The body that goes to the target topic: `packed` with the message's id and due time behind it."""
    length = len(message_id)
    length_bytes = _COUNTS[length] if length < 64 else encode_varint(length)
    return packed + _ID_NAME + length_bytes + message_id + _moment_header(DUE, _DUE_13, due_ms)


def decode_packed(packed: bytes) -> Record:
    """The parts of a packed record: its last header is `delayline-accepted`."""
    record = decode_body(seal(packed, b"", 0))
    return record._replace(headers=record.headers[:-2])


def key_of(body: bytes) -> bytes | None:
    """The key alone, of a body or a packed record. Raises MalformedRecord."""
    return _read_bytes(body, 0)[0]


def accepted_at(packed: bytes) -> int:
    """Where the last header of a packed record begins, counted from its end (below 0). Raises MalformedRecord."""
    if packed[_ACCEPTED_AT:-13] == _ACCEPTED_13:
        return _ACCEPTED_AT
    return -len(accepted_header(accepted_at_ms_of(packed)))


def accepted_at_ms_of(packed: bytes) -> int:
    """The moment that `pack` was given, read back from the record's end. Hot: once per delivered message."""
    if packed[_ACCEPTED_AT:-13] == _ACCEPTED_13:
        return int(packed[-13:])
    at = packed.rfind(ACCEPTED)
    if at < 0:
        raise MalformedRecord("not a packed record")
    value, end = _read_bytes(packed, at + len(ACCEPTED))
    if value is None or end != len(packed):
        raise MalformedRecord("not a packed record")
    return int(value)
