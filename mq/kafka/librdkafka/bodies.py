"""Bodies <-> librdkafka's messages. Hot: once per record each way (see bench/floors.py for what a record costs)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from confluent_kafka import Message

from delayline.errors import MalformedRecord
from delayline.records.record import Record, decode_body, encode_body, encode_varint
from mq.contract import LogRecord

BATCH_OVERHEAD_BYTES = 80
"""A v2 batch of one record has 61 bytes of its own, and the record at most 17 before its body."""

NAMES_MAX = 4096
"""Header names that are remembered in both forms; a topic with more of them in use pays for each anew."""

Headers = list[tuple[str, str | bytes | None]]

_LENGTHS = [encode_varint(length) for length in range(8192)]
"""Every length that takes one byte or two."""


class Parts(NamedTuple):
    """A body as `Producer.produce` takes it."""

    key: bytes | None
    value: bytes | None
    headers: Headers


# --- out of a body


def parts_of(body: bytes) -> Parts:
    """Raises MalformedRecord, also for a header whose name is not UTF-8 or holds a NUL: the library would cut it.

    Lengths below 64 (of the value, below 8192) are read in line; a body with any other goes the general way.
    """
    try:
        return _short_parts(body) or _parts(decode_body(body))
    except IndexError:
        raise MalformedRecord("the record ends too early") from None


def _short_parts(body: bytes) -> Parts | None:
    """None for a body with a null or a longer length, and for one that does not end where its lengths do. A length
    byte is even for what is not null, and below 0x80 where it is the only one."""
    size = body[0]
    if size & 0x81:
        return None
    key_end = 1 + (size >> 1)
    size = body[key_end]
    if not size & 0x81:
        value_at = key_end + 1
        at = value_at + (size >> 1)
    elif not size & 1 and (more := body[key_end + 1]) < 0x80:
        value_at = key_end + 2
        at = value_at + (size >> 1 & 0x3F | more << 6)
    else:
        return None
    key, value = body[1:key_end], body[value_at:at]
    count = body[at]
    if count & 0x81:
        return None
    at += 1
    headers: Headers = []
    for _ in range(count >> 1):
        name_size = body[at]
        name_end = at + 1 + (name_size >> 1)
        size = body[name_end]
        if (name_size | size) & 0x81:
            return None
        end = name_end + 1 + (size >> 1)
        headers.append((_name(body[at + 1 : name_end]), body[name_end + 1 : end]))
        at = end
    return Parts(key, value, headers) if at == len(body) else None


def _parts(record: Record) -> Parts:
    return Parts(record.key, record.value, [(_name(name), header) for name, header in record.headers])


@lru_cache(NAMES_MAX)
def _name(name: bytes) -> str:
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord("a header's name is not UTF-8") from error
    if "\0" in text:
        raise MalformedRecord("a header's name holds a NUL")
    return text


# --- into a body


def body_of(message: Message) -> bytes:
    headers: Any = message.headers() or ()
    return _short_body(message.key(), message.value(), headers) or _body(message.key(), message.value(), headers)


def _short_body(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    """None where something is null or longer than two bytes can hold; a record without a key is common."""
    lengths = _LENGTHS
    try:
        parts = [b"\x01"] if key is None else [lengths[len(key)], key]
        parts += lengths[len(value)], value, lengths[len(headers)]  # type: ignore[arg-type]
        for name, header in headers:
            parts += _named(name), lengths[len(header)], header  # type: ignore[arg-type]
    except (IndexError, TypeError):
        return None
    return b"".join(parts)


@lru_cache(NAMES_MAX)
def _named(name: str) -> bytes:
    """A header's name behind its length."""
    encoded = name.encode()
    return encode_varint(len(encoded)) + encoded


def _body(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    return encode_body(key, value, [(name.encode(), header) for name, header in headers])


UNPLACED = "stored, but its place is unknown"
"""Of a record that was sent again, and that the broker knows to be a duplicate of one too far back."""


def standing(message: Message) -> tuple[int, int]:
    """Offset and time (epoch ms) of a message that was read, or that the brokers have acknowledged."""
    offset = message.offset()
    assert offset is not None, "a message in a log has one"
    return offset, message.timestamp()[1]


def record_of(message: Message) -> LogRecord:
    return LogRecord(*standing(message), body_of(message))
