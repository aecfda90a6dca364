"""The body of SEND_BATCH_MESSAGE: messages that share all fields of the request's header.

    (int32 size | int32 magic 0 | int32 crc 0 | int32 flag | int32 length, body | int16 length, properties)*

Brokers pass over the delays of members: they are stored at once, with the properties as they came.
(`MessageDecoder.encodeMessages`)
"""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rocketmq.errors import InvalidRequest, Malformed
from rocketmq.wire.properties import decode_properties, encode_properties

_HEAD = struct.Struct(">iiiii")
_INT16 = struct.Struct(">h")


class BatchMember(NamedTuple):
    """`properties` as the protocol's text; decode with `properties_map`."""

    body: bytes | memoryview
    properties: str = ""
    flag: int = 0

    def properties_map(self) -> dict[str, str]:
        return decode_properties(self.properties)


def member(body: bytes, properties: Mapping[str, str], flag: int = 0) -> BatchMember:
    """Raises InvalidRequest."""
    return BatchMember(body, encode_properties(properties), flag)


def encode_batch(members: Iterable[BatchMember]) -> bytes:
    """Raises InvalidRequest. A hot loop."""
    parts: list[bytes | memoryview] = []
    pack, pack_length, fixed = _HEAD.pack, _INT16.pack, _HEAD.size + _INT16.size
    try:
        for body, text, flag in members:
            properties = text.encode()
            parts += (
                pack(fixed + len(body) + len(properties), 0, 0, flag, len(body)),
                body,
                pack_length(len(properties)),
                properties,
            )
    except (struct.error, UnicodeEncodeError) as error:
        raise InvalidRequest(f"a member of a batch that cannot be encoded: {error}") from error
    return b"".join(parts)


def decode_batch(data: bytes | memoryview) -> list[BatchMember]:
    """As a broker reads it (`MessageExtEncoder.encode`), which takes a batch and nothing behind it, and passes over
    the outer sizes. What is no UTF-8 is replaced, as in the clients that get it. Raises Malformed."""
    view = memoryview(data)
    members, at = [], 0
    while at < len(view):
        try:
            _, _, _, flag, body_bytes = _HEAD.unpack_from(view, at)
            body_at = at + _HEAD.size
            body_to = body_at + body_bytes
            (properties_bytes,) = _INT16.unpack_from(view, body_to if body_bytes >= 0 else len(view))
            properties_at = body_to + _INT16.size
            end = properties_at + properties_bytes
            if properties_bytes < 0 or end > len(view):
                raise Malformed("a member of a batch whose lengths do not fit")
            members.append(BatchMember(view[body_at:body_to], str(view[properties_at:end], "utf-8", "replace"), flag))
        except struct.error as error:
            raise Malformed(f"not a batch: {error}") from error
        at = end
    return members
