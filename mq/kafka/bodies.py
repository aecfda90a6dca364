"""Bodies <-> librdkafka's messages. Hot: once per record each way (see bench/floors.py for what a record costs)."""

from typing import Any, NamedTuple

from confluent_kafka import Message

from delayline.errors import MalformedRecord
from delayline.record import decode_body, encode_body
from mq.contract import LogRecord

BATCH_OVERHEAD_BYTES = 80
"""A v2 batch of one record has 61 bytes of its own, and the record at most 17 before its body."""

Headers = list[tuple[str, str | bytes | None]]


class Parts(NamedTuple):
    """A body as `Producer.produce` takes it."""

    key: bytes | None
    value: bytes | None
    headers: Headers


def parts_of(body: bytes) -> Parts:
    """Raises MalformedRecord, also for a header whose name is not UTF-8 or holds a NUL: the library would cut it."""
    key, value, headers = decode_body(body)
    return Parts(key, value, [(_name(name), header) for name, header in headers])


def _name(name: bytes) -> str:
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord("a header's name is not UTF-8") from error
    if "\0" in text:
        raise MalformedRecord("a header's name holds a NUL")
    return text


def body_of(message: Message) -> bytes:
    found: Any = message.headers() or ()
    headers = [(name.encode(), value) for name, value in found]
    return encode_body(message.key(), message.value(), headers)


def record_of(message: Message) -> LogRecord:
    offset = message.offset()
    assert offset is not None, "a message that was read has one"
    return LogRecord(offset, message.timestamp()[1], body_of(message))
