"""Messages as brokers store them and pulls bring them, one behind the other.

    int32 size | int32 magic | int32 crc | int32 queue id | int32 flag | int64 queue offset | int64 commit-log offset
    | int32 sysFlag | int64 born | 4 or 16 bytes host, int32 port | int64 stored | 4 or 16 bytes host, int32 port
    | int32 reconsume times | int64 prepared-transaction offset | int32 length, body
    | int8 (magic v2: int16) length, topic | int16 length, properties

(`MessageDecoder.decode`, `MessageSysFlag`, `MessageVersion`) `read_messages` is a hot loop: bench/rocketmq_wire.py.
"""

import struct
import zlib
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from rocketmq.errors import CorruptBody, InvalidRequest, Malformed
from rocketmq.wire.batch import decode_batch
from rocketmq.wire.compression import BODY_BYTES_MAX, compression_of, decompress
from rocketmq.wire.ids import StoredAt, encode_message_id, host_text
from rocketmq.wire.properties import decode_properties

MAGIC_V1, MAGIC_V2 = -626843481, -626843477
MAGIC_BLANK = -875286124
"""Fills the end of a commit-log file."""

_FIXED_V4 = struct.Struct(">iiiiiqqiq4siq4siiqi")
_SIZE = struct.Struct(">i")
_INT8, _INT16, _INT32 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i")
_HEAD = struct.Struct(">iiiiiqqi")
_CRC_MASK = 0x7FFF_FFFF


class SysFlag(IntFlag):
    """Bits of a message's sysFlag. Bits 8 to 10 name the body's compression: `compression.Compression`."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    PREPARED = 0x4
    COMMITTED = 0x8
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80


class TransactionState(IntEnum):
    """Bits 2 and 3 of sysFlag, together."""

    NONE = 0
    PREPARED = 0x4
    COMMITTED = 0x8
    ROLLED_BACK = 0xC


_TRANSACTION_MASK = 0xC
_V6 = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)


class StoredMessage(NamedTuple):
    """`body` and `properties` as they are stored; hosts as packed addresses; times in ms since the epoch, by the
    producer's clock (`born_ms`) and the broker's (`stored_ms`)."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    born_ms: int
    born_ip: bytes
    born_port: int
    stored_ms: int
    store_ip: bytes
    store_port: int
    reconsume_times: int
    prepared_offset: int
    body_crc: int

    @property
    def offset_message_id(self) -> str:
        return encode_message_id(StoredAt(host_text(self.store_ip), self.store_port, self.commit_log_offset))

    @property
    def transaction(self) -> TransactionState:
        return TransactionState(self.sys_flag & _TRANSACTION_MASK)

    def properties_map(self) -> dict[str, str]:
        """Raises Malformed."""
        return decode_properties(self.properties)

    def plain_body(self, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """Decompressed. Raises Malformed, BodyTooLarge, UnknownCompression."""
        compression = compression_of(self.sys_flag)
        return self.body if compression is None else decompress(compression, self.body, bytes_max)


class ReadMessages(NamedTuple):
    """What there is, and how many bytes at the end are the beginning of a message that is not all there."""

    messages: list[StoredMessage]
    cut_bytes: int


def read_messages(data: bytes | memoryview, *, checks_crc: bool = True) -> ReadMessages:
    """All messages of a pull's body. Raises Malformed, CorruptBody."""
    data = bytes(data)
    found: list[StoredMessage] = []
    at, end = 0, len(data)
    while end - at >= _SIZE.size:
        (size,) = _SIZE.unpack_from(data, at)
        if size > end - at:
            break
        if size < _HEAD.size:
            raise Malformed(f"a message of {size} bytes")
        found.append(_read(data, at, at + size, checks_crc))
        at += size
    return ReadMessages(found, end - at)


def unwrap(message: StoredMessage) -> list[StoredMessage]:
    """The members of a message that is a batch within (`INNER_BATCH` and `NEED_UNWRAP`), itself where it is none.
    Raises Malformed, BodyTooLarge, UnknownCompression."""
    if not (message.sys_flag & SysFlag.INNER_BATCH and message.sys_flag & SysFlag.NEED_UNWRAP):
        return [message]
    plain = message.sys_flag & ~int(SysFlag.COMPRESSED)
    return [
        message._replace(
            queue_offset=message.queue_offset + number,
            body=bytes(member.body),
            properties=member.properties.encode(),
            flag=member.flag,
            sys_flag=plain,
        )
        for number, member in enumerate(decode_batch(message.plain_body()))
    ]


def _read(data: bytes, at: int, end: int, checks_crc: bool) -> StoredMessage:
    try:
        if _INT32.unpack_from(data, at + 36)[0] & _V6:
            head, body_at = _read_head(data, at)
        else:
            head, body_at = _FIXED_V4.unpack_from(data, at), at + _FIXED_V4.size
        (_, magic, crc, queue_id, flag, offset, place, sys_flag, born_ms, born_ip, born_port) = head[:11]
        (stored_ms, store_ip, store_port, reconsume_times, prepared_offset, body_bytes) = head[11:]
        topic_at = body_at + body_bytes
        length = _INT8 if magic == MAGIC_V1 else _INT16
        if body_bytes < 0 or magic not in (MAGIC_V1, MAGIC_V2):
            raise Malformed(f"a message with magic {magic & 0xFFFF_FFFF:08x} and a body of {body_bytes} bytes")
        topic_from = topic_at + length.size
        topic_to = topic_from + length.unpack_from(data, topic_at)[0]
        properties_from = topic_to + _INT16.size
        properties_to = properties_from + (_INT16.unpack_from(data, topic_to)[0] if topic_to >= topic_from else 0)
        if not topic_from <= topic_to < properties_from <= properties_to <= end:
            raise Malformed("a message whose lengths do not fit its size")
        body = data[body_at:topic_at]
        if checks_crc and crc and zlib.crc32(body) & _CRC_MASK != crc & _CRC_MASK:
            raise CorruptBody(f"queue {queue_id}, offset {offset}: the checksum does not fit the body")
        topic = data[topic_from:topic_to].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"not a message: {error}") from error
    return StoredMessage(
        *(topic, queue_id, offset, place, body, data[properties_from:properties_to], flag, sys_flag, born_ms),
        *(born_ip, born_port, stored_ms, store_ip, store_port, reconsume_times, prepared_offset, crc),
    )


def _read_head(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    """Where one of the hosts has an IPv6 address. Raises struct.error."""
    layout = _layout(_INT32.unpack_from(data, at + 36)[0])
    return layout.unpack_from(data, at), at + layout.size


def _layout(sys_flag: int) -> struct.Struct:
    born, stored = (16 if sys_flag & bit else 4 for bit in (SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6))
    return struct.Struct(f">iiiiiqqiq{born}siq{stored}siiqi")


def encode_message(message: StoredMessage) -> bytes:
    """As a broker stores it, with the checksum of its body; for scripted brokers and tests. Topics of more than
    127 bytes take the second layout. Raises InvalidRequest."""
    topic = message.topic.encode()
    length, magic = (_INT8, MAGIC_V1) if len(topic) < 128 else (_INT16, MAGIC_V2)
    layout = _layout(message.sys_flag)
    size = layout.size + len(message.body) + length.size + len(topic) + _INT16.size + len(message.properties)
    try:
        head = layout.pack(
            *(
                size,
                magic,
                zlib.crc32(message.body) & _CRC_MASK,
                message.queue_id,
                message.flag,
                message.queue_offset,
            ),
            *(message.commit_log_offset, message.sys_flag, message.born_ms, message.born_ip, message.born_port),
            *(message.stored_ms, message.store_ip, message.store_port, message.reconsume_times),
            *(message.prepared_offset, len(message.body)),
        )
        tail = _INT16.pack(len(message.properties))
        return b"".join((head, message.body, length.pack(len(topic)), topic, tail, message.properties))
    except struct.error as error:
        raise InvalidRequest(f"a message that cannot be encoded: {error}") from error
