"""Whole messages: tables with an API, and frames around them.

    frame           = int32 length | payload
    request payload = int16 api | int16 version | int32 correlation id | int16-string client id | [tags] | body
    answer payload  = int32 correlation id | [tags] | body

The tags are there in flexible versions (`kafkawire.protocol.apis`). What is encoded is a list of buffers, so that the
records of a Produce are never copied; give it to `writelines`.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

from kafkawire.protocol.apis import ApiKey, is_flexible, is_let_through, response_header_is_flexible
from kafkawire.protocol.codec import FieldCodec, codec_of
from kafkawire.protocol.errors import Malformed, UnsupportedVersion
from kafkawire.protocol.primitives import ITEMS_MAX, NULL, Buffer, Reader, Writer, length_of
from kafkawire.protocol.schema import Struct

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
NO_TAGS = b"\x00"


@dataclass(slots=True)
class Message(Struct):
    """Base of the body of a request or of an answer."""

    api: ClassVar[ApiKey]


M = TypeVar("M", bound=Message)


def body_codec(cls: type[Message], version: int) -> FieldCodec:
    """Raises UnsupportedVersion for one that is not let through."""
    if not is_let_through(cls.api, version):
        raise UnsupportedVersion(f"{cls.__name__} version {version}")
    return codec_of(cls, version, is_flexible(cls.api, version))


def decode(cls: type[M], version: int, body: Buffer, items_max: int = ITEMS_MAX) -> M:
    """The message whose body this is; byte fields are slices of `body`. Raises Malformed and UnsupportedVersion."""
    reader = Reader(body, items_max)
    message: M = body_codec(cls, version).read(reader)
    # Left-over bytes mean that both sides disagree about the version: what was read may be shifted.
    if reader.at != reader.end:
        raise Malformed(f"bytes behind the end of {cls.__name__}")
    return message


def encode(message: Message, version: int) -> list[Buffer]:
    """The body as buffers. Values out of a field's range are the caller's mistake (struct.error)."""
    writer = Writer()
    body_codec(type(message), version).write(writer, message)
    return writer.finish()


class RequestHeader(NamedTuple):
    """What stands before every request; `tags` are the tagged fields as they came."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None = None
    tags: Buffer = NO_TAGS


class Peek(NamedTuple):
    """The first eight bytes of a request, which look the same in every version of every API."""

    api_key: int
    version: int
    correlation_id: int


PEEK_BYTES = _REQUEST.size


def peek(payload: Buffer) -> Peek:
    """Raises Malformed."""
    if len(payload) < PEEK_BYTES:
        raise Malformed("a request shorter than its header")
    return Peek(*_REQUEST.unpack_from(payload))


def read_request(payload: Buffer) -> tuple[RequestHeader, memoryview]:
    """Header and body. Raises Malformed, and UnsupportedVersion for an API that is not let through at all."""
    api_key, version, correlation_id = peek(payload)
    flexible = is_flexible(api_key, version)
    reader = Reader(payload)
    reader.advance(PEEK_BYTES)
    length = reader.int16_length()
    client_id = None if length == NULL else reader.text(length)
    # Kept as bytes: a proxy passes on tags that it does not know (KIP-482).
    tags = _raw_tags(reader) if flexible else NO_TAGS
    return RequestHeader(api_key, version, correlation_id, client_id, tags), reader.data[reader.at :]


def _raw_tags(reader: Reader) -> Buffer:
    start = reader.at
    for _ in range(reader.uvarint()):
        reader.uvarint()
        reader.advance(reader.uvarint())
    return reader.data[start : reader.at]


def request_frame(header: RequestHeader, body: list[Buffer]) -> list[Buffer]:
    """A whole frame, length first."""
    writer = Writer()
    writer.small += _REQUEST.pack(*header[:3])
    if header.client_id is None:
        writer.int16_length(NULL)
    else:
        client_id = header.client_id.encode()
        writer.int16_length(len(client_id))
        writer.small += client_id
    if is_flexible(header.api_key, header.version):
        writer.small += header.tags
    return _framed(writer, body)


def read_response(api_key: int, version: int, payload: Buffer) -> tuple[int, memoryview]:
    """Correlation id and body of the answer to a request of `version`. Raises Malformed and UnsupportedVersion."""
    flexible = response_header_is_flexible(api_key, version)
    reader = Reader(payload)
    (correlation_id,) = reader.unpack(_LENGTH)
    if flexible:
        _raw_tags(reader)
    return correlation_id, reader.data[reader.at :]


def read_answer(api_key: int, version: int, correlation_id: int, payload: Buffer) -> memoryview:
    """The body of the answer to this request. Raises Malformed, also for one to another request, and
    UnsupportedVersion."""
    found, body = read_response(api_key, version, payload)
    if found != correlation_id:
        raise Malformed(f"an answer to request {found} instead of {correlation_id}")
    return body


def response_frame(api_key: int, version: int, correlation_id: int, body: list[Buffer]) -> list[Buffer]:
    """A whole frame, length first."""
    writer = Writer()
    writer.small += _LENGTH.pack(correlation_id)
    if response_header_is_flexible(api_key, version):
        writer.small += NO_TAGS
    return _framed(writer, body)


def _framed(writer: Writer, body: list[Buffer]) -> list[Buffer]:
    header = bytes(writer.small)
    writer.small[:0] = _LENGTH.pack(len(header) + length_of(body))
    for part in body:
        writer.splice(part)
    return writer.finish()


def with_correlation_id(payload: Buffer, correlation_id: int) -> list[Buffer]:
    """The frame of a request, otherwise as it came, under another correlation id."""
    head = _LENGTH.pack(len(payload)) + bytes(payload[:4]) + _LENGTH.pack(correlation_id)
    return [head, memoryview(payload)[8:]]
